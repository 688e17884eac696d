"""Enough to check an installed wheel, with nothing but the runtime dependencies and pytest."""

import hashlib
import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

import fanin


def test_known_bits():
    values = fanin.normal(2**16, seed=42, name="transformer.wte.weight", dtype="bfloat16")
    assert hashlib.sha256(values.tobytes()).hexdigest() == (
        "539a825ea47de5787a240d0e8588a9480af9ac722577ba8a508a3802c970d72c"
    )


def test_known_answers():
    generator = fanin.Xorshift64Star(1)
    assert generator.next_u64() == 0x47E4CE4B896CDD1D
    assert fanin.position(0, "w") == 0x75628194B0561306


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "float8_e5m2"])
def test_every_kind_of_rule(dtype):
    weight = fanin.he_normal((64, 32), seed=0, name="w", dtype=dtype)
    assert abs(weight.astype(np.float64).std() - 0.25) < 0.02


def test_a_checkpoint(tmp_path):
    config = {"model_type": "llama", "vocab_size": 32, "hidden_size": 16, "num_hidden_layers": 1}
    config |= {"intermediate_size": 24, "num_attention_heads": 2, "num_key_value_heads": 1}
    (tmp_path / "config.json").write_text(json.dumps(config))
    command = [
        sys.executable,
        "-m",
        "fanin",
        "init",
        str(tmp_path),
        str(tmp_path / "out"),
        "--json",
    ]
    result = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert result["num_parameters"] > 0
    assert (tmp_path / "out" / "model.safetensors").stat().st_size > 2 * result["num_parameters"]


def test_metadata():
    assert metadata.version("fanin") == fanin.__version__
    needs = [need for need in metadata.requires("fanin") if "extra ==" not in need]
    names = sorted(need.partition(">")[0].strip() for need in needs)
    assert names == ["ml_dtypes", "numpy", "tqdm"]
    assert {"torch", "jax", "hf", "plot"} == set(
        metadata.metadata("fanin").get_all("Provides-Extra")
    )
    package = Path(fanin.__file__).parent
    for name in ("py.typed", "_core.pyi", "presets/gpt2.json"):
        assert (package / name).is_file(), name
