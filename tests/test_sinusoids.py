"""Sinusoids: against mpmath, against what transformers computes, and the same bits everywhere."""

import hashlib

import mpmath
import numpy as np
import pytest
import torch
from transformers.models.distilbert.modeling_distilbert import create_sinusoidal_embeddings
from transformers.models.whisper.modeling_whisper import sinusoids as of_whisper

import fanin
from fanin.initializers import Sinusoids

INTERLEAVED, HALVES = Sinusoids(), Sinusoids("halves")


def exact(order, row, column, columns):
    """The element, by the formulas of the documentation in 40 digits."""
    with mpmath.workdps(40):
        if order == "interleaved":
            pair, is_sine, exponent = column // 2, column % 2 == 0, mpmath.mpf(2) / columns
        else:
            pair, is_sine = column % (columns // 2), column < columns // 2
            exponent = mpmath.mpf(1) / (columns // 2 - 1)
        angle = row * mpmath.mpf(10000) ** (-pair * exponent)
        return float(mpmath.sin(angle) if is_sine else mpmath.cos(angle))


@pytest.mark.parametrize(
    ("order", "rows", "columns"),
    [
        ("interleaved", 1500, 384),
        ("interleaved", 2**31, 6),
        ("interleaved", 9, 5),
        ("halves", 1500, 1280),
        ("halves", 2**31, 64),
        ("halves", 3, 4),
    ],
)
def test_the_formula(order, rows, columns):
    random = np.random.default_rng(0)
    for row in [0, 1, rows - 1, *random.integers(rows, size=20).tolist()]:
        region = (slice(row, row + 1), slice(0, columns))
        (values,) = fanin.sinusoids(
            (rows, columns), order=order, seed=0, region=region, dtype="float64"
        )
        chosen = random.integers(columns, size=10).tolist()
        expected = [exact(order, row, column, columns) for column in chosen]
        np.testing.assert_allclose(values[chosen], expected, rtol=0, atol=4e-16)


def test_of_distilbert_to_the_bit_and_of_whisper_to_its_error():
    theirs = create_sinusoidal_embeddings(512, 96, torch.empty(512, 96)).numpy()
    assert np.array_equal(fanin.sinusoids((512, 96), seed=0), theirs)
    ours = fanin.sinusoids((1500, 384), order="halves", seed=0)
    np.testing.assert_allclose(ours, of_whisper(1500, 384).numpy(), rtol=0, atol=1.5e-4)


def test_the_same_bits_on_any_machine():
    values = fanin.sinusoids((1500, 384), order="halves", seed=0, dtype="float64")
    assert hashlib.sha256(values.tobytes()).hexdigest() == (
        "4c9e397b7eb80ef4218b295215a4831b2a812793bf4a887ebf17518d715c0958"
    )
    other = fanin.sinusoids((1500, 384), order="halves", seed=9, name="w", dtype="float64")
    assert np.array_equal(values, other)


def test_every_matrix_of_a_batch_is_the_same():
    values = fanin.sinusoids((3, 8, 6), layout="boi", seed=0)
    assert (values == fanin.sinusoids((8, 6), seed=0)).all()
    assert np.array_equal(fanin.sinusoids((6, 8), layout="io", seed=0), values[0].T)


@pytest.mark.parametrize(("init", "shape"), [(INTERLEAVED, (0, 4)), (HALVES, (3, 0))])
def test_nothing_to_fill(init, shape):
    assert init.fill(np.empty(shape), seed=0).shape == shape
    assert init.standard_deviation(shape) == 0.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Sinusoids("half"), "unknown order 'half'; did you mean 'halves'"),
        (lambda: fanin.sinusoids((4, 5), order="halves", seed=0), "even number of columns, 4 or"),
        (lambda: fanin.sinusoids((4, 2), order="halves", seed=0), r"got shape \(4, 2\)"),
        (lambda: INTERLEAVED.standard_deviation((2**32 + 1, 4)), r"at most 2\*\*32 rows"),
        (lambda: fanin.sinusoids(4, seed=0), "pass a layout"),
    ],
)
def test_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()
