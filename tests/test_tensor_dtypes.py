"""Dtypes of single tensors: by patterns, in files, in the recipe, and what is refused."""

import json

import ml_dtypes
import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from fanin import cli
from fanin.checkpoint import CheckpointError, write
from tiny_models import CONFIGS, tiny_plan

NORMS = ("*ln_?.*", "float32")


def dtypes_of(plan):
    return {entry.tensor.name: entry.dtype for entry in plan.entries}


def test_the_last_that_matches_decides():
    rules = [("*", "float16"), NORMS, ("transformer.wte.weight", np.float64)]
    dtypes = dtypes_of(tiny_plan(dtype="bfloat16", dtypes=rules))
    assert dtypes.pop("transformer.wte.weight") == "float64"
    assert all(dtypes[name] == "float32" for name in dtypes if ".ln_" in name)
    assert {dtypes[name] for name in dtypes if ".ln_" not in name} == {"float16"}


def test_a_file_has_them_and_its_config_the_dtype_of_the_whole(tmp_path):
    plan = tiny_plan(dtype="bfloat16", seed=3, dtypes={"*ln_?.*": "float32", "*.wpe.*": "float16"})
    report = write(plan, tmp_path)
    loaded = load_file(tmp_path / "model.safetensors")
    assert {name: str(value.dtype)[6:] for name, value in loaded.items()} == dtypes_of(plan)
    alone = tiny_plan(dtype="float16", seed=3)
    write(alone, tmp_path / "float16")
    other = load_file(tmp_path / "float16" / "model.safetensors")
    name = "transformer.wpe.weight"
    assert torch.equal(loaded[name], other[name])
    assert json.loads((tmp_path / "config.json").read_text())["dtype"] == "bfloat16"
    assert report.recipe["dtypes"] == [["*ln_?.*", "float32"], ["*.wpe.*", "float16"]]
    assert report.num_bytes == sum(value.nbytes for value in loaded.values())


def test_they_are_part_of_the_recipe(tmp_path):
    write(tiny_plan(dtype="bfloat16", dtypes=[NORMS]), tmp_path)
    assert all(f.kept for f in write(tiny_plan(dtype="bfloat16", dtypes=[NORMS]), tmp_path).files)
    with pytest.raises(CheckpointError, match=r"has dtypes \*ln_\?\.\*=float32 there, none here"):
        write(tiny_plan(dtype="bfloat16"), tmp_path)


def test_any_object_that_names_a_dtype():
    for dtype in ("bfloat16", ml_dtypes.bfloat16, np.dtype(ml_dtypes.bfloat16), torch.bfloat16):
        assert tiny_plan(dtypes=[("*", dtype)]).num_bytes == 2 * 7616


@pytest.mark.parametrize(
    ("rules", "kind", "message"),
    [
        (
            {"*.ln_3.*": "float32"},
            ValueError,
            r"dtype for '\*\.ln_3\.\*' matches no tensor; near: ",
        ),
        ({"*#query": "float32"}, ValueError, r"dtype for '\*#query' matches no tensor; near: "),
        ({"lm_head.*": "float32"}, ValueError, "dtype for .*lm_head.weight is tied to .*wte"),
        ({"*": "float33"}, ValueError, r"dtype for '\*': unknown dtype 'float33'"),
        ({"*": "int8"}, ValueError, r"dtype for '\*': unknown dtype 'int8'"),
        ({"*": None}, TypeError, r"dtype for '\*': dtype must be one of"),
        ({3: "float32"}, TypeError, "pattern of a dtype must be a string, got 3"),
        ("*=float32", TypeError, r"dtypes must be a mapping or \(pattern, dtype\) pairs"),
        ([("a",)], TypeError, "dtypes must be a mapping"),
    ],
)
def test_rules_that_cannot_be(rules, kind, message):
    with pytest.raises(kind, match=message):
        tiny_plan(dtypes=rules)


def test_what_a_dtype_cannot_hold():
    narrow = {"*.wpe.weight": "uniform(low=1.01, high=1.02)"}
    assert tiny_plan(overrides=narrow)
    with pytest.raises(ValueError, match=r"^transformer\.wpe\.weight: uniform"):
        tiny_plan(overrides=narrow, dtypes={"*.wpe.weight": "float8_e5m2"})


def test_on_the_command_line(tmp_path, capsys):
    path = tmp_path / "given.json"
    path.write_text(json.dumps(CONFIGS["gpt2"]))
    options = [
        "--dtype",
        "bfloat16",
        "--set-dtype",
        "*ln_?.*=float32",
        "--set-dtype",
        "*.wpe.*=float16",
    ]
    assert cli.main(["plan", str(path), *options, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["tensors"]
    rules = {"*ln_?.*": "float32", "*.wpe.*": "float16"}
    assert {row["name"]: row["dtype"] for row in rows} == dtypes_of(
        tiny_plan(dtype="bfloat16", dtypes=rules)
    )
    assert cli.main(["plan", str(path), "--set-dtype", "float32"]) == 2
    assert "'float32' is not PATTERN=DTYPE" in capsys.readouterr().err
