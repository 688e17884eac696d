"""Whole checkpoints: readable, reproducible, and never half-done."""

import errno
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import namedtuple
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import torch
import transformers
from safetensors import safe_open

import fanin
from fanin.checkpoint import write
from tiny_models import CONFIGS, tiny_plan

CLASSES = {
    "gpt2": transformers.AutoModelForCausalLM,
    "llama": transformers.AutoModelForCausalLM,
    "bert": transformers.AutoModelForMaskedLM,
}
SHARD = 13_000  # bytes; three files of the tiny GPT-2
LARGE = {"n_embd": 1024, "n_layer": 24, "n_head": 16, "n_positions": 1024, "vocab_size": 50257}


def _files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def _tensors(folder):
    tensors = {}
    for path in folder.glob("*.safetensors"):
        with safe_open(path, framework="pt") as file:
            tensors |= {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    return tensors


@pytest.fixture
def ram():
    """A folder in memory where there is one: large files are written and removed."""
    parent = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = Path(tempfile.mkdtemp(dir=parent))
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("size", ["5GB", SHARD])
@pytest.mark.parametrize("name", CLASSES)
def test_transformers_loads_every_tensor(tmp_path, name, size, dtype):
    plan = tiny_plan(name, dtype=dtype)
    write(plan, tmp_path, max_shard_size=size)
    model, info = CLASSES[name].from_pretrained(tmp_path, dtype="auto", output_loading_info=True)
    assert not any(info.values()), info
    assert model.dtype == getattr(torch, dtype)
    assert model.num_parameters() == plan.num_parameters
    state = model.state_dict()
    stored = _tensors(tmp_path)
    assert len(stored) == len(plan.entries)
    for key, tensor in stored.items():
        assert torch.equal(state[key], tensor), key


@pytest.mark.parametrize("name", CLASSES)
def test_files_are_those_of_save_pretrained(tmp_path, name):
    write(tiny_plan(name, dtype="float32"), tmp_path / "ours", max_shard_size=SHARD)
    loaded = CLASSES[name].from_pretrained(tmp_path / "ours")
    model = type(loaded)(loaded.config)  # one that was loaded is saved in another order
    model.load_state_dict(loaded.state_dict())
    model.save_pretrained(tmp_path / "theirs", max_shard_size=SHARD)
    ours, theirs = _files(tmp_path / "ours"), _files(tmp_path / "theirs")
    theirs.pop("generation_config.json", None)
    assert set(ours) == set(theirs)
    index = "model.safetensors.index.json"
    assert ours.pop(index) == theirs.pop(index)
    configs = json.loads(ours.pop("config.json")), json.loads(theirs.pop("config.json"))
    assert configs[0]["dtype"] == configs[1]["dtype"] == "float32"
    assert configs[0]["architectures"] == configs[1]["architectures"]
    for name, content in ours.items():  # all but the metadata, and so the header's length
        begin, end = (8 + int.from_bytes(file[:8], "little") for file in (content, theirs[name]))
        assert content[begin:] == theirs[name][end:]
        header, expected = json.loads(content[8:begin]), json.loads(theirs[name][8:end])
        assert list(header.items())[1:] == list(expected.items())[1:]


def test_tensors_are_the_arrays_of_their_names(tmp_path):
    plan = tiny_plan(dtype="bfloat16", seed=3)
    write(plan, tmp_path)
    stored = _tensors(tmp_path)
    for entry in plan.entries:
        tensor = stored[entry.tensor.name].view(torch.int16).numpy().view(ml_dtypes.bfloat16)
        for part, initializer in zip(entry.tensor.parts, entry.initializers, strict=True):
            matrix = initializer.fill(
                np.empty(part.shape, ml_dtypes.bfloat16),
                seed=3,
                name=part.name,
                layout=part.layout,
            )
            there, here = [], []
            for axis in range(len(part.shape)):
                begin, step = part.tensor_start[axis], part.tensor_step[axis]
                there.append(slice(begin, begin + step * part.extent[axis], step))
                here.append(slice(part.start[axis], part.start[axis] + part.extent[axis]))
            assert tensor[tuple(there)].tobytes() == matrix[tuple(here)].tobytes(), part.name


@pytest.mark.parametrize("size", ["5GB", SHARD])
def test_same_recipe_same_bytes(tmp_path, size):
    expected = None
    for threads in (1, 1, 2, 3, 7, None):
        write(tiny_plan(), tmp_path / "out", max_shard_size=size, threads=threads)
        expected = expected or _files(tmp_path / "out")
        assert _files(tmp_path / "out") == expected
        shutil.rmtree(tmp_path / "out")


def test_large_tensors_have_the_same_bytes_for_any_threads(ram):
    fields = {"n_embd": 768, "n_head": 12, "vocab_size": 5003, "n_layer": 1}
    plan = tiny_plan(fields=fields, dtype="bfloat16")
    write(plan, ram / "expected", threads=1)
    for threads in (2, 3, 7):
        write(plan, ram / "out", threads=threads)
        assert _files(ram / "out") == _files(ram / "expected")
        shutil.rmtree(ram / "out")


def test_the_cut_changes_no_value(tmp_path):
    write(tiny_plan(), tmp_path / "one")
    write(tiny_plan(), tmp_path / "many", max_shard_size=3000)
    one, many = _tensors(tmp_path / "one"), _tensors(tmp_path / "many")
    assert one.keys() == many.keys()
    assert all(torch.equal(one[name], many[name]) for name in one)


def test_metadata_holds_the_recipe(tmp_path):
    plan = tiny_plan(seed=2**64 - 1, scheme="gpt2", overrides=[("*.wpe.weight", "zeros")])
    report = write(plan, tmp_path, max_shard_size=SHARD)
    for path in tmp_path.glob("*.safetensors"):
        with safe_open(path, framework="np") as file:
            metadata = file.metadata()
        assert metadata["format"] == "pt"
        recipe = json.loads(metadata["fanin"])
        assert recipe == report.recipe
        assert recipe | {"plan": ...} == {
            "fanin": fanin.__version__,
            "stream_version": 1,
            "model_type": "gpt2",
            "architecture": "GPT2LMHeadModel",
            "seed": 2**64 - 1,
            "scheme": "gpt2",
            "dtype": "float32",
            "overrides": [["*.wpe.weight", str(fanin.initializers.parse("zeros"))]],
            "dtypes": [],
            "plan": ...,
        }


def test_config_is_the_given_one_with_the_dtype_that_was_written(tmp_path):
    fields = {
        "torch_dtype": "float32",
        "architectures": None,
        "quantization_config": {"quant_method": "fp8"},
        "text_config": {"torch_dtype": "float32", "x": 1},
        "note": "ü",
    }
    report = write(tiny_plan(fields=fields, dtype="bfloat16"), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    expected = CONFIGS["gpt2"] | {
        "dtype": "bfloat16",
        "architectures": ["GPT2LMHeadModel"],
        "text_config": {"dtype": "bfloat16", "x": 1},
        "note": "ü",
    }
    assert config == expected
    assert report.notes == (
        "quantization_config is left out of config.json: the weights are plain bfloat16",
    )


def test_report(tmp_path):
    plan = tiny_plan()
    report = write(plan, tmp_path)
    assert {file.name: file.num_bytes for file in report.files} == {
        path.name: path.stat().st_size for path in tmp_path.iterdir()
    }
    assert not any(file.kept for file in report.files)
    assert (report.num_parameters, report.num_bytes) == (plan.num_parameters, plan.num_bytes)
    assert report.folder == tmp_path
    assert json.loads(json.dumps(report.to_json()))["num_bytes"] == plan.num_bytes


def test_the_work_grows_with_the_number_of_files_and_not_its_square(tmp_path):
    def calls(layers):
        count = 0

        def profile(frame, event, argument):
            nonlocal count
            count += event == "call"

        plan = tiny_plan(fields={"n_layer": layers})
        sys.setprofile(profile)
        try:
            report = write(plan, tmp_path / str(layers), max_shard_size=1, threads=1, fsync=False)
        finally:
            sys.setprofile(None)
        return count / len(report.files)

    assert calls(16) < 1.2 * calls(4)


def test_progress_ends_with_all_bytes(tmp_path):
    seen = []
    plan = tiny_plan()
    write(plan, tmp_path, max_shard_size=SHARD, progress=lambda *done: seen.append(done))
    assert seen == sorted(seen)
    assert seen[-1] == (plan.num_bytes, plan.num_bytes)
    assert {total for _, total in seen} == {plan.num_bytes}


def test_dry_run_writes_nothing(tmp_path):
    report = write(tiny_plan(), tmp_path / "out", dry_run=True)
    assert not list(tmp_path.iterdir())
    assert {file.name for file in report.files} == {"config.json", "model.safetensors"}


def test_output_folders_are_made_and_links_followed(tmp_path):
    write(tiny_plan(), tmp_path / "a" / "b")
    (tmp_path / "link").symlink_to(tmp_path / "a" / "b")
    assert all(file.kept for file in write(tiny_plan(), tmp_path / "link").files)


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        ("file", NotADirectoryError),
        ("file/below", NotADirectoryError),
        ("dangling", FileExistsError),
        ("x" * 300, OSError),
        ("/proc/fanin", OSError),
    ],
)
def test_output_that_cannot_be_a_folder(tmp_path, output, problem):
    (tmp_path / "file").touch()
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    with pytest.raises(problem) as error:
        write(tiny_plan(), tmp_path / output)
    assert str(tmp_path / output) in str(error.value)


def test_output_without_a_name():
    with pytest.raises(ValueError, match="output is an empty path"):
        write(tiny_plan(), "")


def test_space_is_checked_before_anything_is_written(tmp_path, monkeypatch):
    system = namedtuple("system", "f_blocks f_bavail f_frsize")
    plan = tiny_plan()
    needed = write(plan, tmp_path / "out", dry_run=True).files[0].num_bytes
    monkeypatch.setattr(os, "statvfs", lambda path: system(10**9, needed - 1, 1))
    with pytest.raises(OSError, match=f"not enough space: {needed:,} bytes are needed") as error:
        write(plan, tmp_path / "out")
    assert error.value.errno == errno.ENOSPC
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(os, "statvfs", lambda path: system(10**9, needed, 1))
    write(plan, tmp_path / "out")


def test_space_of_what_is_replaced_counts_as_free(tmp_path, monkeypatch):
    system = namedtuple("system", "f_blocks f_bavail f_frsize")
    write(tiny_plan(), tmp_path)
    monkeypatch.setattr(os, "statvfs", lambda path: system(10**9, 0, 1))
    write(tiny_plan(seed=1), tmp_path, overwrite=True)


def test_a_full_disk_leaves_no_file(tmp_path):
    # A limit on the size of files stops a write in the middle, as a full disk does.
    config = tmp_path / "config.json"
    config.write_text(json.dumps(CONFIGS["gpt2"] | {"vocab_size": 100_000}))
    limited = ["sh", "-c", 'ulimit -f 4096; exec "$@"', "sh"]  # in blocks of 512 or 1024 bytes
    run = subprocess.run(
        [*limited, sys.executable, "-m", "fanin", "init", config, tmp_path / "out"],
        capture_output=True,
        text=True,
    )
    assert run.returncode == 1
    assert run.stderr == f"fanin: error: {tmp_path}/out/model.safetensors: File too large\n"
    assert not list((tmp_path / "out").iterdir())


def test_a_full_disk_cuts_no_config_short(tmp_path):
    # The system writes what fits and reports no error; that comes with the next write.
    plan = tiny_plan(fields={"comment": "x" * 100_000})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (65536, hard))
    try:
        with pytest.raises(OSError, match=r"File too large: .*config\.json"):
            write(plan, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [path.name for path in tmp_path.iterdir()] == ["model.safetensors"]


def _start(folder, *options):
    config = folder / "given.json"
    config.write_text(json.dumps(CONFIGS["gpt2"] | LARGE))
    return subprocess.Popen(
        [sys.executable, "-m", "fanin", "init", config, folder / "out", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _wait_for(process, folder, pattern):
    """Wait until a file of that name has some megabytes, while the process is at work."""
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        if any(path.stat().st_size > 5_000_000 for path in folder.glob(pattern)):
            return
        time.sleep(0.002)
    pytest.fail(f"{pattern} never appeared: {process.communicate()}")


@pytest.mark.parametrize(
    ("number", "code", "message"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "ended by SIGTERM")],
)
def test_an_interrupted_run_leaves_no_file(ram, number, code, message):
    process = _start(ram)
    _wait_for(process, ram / "out", ".model*partial")
    process.send_signal(number)
    sent = time.monotonic()
    _, errors = process.communicate(timeout=30)
    assert time.monotonic() - sent < 2
    assert process.returncode == code
    assert errors == f"fanin: error: {message}\n"
    assert not list((ram / "out").iterdir())


def test_a_killed_run_is_finished_by_the_next(ram):
    options = ("--dtype", "bfloat16", "--max-shard-size", "300MB")
    process = _start(ram, *options)
    _wait_for(process, ram / "out", ".model-00002*partial")
    process.kill()
    process.communicate()
    out = ram / "out"
    first, left = out / "model-00001-of-00003.safetensors", out.glob(".model-00002*partial")
    assert len(list(left)) == 1
    before = first.stat()
    process = _start(ram, *options)
    assert process.communicate(timeout=120)[1] == ""
    assert (first.stat().st_ino, first.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    out.rename(ram / "resumed")
    process = _start(ram, *options)
    process.communicate(timeout=120)
    subprocess.run(["diff", "-r", out, ram / "resumed"], check=True)


def test_peak_memory_is_small_whatever_the_model(ram):
    def peak(*arguments):  # bytes
        process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        return usage.ru_maxrss * 1024

    config = ram / "given.json"
    config.write_text(json.dumps(CONFIGS["gpt2"] | LARGE))
    interpreter = peak(sys.executable, "-c", "pass")
    run = peak(sys.executable, "-m", "fanin", "init", config, ram / "out")
    assert (ram / "out" / "model.safetensors").stat().st_size > 1_400_000_000
    assert run - interpreter < 200 << 20
