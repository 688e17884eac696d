"""The command line: what it prints where, its exit codes, and what it does not import."""

import json
import os
import subprocess
import sys
import termios

import pytest

import fanin
from fanin import cli, families
from fanin.diagnose import predict_depth, predict_first_loss
from fanin.plan import make_plan
from tiny_models import CONFIGS


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "given.json"
    path.write_text(json.dumps(CONFIGS["gpt2"]))
    return str(path)


@pytest.fixture
def run(capsys):
    """Run the command in this process; returns exit code, stdout and stderr."""

    def run(*arguments):
        code = cli.main([str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    return run


def _process(*arguments, **options):
    environment = {**os.environ, "PYTHONUNBUFFERED": ""}
    options = {"capture_output": True, "text": True, "env": environment, **options}
    return subprocess.run([sys.executable, "-m", "fanin", *arguments], check=False, **options)


def test_init_writes_a_checkpoint_and_says_what_it_is(run, config, tmp_path):
    code, out, err = run("init", config, tmp_path / "out")
    assert (code, err) == (0, "")
    assert "config.json  " in out
    assert "model.safetensors  " in out
    assert "GPT2LMHeadModel: 7,616 parameters, 30,464 bytes" in out
    assert "dtype float32, scheme auto, seed 0" in out
    assert f"{tmp_path}/out is complete" in out
    assert (tmp_path / "out" / "model.safetensors").exists()


def test_init_again_keeps_everything(run, config, tmp_path):
    run("init", config, tmp_path / "out")
    code, out, _ = run("init", config, tmp_path / "out")
    assert code == 0
    assert out.count("  kept\n") == 2
    assert "written" not in out


def test_init_options_reach_the_checkpoint(run, config, tmp_path):
    options = ["--seed", "7", "--dtype", "bfloat16", "--scheme", "gpt2", "--max-shard-size", "9KB"]
    overrides = ["--set", "*.wpe.weight=zeros", "--set", "*ln_f.bias=uniform(low=-1, high=1)"]
    code, out, _ = run(
        "init", config, tmp_path / "out", *options, *overrides, "--threads", 2, "--json"
    )
    assert code == 0
    report = json.loads(out)
    assert report["dry_run"] is False
    assert report["folder"] == f"{tmp_path}/out"
    assert report["num_parameters"] == 7616
    assert report["num_bytes"] == 15232
    assert report["recipe"]["seed"] == 7
    assert report["recipe"]["dtype"] == "bfloat16"
    assert report["recipe"]["scheme"] == "gpt2"
    assert [pattern for pattern, _ in report["recipe"]["overrides"]] == [
        "*.wpe.weight",
        "*ln_f.bias",
    ]
    assert [file["name"] for file in report["files"]] == [
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "config.json",
        "model.safetensors.index.json",
    ]
    for file in report["files"]:
        assert (tmp_path / "out" / file["name"]).stat().st_size == file["num_bytes"]
        assert file["kept"] is False


def test_init_keeps_on_trust_when_asked(run, config, tmp_path):
    run("init", config, tmp_path / "out", "--no-fsync")
    path = tmp_path / "out" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    code, out, err = run("init", config, tmp_path / "out", "--no-check")
    assert (code, err, out.count("  kept\n")) == (0, "", 2)
    code, out, err = run("init", config, tmp_path / "out", "--fsync")
    assert code == 0
    assert out.count("  written\n") == 1
    assert err.startswith(
        "fanin: note: model.safetensors is written again: transformer.wte.weight["
    )


def test_init_as_one_of_several_processes(run, config, tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    options = (config, tmp_path / "out", "--max-shard-size", "13KB")
    code, out, err = run("init", *options)
    assert code == 0
    assert err == (
        "fanin: note: process 1 of 2, by RANK, WORLD_SIZE; to write everything alone:"
        " --rank 0 --world-size 1\n"
    )
    assert "process 1 of 2, numbered from 0\n" in out
    assert f"{tmp_path}/out still lacks 1 of the files, which are other processes' (" in out
    code, out, err = run("init", *options, "--rank", 0, "--world-size", 2)
    assert (code, err) == (0, "")
    assert f"{tmp_path}/out is complete (" in out
    monkeypatch.delenv("WORLD_SIZE")
    code, out, err = run("init", *options)
    assert (code, out) == (1, "")
    assert err.startswith("fanin: error: RANK is set and WORLD_SIZE is not: set both or neither")
    assert run("verify", tmp_path / "out")[0] == 0


def test_init_refuses_another_recipe_and_replaces_it_on_request(run, config, tmp_path):
    run("init", config, tmp_path / "out")
    code, out, err = run("init", config, tmp_path / "out", "--seed", 1)
    assert (code, out) == (1, "")
    assert err.startswith(f"fanin: error: {tmp_path}/out holds something else: ")
    assert "seed 0 there, 1 here" in err
    code, out, err = run("init", config, tmp_path / "out", "--seed", 1, "--overwrite")
    assert (code, err) == (0, "")
    assert "seed 1" in out


def test_dry_run_writes_nothing_and_names_the_files(run, config, tmp_path):
    code, out, err = run("init", config, tmp_path / "out", "--dry-run")
    assert (code, err) == (0, "")
    assert "model.safetensors  " in out
    assert out.count("would be written") == 2
    assert "7,616 parameters" in out
    assert "complete" not in out
    code, out, _ = run("init", config, tmp_path / "out", "--dry-run", "--json")
    assert json.loads(out)["dry_run"] is True
    assert not (tmp_path / "out").exists()


def test_init_notes_what_it_leaves_out(run, tmp_path):
    path = tmp_path / "given.json"
    path.write_text(json.dumps({**CONFIGS["gpt2"], "quantization_config": {"bits": 4}}))
    code, _, err = run("init", path, tmp_path / "out")
    assert code == 0
    assert err == (
        "fanin: note: quantization_config is left out of config.json:"
        " the weights are plain float32\n"
    )


def test_plan_prints_the_table(run, config):
    code, out, err = run("plan", config, "--seed", 5, "--scheme", "gpt2")
    assert (code, err) == (0, "")
    plan = make_plan(families.load(config), scheme="gpt2", seed=5)
    assert out == f"{plan.table()}\n{predict_depth(plan)}\n{predict_first_loss(plan)}\n"


def test_plan_json(run):
    code, out, _ = run("plan", "gpt2", "--dtype", "bfloat16", "--json")
    assert code == 0
    plan = json.loads(out)
    assert plan["num_parameters"] == 124_439_808
    assert plan["num_bytes"] == 248_879_616
    assert len(plan["tensors"]) == 148
    assert {"name", "shape", "dtype", "role", "layout", "initializer", "std"} <= set(
        plan["tensors"][0]
    )


@pytest.mark.parametrize("name", ["llama", "bert"])
def test_dtype_is_that_of_the_config_or_float32(run, tmp_path, name):
    path = tmp_path / "given.json"
    path.write_text(json.dumps(CONFIGS[name]))
    dtypes = {"llama": "bfloat16", "bert": "float32"}
    _, out, _ = run("plan", path, "--json")
    assert {tensor["dtype"] for tensor in json.loads(out)["tensors"]} == {dtypes[name]}


def test_info(run):
    code, out, err = run("info")
    assert (code, err) == (0, "")
    assert fanin.__version__ in out
    code, out, _ = run("info", "--json")
    assert json.loads(out)["fanin"] == fanin.__version__


def test_version(run):
    assert run("--version") == (0, f"fanin {fanin.__version__}\n", "")


@pytest.mark.parametrize(
    ("text", "pattern", "initializer"),
    [
        ("a=zeros", "a", "zeros"),
        ("a.*=normal(std=0.01)", "a.*", "normal(std=0.01)"),
        ("a = normal ( mean=0, std=1 )", "a", "normal ( mean=0, std=1 )"),
        ("a=b=normal(std=1)", "a=b", "normal(std=1)"),
        ("a=", "a", ""),
    ],
)
def test_set_is_split_where_the_initializer_begins(text, pattern, initializer):
    assert cli.recipe_options.override(text) == (pattern, initializer)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: COMMAND"),
        (["paint"], "invalid choice: 'paint'"),
        (["init"], "the following arguments are required: CONFIG, OUTPUT"),
        (["init", "gpt2"], "the following arguments are required: OUTPUT"),
        (["plan", "gpt2", "--sed", "1"], "unrecognized arguments: --sed 1"),
        (["plan", "gpt2", "--seed", "one"], "argument --seed: invalid int value: 'one'"),
        (["plan", "gpt2", "--seed"], "argument --seed: expected one argument"),
        (["init", "gpt2", "x", "--max-shard-size", "big"], "size 'big' is not a number of bytes"),
        (["init", "gpt2", "x", "--max-shard-size", "0"], "size '0' is less than a byte"),
        (["init", "gpt2", "x", "--threads", "two"], "argument --threads: invalid int value: 'two'"),
        (["plan", "gpt2", "--set", "zeros"], "'zeros' is not PATTERN=INITIALIZER"),
    ],
)
def test_wrong_usage(run, arguments, message):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("usage: fanin")
    last = err.splitlines()[-1]
    assert last.startswith("fanin: error: ")
    assert message in last


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--seed", "-1"], "seed must be from 0 to 2**64 - 1, got -1"),
        (["--seed", str(2**64)], f"seed must be from 0 to 2**64 - 1, got {2**64}"),
        (["--dtype", "bfloat61"], "bfloat16"),
        (["--scheme", "gtp2"], "gpt2"),
        (["--set", "*.c_porj.weight=zeros"], "*.c_porj.weight"),
        (["--set", "*.weight=nrmal(std=1)"], "nrmal"),
        (["--set", "*.weight=normal(std=-1)"], "std"),
        (["--set", "*.weight="], "initializer"),
        (["--threads", "0"], "threads must be from 1 to 4096, got 0"),
    ],
)
def test_bad_values(run, config, tmp_path, options, message):
    code, out, err = run("init", config, tmp_path / "out", *options)
    assert (code, out) == (1, "")
    assert err.startswith("fanin: error: ")
    assert err.count("\n") == 1
    assert message in err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such file or folder"),
        (b"", "not a config.json"),
        (b"{", "not a config.json"),
        (b"[]", "not a config.json"),
        (b"\xff", "not a config.json"),
        (b"{}", "model_type is missing"),
        (b'{"model_type": "gtp2"}', "gpt2"),
        (b'{"model_type": "gpt2", "architectures": ["GPT3"]}', "GPT3"),
        (b'{"model_type": "gpt2", "n_embd": -1}', "n_embd is -1"),
        (b'{"model_type": "gpt2", "n_layer": 0}', "n_layer is 0"),
        (b'{"model_type": "gpt2", "n_embd": 770}', "n_embd"),
        (b'{"model_type": "gpt2", "torch_dtype": "int8"}', "int8"),
    ],
)
def test_bad_configs(run, tmp_path, content, message):
    path = tmp_path / "given.json"
    if content is not None:
        path.write_bytes(content)
    code, out, err = run("init", path, tmp_path / "out")
    assert (code, out) == (1, "")
    assert err.startswith("fanin: error: ")
    assert err.count("\n") == 1
    assert message in err
    assert not (tmp_path / "out").exists()


def test_an_unknown_preset_is_answered_with_the_nearest(run):
    code, _, err = run("plan", "gtp2")
    assert code == 1
    assert "gpt2" in err


def test_errors_of_the_system_are_one_line(run, config, tmp_path):
    (tmp_path / "file").touch()
    code, out, err = run("init", config, tmp_path / "file")
    assert (code, out) == (1, "")
    assert err == f"fanin: error: {tmp_path}/file: the output is not a folder\n"
    code, _, err = run("init", config, tmp_path / "file" / "below")
    assert code == 1
    assert err == f"fanin: error: {tmp_path}/file/below: Not a directory\n"


def test_errors_that_quote_anything_are_one_line(run, tmp_path):
    config = tmp_path / "given.json"
    config.write_text(json.dumps(CONFIGS["gpt2"] | {"a\nb\x1b[31m\ud800": 5}))
    run("init", config, tmp_path / "out")
    config.write_text(json.dumps(CONFIGS["gpt2"]))
    code, _, err = run("init", config, tmp_path / "out")
    assert code == 1
    assert r"config.json has a\nb\x1b[31m\ud800 5 there, None here" in err
    assert err.count("\n") == 1
    code, _, err = run("plan", config, "--scheme", "x" * 100_000)
    assert (code, len(err) < 2000) == (1, True)


def test_a_path_that_stdout_cannot_encode(config, tmp_path):
    environment = {**os.environ, "PYTHONIOENCODING": "ascii:strict"}
    run = _process("init", config, tmp_path / "\u00fc\udcff", env=environment)
    assert (run.returncode, run.stderr) == (0, "")
    assert r"/\xfc\udcff is complete" in run.stdout


def test_out_of_memory_is_one_line(run, config, monkeypatch):
    def fail(*arguments, **options):
        raise MemoryError

    monkeypatch.setattr(families, "load", fail)
    assert run("plan", config) == (1, "", "fanin: error: out of memory\n")


def test_ctrl_c(run, config, monkeypatch):
    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(families, "load", interrupt)
    assert run("plan", config) == (130, "", "fanin: error: interrupted\n")


@pytest.mark.parametrize(
    "arguments", [["--help"], ["init", "--help"], ["plan", "-h"], ["info", "-h"]]
)
def test_help(run, arguments):
    code, out, err = run(*arguments)
    assert (code, err) == (0, "")
    assert out.startswith("usage: fanin")


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["init", "--help"], ["init", "gpt2"], ["init", "x", "y", "--set", "z"]],
)
def test_help_and_usage_errors_import_nothing_large(arguments):
    code = (
        "import sys; from fanin.cli import main; main(sys.argv[1:]);"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, *arguments], check=True, capture_output=True, text=True
    )
    modules = set(run.stderr.splitlines()[-1].split())
    assert "argparse" in modules
    assert not modules & {"numpy", "ml_dtypes", "tqdm", "torch", "transformers"}


def test_the_module_is_the_command(config, tmp_path):
    run = _process("init", config, tmp_path / "out")
    assert (run.returncode, run.stderr) == (0, "")  # no progress bar: stderr is no terminal
    assert "is complete" in run.stdout
    assert _process("init", "gpt2").returncode == 2


@pytest.mark.parametrize("arguments", [["plan", "gpt2"], ["--help"]])
def test_a_reader_may_stop_reading(arguments):
    reading, writing = os.pipe()
    os.close(reading)
    run = _process(*arguments, capture_output=False, stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert (run.returncode, run.stderr) == (141, "")


def test_output_that_cannot_be_printed_is_an_error():
    with open("/dev/full", "w") as full:
        run = _process("plan", "gpt2", capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert (run.returncode, run.stderr) == (1, "fanin: error: No space left on device\n")


def test_progress_bar_is_drawn_on_a_terminal(config, tmp_path):
    master, terminal = os.openpty()
    os.set_blocking(master, False)
    termios.tcsetwinsize(terminal, (24, 80))
    run = _process(
        "init",
        config,
        tmp_path / "out",
        capture_output=False,
        stdout=subprocess.PIPE,
        stderr=terminal,
    )
    shown = os.read(master, 10_000).decode()
    os.close(terminal)
    os.close(master)
    assert run.returncode == 0
    assert "30.5k" in shown
