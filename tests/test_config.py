"""Configs: found by path or preset, read as JSON, refused with file, field and value."""

import json
import re
import subprocess
import sys

import pytest

from fanin import config, families

TINY = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 100}


def test_finds_a_file_a_folder_and_a_preset(tmp_path, monkeypatch):
    (tmp_path / "config.json").write_text(json.dumps(TINY))
    assert config.load(tmp_path) == config.load(str(tmp_path / "config.json")) == TINY
    monkeypatch.chdir(tmp_path)
    assert config.load("GPT2")["n_layer"] == 12
    (tmp_path / "gpt2").mkdir()  # a local path wins over a preset
    (tmp_path / "gpt2" / "config.json").write_text(json.dumps(TINY))
    assert config.load("gpt2") == TINY


def test_reads_a_byte_order_mark(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(TINY), encoding="utf-8-sig")
    assert config.load(tmp_path) == TINY


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "Expecting value"),
        (b'{"model_type": "gpt2",}', "line 1 column"),
        (b"[1, 2]", r"holds \[1, 2\], not an object"),
        (b"null", "holds null"),
        (b"\xff\xfe{}", "utf-8"),
        (b'{"n_embd": ' + b"9" * 5000 + b"}", "digit"),
        (b"[" * 200_000, "nested too deeply"),
        (b" " * (2**24 + 1), "larger than"),
    ],
)
def test_refuses_what_is_no_config(tmp_path, content, message):
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"config\.json: not a config\.json: .*{message}"):
        config.load(path)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("gpt3", "unknown preset 'gpt3'; did you mean 'gpt2'"),
        ("openai-community/gpt2-x", "did you mean 'gpt2-xl'"),
        ("nowhere/config.json", "no such file or folder$"),
        ("./gpt2", "no such file or folder$"),
        ("", "must be a path"),
        ("a\0b", "must be a path"),
        (".", "has no config.json"),
    ],
)
def test_refuses_what_is_not_there(given, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=message):
        config.load(given)


@pytest.mark.parametrize("field", ["vocab_size", "hidden_size", "intermediate_size"])
@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (-4, "-4"),
        (True, "true"),
        (64.0, "64.0"),
        ("64", '"64"'),
        (None, "null"),
        ([64], "[64]"),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (2**31, "2147483648"),
        (10**100, "1" + 49 * "0" + "..."),
    ],
)
def test_refuses_an_absurd_size(field, value, shown):
    message = f"a.json: {field} is {shown}: must be a whole number from 1 to 2147483647"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        families.build(TINY | {field: value}, source="a.json")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"model_type": None}, "model_type is missing; known: .*bert, .*gpt2, .*llama"),
        ({"model_type": 3}, "model_type is 3"),
        (
            {"model_type": "lama"},
            "unknown model_type 'lama'; did you mean 'llama'.*transformers 5",
        ),
        ({"architectures": "LlamaModel"}, 'architectures is "LlamaModel": must be a list'),
        ({"architectures": [None]}, r"architectures is \[null\]"),
        (
            {"architectures": ["LlamaForCausalML"]},
            "unknown architecture 'LlamaForCausalML'; did you mean 'LlamaForCausalLM'",
        ),
        ({"num_hidden_layers": 10**6}, "num_hidden_layers is 1000000: .* from 1 to 10000"),
        ({"num_attention_heads": 3}, "hidden_size is 64: .* multiple of num_attention_heads"),
        (
            {"num_key_value_heads": 3},
            "num_attention_heads is 4: .* num_key_value_heads, which is 3",
        ),
        (
            {"pad_token_id": 100},
            "pad_token_id is 100: must be null or below vocab_size, which is 100",
        ),
        ({"pad_token_id": -101}, "pad_token_id is -101"),
        ({"pad_token_id": "0"}, 'pad_token_id is "0": must be null or a whole number'),
        ({"attention_bias": 1}, "attention_bias is 1: must be true or false"),
        ({"tie_word_embeddings": None}, "tie_word_embeddings is null"),
        ({"hidden_act": 3}, "hidden_act is 3: must be a string"),
        ({"initializer_range": -0.02}, "initializer_range is -0.02: must be a finite number"),
        ({"initializer_range": float("nan")}, "initializer_range is NaN"),
        ({"initializer_range": 10**400}, "initializer_range is 1000"),
        ({"initializer_range": False}, "initializer_range is false"),
        ({"torch_dtype": "int8"}, "torch_dtype: unknown dtype 'int8'"),
        ({"dtype": "bfloat61"}, "dtype: .*bfloat16"),
        ({"dtype": 16}, "dtype is 16: must be the name of a dtype"),
        ({"per_layer_config": {"0": {}}}, "per_layer_config .* not supported"),
        (
            {"model_type": "gpt2", "n_embd": 60, "hidden_size": 64, "num_attention_heads": 5},
            "hidden_size is 64: must be a multiple of num_attention_heads, which is 5",
        ),
        ({"model_type": "bert", "add_cross_attention": True}, "needs is_decoder"),
        (
            {"model_type": "gemma2", "num_attention_heads": 7, "num_key_value_heads": 1},
            "hidden_size is 64: must be a multiple of num_attention_heads, which is 7",
        ),
        (
            {"model_type": "phi3", "vocab_size": 100},
            "pad_token_id is 32000: must be null or below vocab_size, which is 100",
        ),
        ({"model_type": "stablelm", "use_qkv_bias": 1}, "use_qkv_bias is 1: must be true or false"),
        (
            {"model_type": "falcon", "new_decoder_architecture": True, "num_kv_heads": 3},
            "num_attention_heads is 4: must be a multiple of num_kv_heads, which is 3",
        ),
        ({"model_type": "bloom", "n_embed": 62}, "n_embed is 62: .* of num_attention_heads"),
        ({"model_type": "opt", "init_std": -1}, "init_std is -1: must be a finite number"),
        ({"model_type": "opt", "pad_token_id": 100}, "pad_token_id is 100: .* below vocab_size"),
        ({"model_type": "gptj", "num_attention_heads": 7}, "hidden_size is 64: .* which is 7"),
        ({"model_type": "gpt_neox", "num_attention_heads": 5}, "hidden_size is 64: .* which is 5"),
        ({"model_type": "gemma7"}, "unknown model_type 'gemma7'; did you mean 'gemma"),
    ],
)
def test_refuses_fields(fields, message):
    with pytest.raises(ValueError, match=rf"^a\.json: .*{message}"):
        families.build(TINY | fields, source="a.json")


def test_errors_name_the_file(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(TINY | {"vocab_size": 0}))
    with pytest.raises(ValueError, match=rf"^{tmp_path}/config\.json: vocab_size is 0"):
        families.load(tmp_path)


def test_reading_and_planning_need_no_numpy():
    code = (
        "import sys; from fanin import config, families, plan, schemes;"
        " plan.make_plan(families.load('gpt2'));"
        " print([name for name in ('numpy', 'ml_dtypes', 'torch') if name in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout == "[]\n"
