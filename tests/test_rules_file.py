"""Rules in a TOML file: what they become, and the line that every error tells."""

import json

import pytest

from fanin import families
from fanin.checkpoint import recipe
from fanin.cli import main
from fanin.initializers import Constant, Normal
from fanin.plan import make_plan
from fanin.plan.overrides import read_overrides, replacing
from fanin.plan.rules_file import RulesFile, read_rules_file

GPT2 = {"model_type": "gpt2", "vocab_size": 50, "n_embd": 8, "n_layer": 2, "n_head": 2}
GOOD = """\
# how the paper did it
scheme = "gpt2( qk_scale = 0.5 )"
seed = 7
dtype = "bfloat16"

[rules]
"*.weight" = "normal(std=0.01)"   # the last that matches decides
'*.c_attn.weight#query' = "zeros"
"transformer.wpe.weight" = "uniform(-2, 2)"

[dtypes]
"*ln_f*" = "float32"
"""


@pytest.fixture
def write(tmp_path):
    def write(text, name="rules.toml"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def test_a_file(write):
    rules = read_rules_file(write(GOOD))
    assert (rules.scheme, rules.seed, rules.dtype) == ("gpt2(qk_scale=0.5)", 7, "bfloat16")
    assert rules.overrides[0] == ("*.weight", Normal(std=0.01))
    assert [pattern for pattern, _ in rules.overrides] == [
        "*.weight",
        "*.c_attn.weight#query",
        "transformer.wpe.weight",
    ]
    assert rules.dtypes == (("*ln_f*", "float32"),)
    assert read_rules_file(write("\ufeff" + GOOD.replace("\n", "\r\n"))) == rules
    assert read_rules_file(write("")) == read_rules_file(write("[rules]")) == RulesFile()


def test_the_plan_and_its_recipe(write):
    rules = read_rules_file(write(GOOD))
    plan = make_plan(
        families.build(GPT2), scheme=rules.scheme, overrides=rules.overrides, dtypes=rules.dtypes
    )
    entries = {entry.tensor.name: entry for entry in plan.entries}
    attention = entries["transformer.h.1.attn.c_attn.weight"].initializers
    assert attention == (Constant(0.0), Normal(std=0.01), Normal(std=0.01))
    assert entries["transformer.wpe.weight"].initializer == "uniform(low=-2.0, high=2.0)"
    assert entries["transformer.ln_f.bias"].dtype == "float32"
    content = json.loads(json.dumps(recipe.recipe(plan)))
    assert content["scheme"] == "gpt2(qk_scale=0.5)"
    assert content["overrides"][0] == ["*.weight", "normal(std=0.01)"]


BAD = {
    "unknown initializer": (
        '[rules]\n\n"*.wpe.weight" = "nromal(std=0.01)"\n',
        r"""line 3: "\*.wpe.weight" = "nromal\(std=0.01\)": unknown initializer 'nromal'; did you"""
        " mean 'normal'",
    ),
    "bad argument": ('[rules]\n"a" = "normal(std=-1)"', r'line 2: "a" = .*std must be finite and'),
    "no text": (
        '[rules]\n"a" = 0.02',
        r'line 2: "a" = 0.02: the value must be an initializer in q',
    ),
    "no quotes": (
        "[rules]\n*.weight = 'zeros'\n",
        r"line 2: \*.weight = 'zeros': not TOML: .*; put the pattern in quotes",
    ),
    "dots without quotes": (
        '[rules]\nb = "ones"\ntransformer.wte.weight = "zeros"\n',
        r'line 3: transformer.wte.weight = "zeros": put the pattern in quotes: "transformer.wte.w',
    ),
    "given twice": (
        '[rules]\n"a" = "zeros"\n"a" = "ones"\n',
        r'line 3: "a" = "ones": not TOML: .*; a key is given twice',
    ),
    "not closed": ('[rules]\n"a" = "zeros\n"b" = "ones"\n', 'line 2: "a" = "zeros: not TOML: '),
    "cut off": ('[rules]\n"a" = \n', r'line 2: "a" =: not TOML: '),
    "cut off at the end": ('[rules]\n"a" = """zeros\n\n', r"line 2: .*: not TOML: "),
    "unknown key": (
        'sheme = "gpt2"\n',
        "line 1: sheme = .*: unknown key 'sheme'; did you mean 'sch",
    ),
    "no table": (
        '"*.weight" = "zeros"\n',
        r"line 1: .*unknown key '\*.weight'.*; a pattern stands below a line \[rules\]",
    ),
    "unknown table": (
        '\n[rule]\n"a" = "zeros"\n',
        r"line \d: .*: unknown table 'rule'; did you mean 'rules'\? allowed: rules, dtypes",
    ),
    "rules is no table": ('rules = "zeros"\n', r"line 1: .*rules must be a table: \[rules\] on a"),
    "scheme": (
        '\nscheme = "gtp2"',
        "line 2: scheme = .*unknown scheme 'gtp2'; did you mean 'gpt2'",
    ),
    "scheme's option": ('scheme = "gpt2(qk=1)"', "line 1: .*unknown option of gpt2 'qk'"),
    "seed": ("seed = -1", "line 1: seed = -1: seed must be from 0 to"),
    "seed in text": ('seed = "1"', 'line 1: seed = "1": seed must be an integer'),
    "dtype": ('dtype = "float33"', 'line 1: dtype = "float33": .*float33'),
    "tensor's dtype": ('[dtypes]\n"a" = "float33"', 'line 2: "a" = "float33": .*float33'),
    "not UTF-8": (b'[rules]\n"\xff" = "zeros"', "rules.toml: not UTF-8"),
    "a NUL": ('[rules]\n"a\0" = "zeros"', "line 2: .*not TOML"),
    "a wrong date": ("seed = 2024-13-45", "not TOML"),
    "nested": ("seed = " + "[" * 5000, "not TOML"),
    "several lines": ('[rules]\n"a" = """\nzero"""', r"rules.toml: unknown initializer 'zero'"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files(name, write):
    text, message = BAD[name]
    with pytest.raises(ValueError, match=message) as error:
        read_rules_file(write(text))
    assert "rules.toml" in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 1000


def test_a_pattern_that_matches_nothing_tells_its_line(write):
    rules = read_rules_file(write('\n[rules]\n"*.wpe.weight"="ones"\n"*.c_porj.weight" = "zeros"'))
    with pytest.raises(ValueError, match="matches no tensor and no part; near: tran") as error:
        make_plan(families.build(GPT2), overrides=rules.overrides)
    assert 'rules.toml, line 4: "*.c_porj.weight" = "zeros": override' in str(error.value)
    tied = read_rules_file(write('[rules]\n"lm_head.weight" = "zeros"'))
    with pytest.raises(ValueError, match=r"line 2: .*lm_head\.weight is tied to transformer\.wte"):
        make_plan(families.build(GPT2), overrides=tied.overrides)
    dtypes = read_rules_file(write('[dtypes]\n"*nrom*" = "float32"'))
    with pytest.raises(ValueError, match=r"line 2: .*matches no tensor"):
        make_plan(families.build(GPT2), dtypes=dtypes.dtypes)


def test_two_rules_at_the_same_rank():
    model = families.build(GPT2)
    twice = [("*.wpe.weight", "zeros"), ("*.bias", "ones"), ("*.wpe.weight", "ones")]
    with pytest.raises(
        ValueError, match=r"'\*.wpe.weight' is given twice, with zeros and with one"
    ):
        make_plan(model, overrides=twice)
    assert make_plan(model, overrides=[("*.wpe.weight", "zeros")] * 2).entries
    assert read_overrides(replacing(twice[:2], twice[2:]), model)[-1][1] == Constant(1.0)


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    return code, *capsys.readouterr()


def test_the_command_line(write, tmp_path, capsys):
    config, rules = write(json.dumps(GPT2), "config.json"), write(GOOD)
    code, out, _ = run(capsys, "plan", config, "--rules", rules)
    assert code == 0
    assert "\nGPT2LMHeadModel, scheme gpt2(qk_scale=0.5), seed 7: " in out
    options = ["--set", "transformer.wpe.weight=ones", "--seed", 0, "--scheme", "bert"]
    code, out, _ = run(capsys, "plan", config, "--rules", rules, *options, "--json")
    tensors = {tensor["name"]: tensor for tensor in json.loads(out)["tensors"]}
    assert tensors["transformer.wpe.weight"]["initializer"] == "ones"
    assert tensors["transformer.wte.weight"]["initializer"] == "normal(std=0.01)"
    assert tensors["transformer.wte.weight"]["dtype"] == "bfloat16"
    code, _, _ = run(capsys, "init", config, tmp_path / "out", "--rules", rules, *options)
    assert code == 0
    with (tmp_path / "out" / "model.safetensors").open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    stored = json.loads(header["__metadata__"]["fanin"])
    assert (stored["seed"], stored["scheme"]) == (0, "bert")
    assert stored["overrides"][-1] == ["transformer.wpe.weight", "ones"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[rules]\n"a" = "zeroes"', 'line 2: "a" = "zeroes": unknown initializer \'zeroes\''),
        ('[rules]\n"nowhere" = "zeros"', 'line 2: "nowhere" = "zeros": override'),
    ],
)
def test_errors_of_the_command_line(text, message, write, tmp_path, capsys):
    config, rules = write(json.dumps(GPT2), "config.json"), write(text)
    code, out, err = run(capsys, "init", config, tmp_path / "out", "--rules", rules)
    assert (code, out) == (1, "")
    assert err.startswith("fanin: error: ")
    assert message in err
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()
    code, _, err = run(capsys, "plan", config, "--rules", tmp_path / "none.toml")
    assert code == 1
    assert "none.toml: No such file" in err
