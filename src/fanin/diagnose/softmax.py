"""Softmaxes of random scores: how concentrated they are, and the logarithm of their denominator.

Both are integrals of one variable over f(u) = E[exp(-u exp(s))], where s is one of n independent
scores, since 1/S^2 is the integral of u exp(-u S), and ln S that of (exp(-u) - exp(-u S)) / u:

    E[sum p^2] = n int u f''(u) f(u)^(n-1) du,    E[ln sum exp s] = int (exp(-u) - f(u)^n) / u du

For scores N(0, v) the first is 1/n while v is small (attention averages), and goes to 1 (attention
copies a token) where v passes 2 ln n; the second is ln n + v/2, and then sqrt(2 v ln n): the
transition of the random energy model (Derrida 1981).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["concentration", "log_sum"]

_COPIES = 144.0
"""Variance from which on a softmax copies one token."""


def concentration(tokens: int, variance: float, *, causal: bool) -> float:
    """Return E[sum p^2] of normal scores, from 1 / tokens to 1.

    Under a causal mask it is the mean over positions, of which each sees those up to itself.

    Examples
    --------
    >>> round(concentration(4, 0.0, causal=False), 3), round(concentration(4, 0.0, causal=True), 3)
    (0.25, 0.521)
    >>> concentration(4, 1000.0, causal=True)
    1.0
    """
    if variance >= _COPIES or tokens == 1:
        return 1.0
    return _concentration(tokens, float(f"{variance:.3g}"), causal)


@lru_cache(maxsize=1024)
def _concentration(tokens: int, variance: float, causal: bool) -> float:
    import numpy as np

    std = math.sqrt(variance)
    z, weights = _normal(std)
    x = np.arange(-math.log(tokens) - variance - 4.0 * std - 8.0, 8.0 * std + 5.0, 0.15)
    passed = _passed(x, std * z)
    f, second = passed @ weights, passed @ (weights * np.exp(2.0 * std * z))
    powers = _mean_power(f, tokens) if causal else tokens * f ** (tokens - 1)
    return min(1.0, float(np.sum(np.exp(2.0 * x) * second * powers)) * 0.15)


def log_sum(count: int, std: float, *, cap: float | None = None, one: float | None = None) -> float:
    """Return E[ln sum exp s] of scores N(0, std^2).

    Parameters
    ----------
    count : int
        Number of scores.
    std : float
        Their standard deviation.
    cap : float, optional
        Where given, scores s are cap * tanh(s / cap).
    one : float, optional
        One more score, which is not random.

    Examples
    --------
    >>> round(log_sum(50257, 0.5), 3), round(math.log(50257) + 0.5**2 / 2, 3)
    (10.95, 10.95)
    """
    import numpy as np

    largest = 60.0  # beyond, it is as good as the largest score, which is linear in std
    if std > largest and cap is None and one is None:
        return std / largest * log_sum(count, largest)
    z, weights = _normal(std)
    scores = std * z if cap is None else cap * np.tanh(std * z / cap)
    low, high = 8.0 * std if cap is None else min(8.0 * std, cap), max(one or 0.0, 0.0)
    step = 0.1 * max(1.0, std / 4.0)
    x = np.arange(-math.log(count) - low - high - 20.0, low + 5.0, step)
    log_left = count * np.log(np.maximum(_passed(x, scores) @ weights, 1e-300))
    if one is not None:
        log_left = log_left - np.exp(np.minimum(x + one, 700.0))
    without = np.exp(-np.exp(np.minimum(x, 700.0)))
    return float(np.sum(without - np.exp(log_left))) * step


def _normal(std: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Points and weights of trapezoids, exact for smooth functions; finer for wide scores."""
    import numpy as np

    z = np.arange(-8.0, 8.0, 0.1 if std < 4.0 else 0.4 / std)
    weights = np.exp(-0.5 * z * z)
    return z, weights / weights.sum()


def _passed(x: NDArray[np.float64], scores: NDArray[np.float64]) -> Any:
    """exp(-u exp(s)) for u = exp(x): a row for each x."""
    import numpy as np

    return np.exp(-np.exp(np.minimum(x[:, None] + scores, 30.0)))


def _mean_power(f: NDArray[np.float64], tokens: int) -> NDArray[np.float64]:
    """Mean of n f^(n-1) over n = 1 ... tokens: the closed form, or where f is about 1 its limit."""
    import numpy as np

    left = np.maximum(1.0 - f, 1e-3 / tokens)
    closed = (1.0 - (tokens + 1 - tokens * f) * f**tokens) / left**2
    return np.where(1.0 - f > 1e-3 / tokens, closed, 0.5 * tokens * (tokens + 1)) / tokens
