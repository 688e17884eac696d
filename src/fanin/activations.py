"""Activations as functions, and what a normal signal becomes behind them.

`moment` is the mean square of f(s z) for a standard normal z. `Correlation` is the same for two
tokens: E[f(s z) f(s z')] where z and z' correlate, as a power series in their correlation whose
coefficients are the squared Hermite coefficients of f (Poole et al. 2016 and Daniely et al. 2016
call it the dual activation). A few are enough: what is left of the mean square stands behind the
last power. Predictions use these numbers; gains, which reach bits, are literals in `fanin.gains`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from fanin.gains import standard_normal_nodes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["ACTIVATIONS", "Correlation", "correlation", "moment"]

Array: TypeAlias = "NDArray[np.float64]"

_POWERS = 16
"""Hermite coefficients that are kept: relu's E[f(z) f(z')] is then right to 2e-4 of E[f(z)^2]."""


def _logistic(z: Array) -> Array:
    import numpy as np

    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * z)))


def _relu(z: Array) -> Array:
    return z * (z > 0.0)


def _gelu(z: Array) -> Array:
    import numpy as np

    return np.asarray(0.5 * z * [math.erfc(-point / math.sqrt(2.0)) for point in z.tolist()])


def _gelu_tanh(z: Array) -> Array:
    import numpy as np

    return np.asarray(
        0.5 * z * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (z + 0.044715 * z**3))),
    )


def _selu(z: Array) -> Array:
    scale, alpha = 1.0507009873554805, 1.6732632423543772  # Klambauer et al. 2017, equation 14
    return scale * _elu(z, alpha)


def _elu(z: Array, alpha: float = 1.0) -> Array:
    import numpy as np

    return np.where(z > 0.0, z, alpha * np.expm1(np.minimum(z, 0.0)))


def _softplus(z: Array) -> Array:
    import numpy as np

    return np.asarray(np.logaddexp(0.0, z))


def _tanh(z: Array) -> Array:
    import numpy as np

    return np.asarray(np.tanh(z))


ACTIVATIONS: dict[str, Callable[[Array], Any]] = {
    "linear": lambda z: z,
    "relu": _relu,
    "relu6": lambda z: z.clip(0.0, 6.0),
    "relu_squared": lambda z: _relu(z) ** 2,
    "leaky_relu": lambda z: _relu(z) - 0.01 * _relu(-z),
    "elu": _elu,
    "selu": _selu,
    "sigmoid": _logistic,
    "tanh": _tanh,
    "softsign": lambda z: z / (1.0 + abs(z)),
    "softplus": _softplus,
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "quick_gelu": lambda z: z * _logistic(1.702 * z),
    "silu": lambda z: z * _logistic(z),
    "mish": lambda z: z * _tanh(_softplus(z)),
    "hardswish": lambda z: z * (z + 3.0).clip(0.0, 6.0) / 6.0,
}
"""By the names of `fanin.gain`; each takes and returns an array of one axis."""

ACTIVATIONS |= {
    "identity": ACTIVATIONS["linear"],
    "swish": ACTIVATIONS["silu"],
    "relu2": ACTIVATIONS["relu_squared"],
    "gelu_new": ACTIVATIONS["gelu_tanh"],
    "gelu_fast": ACTIVATIONS["gelu_tanh"],
    "gelu_pytorch_tanh": ACTIVATIONS["gelu_tanh"],
}


def moment(activation: str, std: float) -> float:
    """Mean square of an activation whose input is N(0, std^2).

    Examples
    --------
    >>> round(moment("relu", 2.0), 9)
    2.0
    """
    return correlation(activation, std)(1.0)


@dataclass(frozen=True)
class Correlation:
    """E[f(s z) f(s z')] as a function of the correlation of z and z', from 0 to 1."""

    coefficients: tuple[float, ...]

    def __call__(self, between: float) -> float:
        """Return it for that correlation; 1 gives the mean square."""
        return math.fsum(a * between**power for power, a in enumerate(self.coefficients))


def correlation(activation: str, std: float) -> Correlation:
    """Return E[f(s z) f(s z')] of an activation, for inputs N(0, std^2).

    Examples
    --------
    >>> between = correlation("relu", 1.0)
    >>> round(between(0.0), 4), round(1 / (2 * 3.141593), 4)  # the square of E[f(z)]
    (0.1592, 0.1592)
    """
    if std == 0.0:
        return Correlation((float(ACTIVATIONS[activation](_zero())[0]) ** 2,))
    return _correlation(activation, float(f"{std:.5g}"))  # layers that are nearly the same


def _zero() -> Array:
    import numpy as np

    return np.zeros(1)


@lru_cache(maxsize=1024)
def _correlation(activation: str, std: float) -> Correlation:
    z, weights = standard_normal_nodes()
    values = ACTIVATIONS[activation](std * z)
    weighted = weights * values
    before, polynomial = 0.0 * z, 0.0 * z + 1.0  # He_n(z) / sqrt(n!), by their recurrence
    squares = []
    for n in range(_POWERS):
        squares.append(float(weighted @ polynomial) ** 2)
        following = (z * polynomial - math.sqrt(n) * before) / math.sqrt(n + 1)
        before, polynomial = polynomial, following
    rest = float(weighted @ values) - math.fsum(squares)
    return Correlation((*squares, max(rest, 0.0)))
