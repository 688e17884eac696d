"""The gain of a nonlinearity: the factor on the standard deviation that keeps a signal's size.

`1 / sqrt(E[f(z)**2])` for a standard normal z (He et al. 2015, eq. 10, for any f), except where the
field has settled on another number: 1 for sigmoid, 5/3 for tanh and 3/4 for selu, as in
`torch.nn.init.calculate_gain`. The gains are literals of 17 digits (the tests integrate them again
with mpmath): a gain reaches the bits of every weight, and the exponential of the C library changes
with its version.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from fanin import _core
from fanin.arguments import nonnegative, number, unknown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["gain"]

Gain: TypeAlias = str | float | Callable[[Any], Any]

GAINS: dict[str, float] = {
    "linear": 1.0,
    "identity": 1.0,
    **{f"conv{axes}d": 1.0 for axes in (1, 2, 3)},
    **{f"conv_transpose{axes}d": 1.0 for axes in (1, 2, 3)},
    "sigmoid": 1.0,
    "tanh": 1.6666666666666667,  # 5/3
    "relu": 1.4142135623730951,  # sqrt(2)
    "relu6": 1.4142135650950737,
    "relu_squared": 0.81649658092772603,  # sqrt(2/3)
    "selu": 0.75,
    "gelu": 1.5335304411955352,
    "gelu_tanh": 1.5335805216661469,
    "quick_gelu": 1.5394587622988314,
    "silu": 1.6765324703310912,
    "mish": 1.4868475812732081,
    "softplus": 1.0418668355353017,
    "softsign": 2.3375333631085397,
    "hardswish": 1.7366572127665416,
}
"""Gains that take no parameter."""

GAINS |= {
    "swish": GAINS["silu"],
    "relu2": GAINS["relu_squared"],
    "gelu_new": GAINS["gelu_tanh"],
    "gelu_pytorch_tanh": GAINS["gelu_tanh"],
}

# E[(e**z - 1)**2; z < 0] = e**2 Phi(-2) - 2 sqrt(e) Phi(-1) + 1/2, the left half of elu.
_ELU_LEFT = 0.14494541749292386

PARAMETRIC: dict[str, tuple[float, Callable[[float], float]]] = {
    "leaky_relu": (0.01, lambda slope: math.sqrt(2.0 / (1.0 + slope * slope))),
    "elu": (1.0, lambda alpha: 1.0 / math.sqrt(0.5 + alpha * alpha * _ELU_LEFT)),
}
"""Gains with a parameter: its default, and the gain as its function."""


def gain(nonlinearity: Gain, param: float | None = None) -> float:
    """Factor on a weight's standard deviation that keeps the signal through a nonlinearity.

    Parameters
    ----------
    nonlinearity : str, float or callable
        A name, such as `"relu"`; a number, which is its own gain; or a function f of a NumPy array
        (or a float, or a torch tensor), whose gain 1 / sqrt(E[f(z)**2]) is found by quadrature to
        about 10 digits. f may have kinks, best at multiples of 1/2.
    param : float, optional
        The negative slope of `"leaky_relu"` (default 0.01) or the alpha of `"elu"` (default 1).

    Returns
    -------
    float

    Raises
    ------
    ValueError
        An unknown name, a parameter where none is taken, or a gain that is negative or not finite.

    Examples
    --------
    >>> import fanin
    >>> fanin.gain("relu")
    1.4142135623730951
    >>> fanin.gain("leaky_relu", 0.2)
    1.3867504905630728
    >>> round(fanin.gain(lambda z: z * (z > 0)), 9)
    1.414213562
    """
    if isinstance(nonlinearity, str):
        return _named_gain(nonlinearity, param)
    if param is not None:
        raise ValueError(f"param belongs to 'leaky_relu' and 'elu', got {param!r}")
    if callable(nonlinearity):
        with _core.IeeeEnvironment():
            return _quadrature(nonlinearity)
    return nonnegative("gain", nonlinearity)


def _named_gain(name: str, param: float | None) -> float:
    if name in PARAMETRIC:
        default, formula = PARAMETRIC[name]
        value = default if param is None else number("param", param)
        if not abs(value) <= 1e100:
            raise ValueError(f"param of {name!r} must be from -1e100 to 1e100, got {value!r}")
        with _core.IeeeEnvironment():
            return formula(value)
    if name not in GAINS:
        raise ValueError(unknown("nonlinearity", name, sorted({*GAINS, *PARAMETRIC})))
    if param is not None:
        raise ValueError(f"gain {name!r} takes no param, got {param!r}")
    return GAINS[name]


def standard_normal_nodes() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Points and weights of an integral over the standard normal distribution.

    Gauss-Legendre on pieces of [-14, 14] of length 1/2, because one Gauss-Hermite rule converges
    slowly where a function has a kink.
    """
    import numpy as np

    points, weights = np.polynomial.legendre.leggauss(16)
    pieces = np.arange(-14.0, 14.0, 0.5)[:, None]
    z = (pieces + 0.25 * (points + 1.0)).ravel()
    density = np.tile(0.25 * weights, len(pieces)) * np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
    return z, density


def _quadrature(function: Callable[[Any], Any]) -> float:
    """`1 / sqrt(E[f(z)**2])`."""
    import numpy as np

    z, density = standard_normal_nodes()
    values = _evaluate(function, z)
    with np.errstate(all="ignore"):
        power = float(np.sum(density * values * values))
    if not 0.0 < power < math.inf:
        raise ValueError(
            f"gain of {function!r}: E[f(z)**2] must be positive and finite, got {power!r}"
        )
    return 1.0 / math.sqrt(power)


def _evaluate(function: Callable[[Any], Any], z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values of a function that may want an array, a float or a torch tensor."""
    import numpy as np

    attempts: list[Callable[[], Any]] = [
        lambda: function(z),
        lambda: [float(function(point)) for point in z.tolist()],
    ]
    if torch := sys.modules.get("torch"):
        attempts.append(lambda: function(torch.from_numpy(z)).detach().numpy())
    errors = []
    for attempt in attempts:
        try:
            values = np.asarray(attempt(), dtype=np.float64)
        except Exception as error:  # whatever a user's function raises
            errors.append(error)
        else:
            if values.shape == z.shape:
                return values
    raise ValueError(
        f"gain of {function!r}: it must map a NumPy array, a float or a torch tensor to numbers"
    ) from (errors[0] if errors else None)
