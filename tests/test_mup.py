"""mup: standard deviations and learning rates as the width grows, against table 3 of the paper."""

import json

import pytest

from fanin import families, schemes
from fanin.cli import main
from fanin.plan import make_plan
from scheme_models import GPT2, LLAMA, stds

NAMES = {
    "input": "embed_tokens.weight",
    "hidden": "layers.1.mlp.down_proj.weight",
    "output": "lm_head.weight",
    "vector": "norm.weight",
}


def llama(width):
    """A Llama whose every width is in proportion to `width`."""
    return LLAMA | {"hidden_size": width, "intermediate_size": 2 * width}


@pytest.mark.parametrize("m", [1, 2, 16])
def test_growth_with_the_width(m):
    config = llama(64 * m)
    measured = stds("mup(base_width=64, std=0.05)", config)
    rates = schemes.learning_rates("mup(base_width=64)", families.build(config))
    # Exponents of the fan_in in the variance and in Adam's learning rate, table 3.
    table = {"input": (0, 0), "hidden": (-1, -1), "output": (-2, -1)}
    for kind, (variance, rate) in table.items():
        assert measured[NAMES[kind]] ** 2 == pytest.approx(0.05**2 * float(m) ** variance), kind
        name = NAMES[kind] if kind == "output" else f"model.{NAMES[kind]}"
        assert rates[name] == pytest.approx(float(m) ** rate), kind
    assert rates["model.norm.weight"] == 1.0
    assert len(rates) == len(families.build(config).tensors)


def test_the_base_width_is_the_plain_scheme():
    assert stds("mup(base_width=96)", LLAMA) == stds("llama", LLAMA)
    assert set(schemes.learning_rates("mup(base_width=96)", families.build(LLAMA)).values()) == {1}
    assert schemes.learning_rates("llama", families.build(LLAMA)) == {}


def test_what_weights_cannot_do_is_told():
    untied = make_plan(families.build(LLAMA), scheme="mup(base_width=24)")
    scale, rates = untied.notes
    assert "table 3 of Tensor Programs V, 4 times the base width of 24" in scale
    assert "1/head_dim in place of 1/sqrt(head_dim)" in scale
    assert rates.startswith("Adam's learning rate times 1 for embedding, norm.scale; 0.25 for att")
    assert rates.endswith("mlp.gate, mlp.in, mlp.out, head")
    tied = make_plan(families.build(GPT2), scheme="mup(base_width=24)")
    assert "lm_head.weight is tied to the embedding" in tied.notes[1]
    assert "multiply the logits by 0.25" in tied.notes[1]
    assert [f"note: {note}" for note in tied.notes] == tied.table().splitlines()[-4:-1]


def test_json_has_learning_rates_and_notes():
    plan = make_plan(families.build(LLAMA), scheme="mup(base_width=24)")
    content = json.loads(json.dumps(plan.to_json()))
    rates = {tensor["name"]: tensor["learning_rate"] for tensor in content["tensors"]}
    assert rates == plan.learning_rates
    assert content["notes"] == plan.notes
    plain = make_plan(families.build(LLAMA)).to_json()
    assert "notes" not in plain
    assert "learning_rate" not in plain["tensors"][0]


def test_the_command_line_tells_on_stderr_and_in_json(tmp_path, capsys):
    config = tmp_path / "config.json"
    config.write_text(json.dumps(LLAMA))
    options = ["--scheme", "mup(base_width=24)", "--json"]
    assert main(["init", str(config), str(tmp_path / "out"), *options]) == 0
    out, err = capsys.readouterr()
    notes = make_plan(families.build(LLAMA), scheme="mup(base_width=24)").notes
    assert json.loads(out)["notes"][: len(notes)] == notes
    assert err.splitlines()[: len(notes)] == [f"fanin: note: {note}" for note in notes]
