"""Gains: the table against known answers and against integrals; callables; errors."""

import math

import mpmath
import numpy as np
import pytest
import torch

import fanin
import reference
from fanin.gains import GAINS, PARAMETRIC

EXACT = {
    "relu": lambda z: max(z, 0),
    "relu6": lambda z: min(max(z, 0), 6),
    "relu_squared": lambda z: max(z, 0) ** 2,
    "gelu": lambda z: z * mpmath.ncdf(z),
    "gelu_tanh": lambda z: (
        z / 2 * (1 + mpmath.tanh(mpmath.sqrt(2 / mpmath.pi) * (z + mpmath.mpf("0.044715") * z**3)))
    ),
    "quick_gelu": lambda z: z / (1 + mpmath.exp(-mpmath.mpf("1.702") * z)),
    "silu": lambda z: z / (1 + mpmath.exp(-z)),
    "mish": lambda z: z * mpmath.tanh(mpmath.log1p(mpmath.exp(z))),
    "softplus": lambda z: mpmath.log1p(mpmath.exp(z)),
    "softsign": lambda z: z / (1 + abs(z)),
    "hardswish": lambda z: z * min(max(z + 3, 0), 6) / 6,
    "elu": lambda z: z if z > 0 else mpmath.expm1(z),
    "leaky_relu": lambda z: z if z > 0 else z * mpmath.mpf(0.01),
    "linear": lambda z: z,
    "identity": lambda z: z,
}
ALIASES = {
    "swish": "silu",
    "relu2": "relu_squared",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
}
# Numbers that the field agreed on, which are not 1 / sqrt(E[f(z)**2]).
AGREED = {"sigmoid": 1.0, "tanh": 5 / 3, "selu": 0.75} | {
    f"{kind}{axes}d": 1.0 for kind in ("conv", "conv_transpose") for axes in (1, 2, 3)
}


def integral(function):
    with mpmath.workdps(25):
        density = lambda z: function(z) ** 2 * mpmath.npdf(z)  # noqa: E731
        return float(1 / mpmath.sqrt(mpmath.quad(density, list(range(-16, 17)))))


@pytest.mark.parametrize(
    "answer", reference.KNOWN_ANSWERS["gains"], ids=lambda a: f"{a['nonlinearity']}-{a['param']}"
)
def test_known_answers(answer):
    gain = fanin.gain(answer["nonlinearity"], answer["param"])
    assert gain == pytest.approx(float(answer["gain"]), rel=1e-14)


def test_each_name_is_tested_here():
    assert {*GAINS, *PARAMETRIC} == {*EXACT, *AGREED, *ALIASES}


@pytest.mark.parametrize("name", EXACT)
def test_gains_are_integrals(name):
    assert fanin.gain(name) == pytest.approx(integral(EXACT[name]), rel=3e-16)


@pytest.mark.parametrize("name", AGREED)
def test_agreed_gains(name):
    assert fanin.gain(name) == AGREED[name]


@pytest.mark.parametrize("name", ALIASES)
def test_aliases(name):
    assert fanin.gain(name) == fanin.gain(ALIASES[name])


@pytest.mark.parametrize("param", [0.0, 0.2, -0.3, 1, np.float32(0.5)])
def test_leaky_relu(param):
    assert fanin.gain("leaky_relu", param) == math.sqrt(2 / (1 + float(param) ** 2))


@pytest.mark.parametrize("alpha", [0.0, 0.5, 2.0])
def test_elu(alpha):
    exact = integral(lambda z: z if z > 0 else alpha * mpmath.expm1(z))
    assert fanin.gain("elu", alpha) == pytest.approx(exact, rel=3e-16)


@pytest.mark.parametrize(
    "name", ["linear", "tanh", "relu", "leaky_relu", "selu", "sigmoid", "conv2d"]
)
def test_torch_agrees(name):
    assert fanin.gain(name) == pytest.approx(torch.nn.init.calculate_gain(name), rel=1e-15)


@pytest.mark.parametrize("number", [0, 1, 2.5, np.float32(0.5), np.array(3.0), torch.tensor(2.0)])
def test_numbers_are_themselves(number):
    gain = fanin.gain(number)
    assert gain == float(number)
    assert type(gain) is float


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda z: np.maximum(z, 0.0), "relu"),
        (lambda z: max(z, 0.0), "relu"),
        (torch.nn.functional.silu, "silu"),
        (torch.nn.GELU(), "gelu"),
        (torch.nn.Hardswish(), "hardswish"),
        (lambda z: 0.5 * z * (1 + math.erf(z / math.sqrt(2))), "gelu"),
    ],
)
def test_callables_are_integrated(function, name):
    assert fanin.gain(function) == pytest.approx(fanin.gain(name), rel=1e-9)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("glue",), "unknown nonlinearity 'glue'; did you mean 'gelu'.*allowed: conv1d"),
        (("GELU",), "unknown nonlinearity 'GELU'; did you mean 'gelu'"),
        (("relu", 0.1), "gain 'relu' takes no param, got 0.1"),
        ((1.0, 0.1), "param belongs to 'leaky_relu' and 'elu', got 0.1"),
        (("leaky_relu", math.nan), "param of 'leaky_relu' must be from -1e100 to 1e100, got nan"),
        ((-1.0,), "gain must be finite and at least 0, got -1.0"),
        ((math.nan,), "gain must be finite and at least 0, got nan"),
        ((math.inf,), "gain must be finite and at least 0, got inf"),
        ((lambda z: 0 * z,), r"E\[f\(z\)\*\*2\] must be positive and finite, got 0.0"),
        ((lambda z: z / 0 if isinstance(z, float) else z * math.nan,), "finite, got nan"),
        ((lambda z: "no",), "must map a NumPy array, a float or a torch tensor to numbers"),
        ((lambda: 1,), "must map a NumPy array, a float or a torch tensor to numbers"),
    ],
)
def test_errors(args, message):
    with pytest.raises(ValueError, match=message):
        fanin.gain(*args)


@pytest.mark.parametrize("value", [None, True, 1j, [1.0], np.ones(1), np.True_, torch.ones(1)])
def test_other_types_are_no_gain(value):
    with pytest.raises(TypeError, match="gain must be a real number, got"):
        fanin.gain(value)


@pytest.mark.parametrize("param", ["0.1", True, 1j])
def test_param_is_a_number(param):
    with pytest.raises(TypeError, match="param must be a real number, got"):
        fanin.gain("leaky_relu", param)
