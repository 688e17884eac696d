"""Initializers as text, printed and parsed."""

import math

import pytest

from fanin.initializers import (
    TABLE,
    Constant,
    Normal,
    TorchLinear,
    TruncatedNormal,
    Uniform,
    VarianceScaling,
    parse,
)
from table_examples import example


@pytest.mark.parametrize("name", TABLE)
def test_text_parses_to_an_equal_value(name):
    init = example(name)
    assert parse(str(init)) == init
    assert hash(parse(str(init))) == hash(init)


@pytest.mark.parametrize(
    ("init", "text"),
    [
        (Constant(0), "zeros"),
        (Constant(-0.0), "zeros"),
        (Constant(1), "ones"),
        (Constant(0.5), "constant(value=0.5)"),
        (Constant(-math.inf), "constant(value=-inf)"),
        (Uniform(), "uniform"),
        (Uniform(-0.02, 0.02), "uniform(low=-0.02, high=0.02)"),
        (Normal(), "normal"),
        (Normal(std=0.02), "normal(std=0.02)"),
        (Normal(1, 1e-5), "normal(mean=1.0, std=1e-05)"),
        (TruncatedNormal(std=0.02), "truncated_normal(std=0.02)"),
        (TruncatedNormal(low=-3, high=math.inf), "truncated_normal(low=-3.0, high=inf)"),
        (
            TruncatedNormal(0, 1, -2, 2, "absolute", True),
            "truncated_normal(low=-2.0, high=2.0, bounds=absolute, keep_std=True)",
        ),
        (VarianceScaling(), "variance_scaling"),
        (TABLE["he_normal"](), "variance_scaling(scale=2.0, distribution=normal)"),
        (TorchLinear(), "torch_linear"),
    ],
)
def test_text(init, text):
    assert str(init) == text
    assert parse(text) == init


@pytest.mark.parametrize(
    ("text", "init"),
    [
        ("normal()", Normal()),
        (" normal( mean = 1 , std = 2 ) ", Normal(1, 2)),
        ("normal(1, std=+2)", Normal(1, 2)),
        ("uniform(-1, 1)", Uniform(-1, 1)),
        ("he_normal(gain='relu', mode=\"fan_out\")", VarianceScaling(2.0, "fan_out", "normal")),
        ("kaiming_normal(truncated=true)", VarianceScaling(2.0)),
        ("xavier_uniform(gain=2)", VarianceScaling(4.0, "fan_avg", "uniform")),
        ("truncated_normal(low=-inf, high=+inf)", TruncatedNormal(low=-math.inf, high=math.inf)),
        ("constant(value=1_000)", Constant(1000)),
    ],
)
def test_parse(text, init):
    assert parse(text) == init


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "an initializer is a name or a call such as"),
        ("normal(", r"is a name or a call such as normal\(std=0.02\), got 'normal\('"),
        ("normal; ones", "is a name or a call"),
        ("a.normal()", "is a name or a call"),
        ("normal()()", "is a name or a call"),
        ("1", "is a name or a call"),
        ("[normal]", "is a name or a call"),
        ("\0", "is a name or a call"),
        ("(" * 500 + ")" * 500, "is a name or a call"),
        ("normal(std=a" + ".a" * 480 + ")", "is a name or a call"),
        ("normal" * 1000, "is a name or a call"),
        ("norml(std=1)", "unknown initializer 'norml'; did you mean 'normal'"),
        ("normal(sdt=1)", r"unknown argument of normal 'sdt'; did you mean 'std'\? allowed: mean,"),
        ("normal(1, 2, 3)", "too many positional arguments"),
        ("normal(1, mean=2)", "multiple values for argument 'mean'"),
        ("constant", "'constant': missing a required argument: 'value'"),
        ("normal(*a)", r"arguments must be numbers or words, got '\*a'"),
        ("normal(**a)", r"\*\* is not allowed"),
        ("normal(std=f(1))", r"must be numbers or words, got 'f\(1\)'"),
        ("normal(std=1+1)", r"must be numbers or words, got '1 \+ 1'"),
        ("normal(std=__import__('os').system('true'))", "must be numbers or words"),
        ("normal(std=-relu)", "must be numbers or words, got '-relu'"),
        ("normal(std=1j)", "must be numbers or words"),
        ("normal(std=None)", "must be numbers or words"),
        ("normal(std=relu)", "std must be a real number, got 'relu'"),
        ("normal(std=True)", "std must be a real number, got True"),
        ("normal(std=-1)", "std must be finite and at least 0, got -1.0"),
        ("normal(std=nan)", "std must be finite and at least 0, got nan"),
        ("he_normal(gain=glue)", "unknown nonlinearity 'glue'"),
        ("he_normal(mode=fanin)", "unknown mode 'fanin'; did you mean 'fan_in'"),
        ("gpt2_residual(n_layer=0)", "n_layer must be at least 1, got 0"),
    ],
)
def test_parse_errors(text, message):
    with pytest.raises(ValueError, match=message):
        parse(text)


def test_parse_wants_text():
    with pytest.raises(TypeError, match="text must be a string, got Normal"):
        parse(Normal())
