"""What `fanin verify` finds: every kind of damage, and nothing in a checkpoint that has none."""

import contextlib
import json
import os
import struct
import subprocess
import sys

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import fanin
from fanin.checkpoint import banded_tensors, recipe, write
from fanin.checkpoint.safetensors_layout import shard_of
from fanin.checkpoint.shard_content import shard_content
from fanin.checkpoint.verify import VerifyError, verify
from tiny_models import CONFIGS, tiny_plan

SHARD = 13_000  # bytes; three files of the tiny GPT-2
SECOND = "model-00002-of-00003.safetensors"
INDEX = "model.safetensors.index.json"
STRUCTURED = [("*.c_fc.weight", "orthogonal"), ("*.c_attn.weight#key", "sparse(sparsity=0.5)")]


@pytest.fixture
def folder(tmp_path):
    write(tiny_plan(seed=3), tmp_path / "out", max_shard_size=SHARD)
    return tmp_path / "out"


def _place(path, tensor, index):
    """Offset in the file of a float32 element."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        entry = json.loads(file.read(length))[tensor]
    return (
        8 + length + entry["data_offsets"][0] + 4 * int(np.ravel_multi_index(index, entry["shape"]))
    )


def _flip(path, offset, bit=0):
    with open(path, "r+b") as file:
        file.seek(offset)
        (byte,) = file.read(1)
        file.seek(offset)
        file.write(bytes([byte ^ 1 << bit]))


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("size", ["5GB", 3000])
@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float8_e4m3fn"])
def test_what_was_written_is_right(tmp_path, name, size, dtype):
    plan = tiny_plan(name, dtype=dtype, seed=2**64 - 1, overrides=[("*.weight", "uniform(low=-1)")])
    write(plan, tmp_path, max_shard_size=size)
    seen = []
    report = verify(tmp_path, threads=2, progress=lambda *done: seen.append(done))
    assert report.ok
    assert report.num_bytes == plan.num_bytes
    assert seen == sorted(seen)
    assert seen[-1] == (plan.num_bytes, plan.num_bytes)
    assert all(verify(path).ok for path in tmp_path.glob("*.safetensors"))
    assert json.loads(json.dumps(report.to_json()))["ok"] is True


@pytest.mark.parametrize("band", [2**26, 500])
def test_tensors_made_as_a_whole(tmp_path, monkeypatch, band):
    monkeypatch.setattr(banded_tensors, "BAND_BYTES", band)
    write(tiny_plan(overrides=STRUCTURED), tmp_path)
    assert verify(tmp_path).ok
    tensor = "transformer.h.1.mlp.c_fc.weight"
    path = tmp_path / "model.safetensors"
    for index in [(15, 63), (7, 2), (7, 1)]:
        _flip(path, _place(path, tensor, index))
        (file,) = verify(tmp_path).files
        assert (file.difference.tensor, file.difference.index) == (tensor, index)
    _flip(path, _place(path, "transformer.h.1.ln_1.weight", (3,)))  # made in blocks, lies before
    (file,) = verify(tmp_path).files
    assert file.difference.tensor == "transformer.h.1.ln_1.weight"


def test_the_first_element_that_differs_is_named(folder):
    tensor = "transformer.h.0.mlp.c_fc.weight"
    home = next(path for path in folder.glob("*.safetensors") if tensor in load_file(path))
    value = float(load_file(home)[tensor][3, 5])
    for index in [(9, 9), (3, 6), (3, 5)]:
        with open(home, "r+b") as file:
            file.seek(_place(home, tensor, index))
            file.write(struct.pack("<f", -0.0))
    report = verify(folder)
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    text = f"{tensor}[3, 5] is -0.0 (bits 0x80000000), expected {np.float32(value)!s}"
    assert report.problems == (f"{home.name}: {text} (bits 0x{bits:08x})",)
    assert not report.ok
    (difference,) = [file.difference for file in report.files if file.difference]
    assert difference.to_json() == {
        "tensor": tensor,
        "index": [3, 5],
        "found": 0.0,
        "expected": value,
        "found_bits": "80000000",
        "expected_bits": f"{bits:08x}",
    }


def test_the_first_of_several_is_named_whatever_the_threads(tmp_path):
    fields = {"n_embd": 768, "n_head": 12, "vocab_size": 5003, "n_layer": 1}
    write(tiny_plan(fields=fields), tmp_path, fsync=False)
    path, tensor = tmp_path / "model.safetensors", "transformer.wte.weight"  # 15 blocks
    for index in [(5002, 767), (4000, 3), (1500, 9), (1500, 8)]:
        _flip(path, _place(path, tensor, index))
        for threads in (1, 2, 7):
            (file,) = verify(tmp_path, threads=threads).files
            assert (file.difference.tensor, file.difference.index) == (tensor, index)


def test_bits_count_and_not_values(tmp_path):
    write(tiny_plan(overrides=[("*.wpe.weight", "zeros")]), tmp_path)
    path, tensor = tmp_path / "model.safetensors", "transformer.wpe.weight"
    _flip(path, _place(path, tensor, (1, 2)) + 3, bit=7)
    (problem,) = verify(tmp_path).problems
    assert "wpe.weight[1, 2] is -0.0 (bits 0x80000000), expected 0.0 (bits 0x00000000)" in problem
    with open(path, "r+b") as file:
        file.seek(_place(path, tensor, (1, 2)))
        file.write(struct.pack("<f", float("nan")))
    report = verify(tmp_path)
    assert "is nan (bits 0x7fc00000)" in report.problems[0]
    assert json.loads(json.dumps(report.to_json(), allow_nan=False))["problems"]


def test_every_flipped_bit_of_a_file_is_found(tmp_path):
    write(tiny_plan(fields={"n_layer": 1}), tmp_path)
    path = tmp_path / "model.safetensors"
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    end, size = 8 + length, len(content)
    random = np.random.default_rng(0)
    offsets = [*range(8), *random.integers(8, end, 60), *random.integers(end, size, 20)]
    # A file may say that another version of fanin wrote it.
    version = content.index(fanin.__version__.encode())
    free = range(version, version + len(fanin.__version__))
    for offset in (*map(int, offsets), end - 1, size - 1):
        bit = int(random.integers(8))
        _flip(path, offset, bit)
        with contextlib.suppress(VerifyError):  # no recipe, or another plan
            assert offset in free or not verify(tmp_path).ok, (offset, bit)
        _flip(path, offset, bit)
    assert verify(tmp_path).ok


def _cut(folder):
    os.truncate(folder / SECOND, (folder / SECOND).stat().st_size - 1)
    return f"{SECOND}: has "


def _lengthen(folder):
    os.truncate(folder / SECOND, (folder / SECOND).stat().st_size + 1)
    return f"{SECOND}: has "


def _remove(folder):
    (folder / SECOND).unlink()
    return f"{SECOND} is missing"


def _remove_index(folder):
    (folder / INDEX).unlink()
    return f"{INDEX} is missing"


def _swap(folder):
    first, second = (folder / f"model-0000{k}-of-00003.safetensors" for k in (1, 2))
    first.rename(folder / "x")
    second.rename(first)
    (folder / "x").rename(second)
    return f"{INDEX} has "


def _double(folder):
    (folder / "model.safetensors").write_bytes((folder / SECOND).read_bytes())
    return " is in two files, "


def _empty(folder):
    (folder / SECOND).write_bytes(b"")
    return f"{SECOND}: is not a safetensors file"


def _not_utf8(folder):
    with open(folder / SECOND, "r+b") as file:
        file.seek(20)
        file.write(b"\xff\xfe")
    return f"{SECOND}: the safetensors header is not UTF-8"


def _huge_header(folder):
    with open(folder / SECOND, "r+b") as file:
        file.write(b"\xff" * 8)
    return f"{SECOND}: is not a safetensors file"


def _folder(folder):
    (folder / SECOND).unlink()
    (folder / SECOND).mkdir()
    return f"{SECOND}: is not a file"


def _pipe(folder):
    (folder / SECOND).unlink()
    os.mkfifo(folder / SECOND)
    return f"{SECOND}: is not a file"


def _config_dtype(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"dtype": "bfloat16"}))
    return "config.json has dtype bfloat16 there, float32 here"


def _index_of_others(folder):
    (folder / INDEX).write_text('{"weight_map": {"x": "y"}}')
    return f"{INDEX} has "


def _index_of_nothing(folder):
    (folder / INDEX).write_text("[]")
    return f"{INDEX} is not an index"


def _index_too_long(folder):
    content = json.loads((folder / INDEX).read_text())
    content["weight_map"]["x"] = SECOND
    (folder / INDEX).write_text(json.dumps(content))
    return f"{INDEX} has x, which no file holds"


def _index_in_other_words(folder):
    (folder / INDEX).write_text((folder / INDEX).read_text() + " ")
    return f"{INDEX} has the right tensors, and other text around them"


DAMAGES = [
    _cut, _lengthen, _remove, _remove_index, _swap, _double, _empty, _not_utf8, _huge_header,
    _folder, _pipe, _config_dtype, _index_of_others, _index_of_nothing, _index_too_long,
    _index_in_other_words,
]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_folder_with_a_fault(folder, damage):
    problem = damage(folder)
    report = verify(folder)
    assert not report.ok
    assert any(problem in told for told in report.problems), report.problems
    assert not any("\n" in told for told in report.problems)


def _save_again(folder, change):
    """Change the tensors of a file and save it with the metadata it had."""
    tensors = load_file(folder / SECOND)
    with open(folder / SECOND, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        metadata = json.loads(file.read(length))["__metadata__"]
    save_file(change(tensors), folder / SECOND, metadata=metadata)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda tensors: tensors | {"x": np.zeros(1)}, "holds x, which the model has not"),
        (lambda tensors: dict(list(tensors.items())[1:]), "is in no file"),
        (
            lambda tensors: {k: v.astype(np.float16) for k, v in tensors.items()},
            "says dtype F16 of",
        ),
        (lambda tensors: {k: v[None] for k, v in tensors.items()}, "says shape [1, "),
    ],
)
def test_files_of_other_tensors(folder, change, problem):
    _save_again(folder, change)
    report = verify(folder)
    assert any(problem in told for told in report.problems), report.problems


def test_offsets_that_overlap(folder):
    content = (folder / SECOND).read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    *_, last = header
    begin, end = header[last]["data_offsets"]
    header[last]["data_offsets"] = [begin - 4, end - 4]
    text = json.dumps(header, separators=(",", ":")).encode().ljust(length)
    (folder / SECOND).write_bytes(content[:8] + text + content[8 + length :])
    (problem,) = verify(folder).problems
    assert f"{last} begins at {begin - 4} and overlaps " in problem.replace("'", "")


def test_files_of_two_recipes(folder, tmp_path):
    write(tiny_plan(seed=4), tmp_path / "other", max_shard_size=SHARD)
    (tmp_path / "other" / SECOND).rename(folder / SECOND)
    with pytest.raises(VerifyError, match=f"{SECOND} and .* of two recipes: seed 4 there, 3 here"):
        verify(folder)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"n_layer": 1}, "makes another plan than that of the weights: another model config"),
        ({"model_type": "llama"}, "model type gpt2 there, llama here"),
        ({"model_type": "x"}, "unknown model_type 'x'"),
        ({"n_head": 5}, "n_head"),
    ],
)
def test_an_edited_config(folder, fields, message):
    config = CONFIGS[fields.get("model_type", "gpt2")] if fields.get("model_type") != "x" else {}
    (folder / "config.json").write_text(json.dumps({**CONFIGS["gpt2"], **config, **fields}))
    with pytest.raises(VerifyError, match=message):
        verify(folder)


def test_fields_that_make_no_weights_may_be_edited(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"eos_token_id": 7}))
    assert verify(folder).ok


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("stream_version", 2, "the weights are of stream version 2, this fanin .* makes version 1"),
        ("seed", "x", "the recipe in the metadata makes no plan: seed must be an integer"),
        ("scheme", "x", "makes no plan: unknown scheme 'x'"),
        ("scheme", 3, "makes no plan: "),
        ("overrides", [1], "makes no plan: "),
        ("dtype", None, "makes another plan than that of the weights: dtype None there, float32"),
        ("plan", "x", "makes another plan than that of the weights: another model config"),
    ],
)
def test_recipes_that_cannot_be_followed(tmp_path, monkeypatch, field, value, message):
    original = recipe.recipe
    with monkeypatch.context() as patch:
        patch.setattr(recipe, "recipe", lambda plan: original(plan) | {field: value})
        write(tiny_plan(), tmp_path)
    with pytest.raises(VerifyError, match=message):
        verify(tmp_path)


def test_another_version_of_fanin(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(recipe, "__version__", "0.0.9")
        write(tiny_plan(), tmp_path)
    assert verify(tmp_path).ok  # it made the same plan
    with monkeypatch.context() as patch:
        patch.setattr(recipe, "_digest", lambda plan: "other")
        with pytest.raises(VerifyError, match=r"another plan .*: fanin version 0\.0\.9 there, "):
            verify(tmp_path)


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lambda folder: (folder / "config.json").unlink(), "has no config.json"),
        (lambda folder: (folder / "config.json").write_text("["), "not a config.json"),
        (lambda folder: [path.unlink() for path in folder.glob("*.saf*")], "has no model"),
    ],
)
def test_folders_with_nothing_to_compare(folder, prepare, message):
    prepare(folder)
    with pytest.raises(VerifyError, match=message):
        verify(folder)


def test_texts_that_are_pipes(folder):
    for name in (INDEX, "config.json"):
        (folder / name).unlink()
        os.mkfifo(folder / name)
    with pytest.raises(VerifyError, match=r"has no config\.json"):
        verify(folder)
    (folder / "config.json").unlink()
    write(tiny_plan(seed=3), folder / "other")
    (folder / "other" / "config.json").rename(folder / "config.json")
    assert verify(folder).problems == (f"{INDEX} is missing",)


def test_an_index_that_has_no_end(folder):
    os.truncate(folder / INDEX, 2**42)
    assert verify(folder).problems == (f"{INDEX} is not an index",)


def test_files_of_others(tmp_path):
    save_file({"x": np.zeros(1)}, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(VerifyError, match="was not written by fanin: it has no recipe"):
        verify(tmp_path)
    with pytest.raises(FileNotFoundError):
        verify(tmp_path / "absent")
    text = b'{"x":[]}'
    path = tmp_path / "model.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text)
    with pytest.raises(VerifyError) as error:
        verify(tmp_path)
    assert str(error.value).startswith(f"{path}: tensor 'x' is not described by")


def test_the_only_file_by_its_name_is_the_whole_checkpoint(tmp_path):
    plan = tiny_plan()
    write(plan, tmp_path)
    less = shard_of("model.safetensors", plan.entries[1:], recipe.metadata(recipe.recipe(plan)))
    path = tmp_path / less.filename
    with open(path, "wb") as file:
        shard_content(less, plan.seed).write(file.fileno(), 1, lambda done: None, fsync=False)
    (problem,) = verify(path).problems
    assert problem == f"{plan.entries[0].tensor.name} is in no file"


def test_one_file(folder):
    path = folder / SECOND
    (folder / "model-00001-of-00003.safetensors").unlink()
    report = verify(path)
    assert report.ok
    assert [file.name for file in report.files] == [SECOND]
    _flip(path, path.stat().st_size - 1)
    assert not verify(path).ok


def test_parts_of_tensors(folder):
    tensor = "transformer.h.0.mlp.c_fc.weight"
    home = next(path for path in folder.glob("*.safetensors") if tensor in load_file(path))
    _flip(home, _place(home, tensor, (3, 5)))
    _flip(home, _place(home, tensor, (4, 20)))
    for part in ("[0:3, :]", "[4:, 0:20]", "[5:16,:]", "[3,4]", "[3:3, :]", "[:, 6:20]"):
        assert verify(folder, tensors=[tensor + part]).ok, part
    for part, index in {
        "": (3, 5),
        "[4:, :]": (4, 20),
        "[:, 6:]": (4, 20),
        "[3, 5]": (3, 5),
    }.items():
        report = verify(folder, tensors=["transformer.wpe.weight", tensor + part])
        (difference,) = [file.difference for file in report.files if file.difference]
        assert difference.index == index
    assert verify(folder, tensors=["transformer.wpe.weight"]).num_bytes == 24 * 16 * 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("wpe.weight", "the model has no tensor 'wpe.weight'; the nearest is 'transformer.wpe.wei"),
        ("transformer.wpe.weight[0:1]", "must have a slice for each of the 2 axes"),
        (
            "transformer.wpe.weight[0:25, :]",
            r"slice of transformer.wpe.weight\[0\] must lie within",
        ),
        ("transformer.wpe.weight[-1, :]", "'-1' is neither an index nor a slice such as 0:10"),
        ("transformer.wpe.weight[::2, :]", "'::2' is neither an index"),
        ("transformer.wpe.weight[]", "'' is neither an index"),
    ],
)
def test_parts_that_are_none(folder, text, message):
    with pytest.raises(ValueError, match=message):
        verify(folder, tensors=[text])


def test_a_tensor_of_another_file(folder):
    tensor = next(name for name in load_file(folder / SECOND))
    with pytest.raises(ValueError, match="is not in model-00001-of-00003"):
        verify(folder / "model-00001-of-00003.safetensors", tensors=[tensor])


def test_a_file_that_shrinks_meanwhile(folder):
    path = folder / "model-00003-of-00003.safetensors"

    def shrink(done, total):
        os.truncate(path, 5000)

    problem = f"{path.name}: has 5,000 bytes, "
    assert any(problem in told for told in verify(folder, progress=shrink).problems)


def test_a_file_that_grows_meanwhile(folder):
    path = folder / SECOND
    size = path.stat().st_size
    report = verify(folder, progress=lambda done, total: os.truncate(path, size + 7))
    assert report.problems == (f"{SECOND}: has {size + 7:,} bytes now, {size:,} are due",)


def test_dtypes_and_schemes_with_options(tmp_path):
    dtypes = [("*ln_*", "float32")]
    write(tiny_plan(dtype="float16", dtypes=dtypes, scheme="gpt2(qk_scale=0.5)"), tmp_path)
    assert verify(tmp_path).ok


def test_the_command(folder, tmp_path):
    def run(*arguments):
        command = [sys.executable, "-m", "fanin", "verify", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr

    code, out, err = run(folder, "--tensor", "transformer.wpe.weight[0:2, :]", "--threads", 2)
    assert (code, err) == (0, "")
    assert f"{SECOND}  as sampled" in out
    assert "GPT2LMHeadModel, dtype float32, scheme auto, seed 3, stream version 1" in out
    assert "transformer.wpe.weight[0:2, :]: 128 bytes are as sampled" in out
    _flip(folder / SECOND, (folder / SECOND).stat().st_size - 1)
    (folder / INDEX).unlink()
    code, out, err = run(folder, "--json")
    assert code == 1
    report = json.loads(out)
    assert report["problems"][0] == f"{INDEX} is missing"
    assert report["files"][1]["difference"]["tensor"]
    assert err == f"fanin: error: {folder}: {INDEX} is missing (and 1 more problem)\n"
