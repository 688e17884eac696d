"""What a router makes of the outputs of experts: weights of the few that it chooses.

A router's scores at initialization are normal and alike for all experts. The weights are a softmax
over all scores, of which the largest few are kept, and perhaps divided by their sum. Order
statistics of that kind have no closed form; a few hundred samples from a fixed generator are exact
enough, and the same in every run.
"""

from __future__ import annotations

from functools import lru_cache

__all__ = ["routing"]

_SAMPLES = 512


def routing(
    experts: int, chosen: int, variance: float, between: float, *, normalized: bool
) -> tuple[float, float]:
    """Return E[sum w^2] of a token's weights, and E[sum w w'] for two tokens.

    Parameters
    ----------
    experts, chosen : int
        How many there are, and how many a token is sent to.
    variance : float
        Of the scores.
    between : float
        Correlation of the two tokens' scores.
    normalized : bool
        Whether the weights of the chosen ones sum to 1.

    Examples
    --------
    >>> routing(8, 2, 0.0, 1.0, normalized=True)
    (0.5, 0.5)
    """
    return _routing(
        experts, chosen, float(f"{variance:.2g}"), round(between, 2), normalized=normalized
    )


@lru_cache(maxsize=1024)
def _routing(
    experts: int, chosen: int, variance: float, between: float, *, normalized: bool
) -> tuple[float, float]:
    import numpy as np

    one, rest = np.random.default_rng(0).standard_normal((2, _SAMPLES, experts))
    pair = np.stack([one, between * one + np.sqrt(1.0 - between**2) * rest])
    order = np.argsort(np.argsort(-pair, axis=2), axis=2)
    scores = np.exp(np.sqrt(variance) * (pair - pair.max(axis=2, keepdims=True)))
    weights = scores / scores.sum(axis=2, keepdims=True) * (order < chosen)
    if normalized:
        weights /= weights.sum(axis=2, keepdims=True)
    squares, products = (weights[0] ** 2).sum(axis=1), (weights[0] * weights[1]).sum(axis=1)
    return float(squares.mean()), float(products.mean())
