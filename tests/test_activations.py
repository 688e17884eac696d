"""Activations behind a normal signal: against gains, closed forms and samples."""

import math

import numpy as np
import pytest
import transformers

from fanin.activations import ACTIVATIONS, correlation, moment
from fanin.diagnose.routing import routing
from fanin.diagnose.softmax import concentration, log_sum
from fanin.gains import GAINS, PARAMETRIC, gain

AGREED = {"sigmoid", "tanh", "selu"}  # gains that are not 1 / sqrt(E[f^2])
RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize("name", sorted(({*GAINS, *PARAMETRIC} & {*ACTIVATIONS}) - AGREED))
def test_moments_agree_with_gains(name):
    assert 1 / math.sqrt(moment(name, 1.0)) == pytest.approx(gain(name), rel=1e-12)


@pytest.mark.parametrize("name", sorted({*ACTIVATIONS} & {*transformers.activations.ACT2CLS}))
def test_functions_are_those_of_transformers(name):
    import torch

    z = np.linspace(-7, 7, 57)
    theirs = transformers.activations.ACT2FN[name](torch.from_numpy(z)).numpy()
    np.testing.assert_allclose(ACTIVATIONS[name](z), theirs, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_correlations_agree_with_samples(name):
    z, other = RANDOM.standard_normal((2, 200_000))
    for std, between in ((0.4, 0.0), (0.4, 0.9), (1.5, 0.6)):
        one = ACTIVATIONS[name](std * z)
        second = ACTIVATIONS[name](std * (between * z + math.sqrt(1 - between**2) * other))
        products = one * second
        error = products.std() / math.sqrt(len(products))
        found = correlation(name, std)(between)
        assert found == pytest.approx(products.mean(), abs=5 * error), (std, between)
        assert moment(name, std) == pytest.approx((one**2).mean(), rel=0.03)


def test_correlation_of_relu():
    for between in (0.0, 0.3, 0.7, 0.9, 1.0):  # Cho and Saul 2009, equation 6
        angle = math.acos(between)
        exact = (math.sin(angle) + (math.pi - angle) * between) / (2 * math.pi)
        assert correlation("relu", 2.0)(between) == pytest.approx(4 * exact, rel=2e-4)


def test_a_signal_that_is_zero():
    assert moment("relu", 0.0) == 0.0
    assert moment("softplus", 0.0) == pytest.approx(math.log(2) ** 2)


@pytest.mark.parametrize("variance", [0.0, 0.3, 2.0, 8.0, 60.0])
def test_concentration_agrees_with_samples(variance):
    scores = math.sqrt(variance) * RANDOM.standard_normal((20_000, 32))
    means = []
    for seen in range(1, 33):
        weights = np.exp(scores[:, :seen] - scores[:, :seen].max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        means.append((weights**2).sum(axis=1).mean())
    assert concentration(32, variance, causal=False) == pytest.approx(means[-1], rel=0.02)
    assert concentration(32, variance, causal=True) == pytest.approx(np.mean(means), rel=0.02)


@pytest.mark.parametrize(
    ("std", "cap", "one"),
    [(0.0, None, None), (0.5, None, 3.0), (3.0, None, None), (20.0, None, 90.0), (9.0, 5.0, None)],
)
def test_log_sums_agree_with_samples(std, cap, one):
    scores = std * RANDOM.standard_normal((4000, 500))
    if cap is not None:
        scores = cap * np.tanh(scores / cap)
    if one is not None:
        scores = np.concatenate([scores, np.full((len(scores), 1), one)], axis=1)
    values = np.logaddexp.reduce(scores, axis=1)
    error = 5 * values.std() / math.sqrt(len(values)) + 1e-6
    assert log_sum(500, std, cap=cap, one=one) == pytest.approx(values.mean(), abs=error)


def test_log_sums_of_huge_scores_are_their_maximum():
    assert log_sum(1000, 600.0) == pytest.approx(10 * log_sum(1000, 60.0))


def test_weights_of_a_router():
    assert routing(8, 2, 0.0, 0.3, normalized=True)[0] == pytest.approx(0.5)
    assert routing(8, 2, 0.0, 0.3, normalized=False)[0] == pytest.approx(2 / 64)
    assert routing(8, 8, 0.0, 0.0, normalized=True) == pytest.approx((1 / 8, 1 / 8))
    assert routing(8, 2, 0.5, 1.0, normalized=True)[1] == pytest.approx(
        routing(8, 2, 0.5, 1.0, normalized=True)[0]
    )
    # Two tokens that have nothing in common meet in an expert by chance: sum of w is 1.
    assert routing(8, 2, 0.5, 0.0, normalized=True)[1] == pytest.approx(1 / 8, rel=0.1)
