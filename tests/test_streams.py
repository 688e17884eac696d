"""Positions on the cycle, and the generator by itself."""

import numpy as np
import pytest

import fanin
import reference
from fanin import _core, streams

ANSWERS = reference.KNOWN_ANSWERS


@pytest.mark.parametrize("stream", ANSWERS["streams"], ids=lambda s: ascii(s["name"][:20]))
def test_positions_and_draws(stream):
    position = fanin.position(stream["seed"], stream["name"])
    assert position == int(stream["position"], 16)
    generator = fanin.Xorshift64Star(reference.START)
    generator.jump(position)
    draws = [generator.next_u64() for _ in range(8)]
    assert draws == [int(draw, 16) for draw in stream["draws"]]
    generator.jump(2**40 - 8)
    assert generator.next_u64() == int(stream["draw_2_40"], 16)


def test_the_generator_from_state_1():
    generator = fanin.Xorshift64Star(1)
    draws = [generator.next_u64() for _ in range(8)]
    assert draws == [int(draw, 16) for draw in ANSWERS["generator"]["from_state_1"]]


def test_the_high_bits_from_state_1234567():
    generator = fanin.Xorshift64Star(1234567)
    high = [generator.next_u64() >> 32 for _ in range(5)]
    assert high == [3540625527, 2750739987, 4037983143, 1993361440, 3809424708]


@pytest.mark.parametrize("steps", ANSWERS["generator"]["jump_from_state_1"], ids=str)
def test_jumps(steps):
    generator = fanin.Xorshift64Star(1)
    generator.jump(int(steps))
    assert generator.state == int(ANSWERS["generator"]["jump_from_state_1"][steps], 16)


@pytest.mark.parametrize("index", ANSWERS["generator"]["draw"], ids=str)
def test_draws_along_the_cycle(index):
    generator = fanin.Xorshift64Star(reference.START)
    generator.jump(int(index) % reference.PERIOD)
    assert generator.next_u64() == int(ANSWERS["generator"]["draw"][index], 16)


def test_the_generator_is_the_float64_stream():
    generator = fanin.Xorshift64Star(reference.START)
    generator.jump(fanin.position(0, "w"))
    uniforms = [generator.uniform() for _ in range(50)]
    assert uniforms == fanin.uniform(50, seed=0, name="w", dtype="float64").tolist()

    generator = fanin.Xorshift64Star(reference.START)
    generator.jump(fanin.position(0, "w"))
    cosines = [generator.normal() for _ in range(50)]
    assert cosines == fanin.normal(100, seed=0, name="w", dtype="float64")[::2].tolist()


def test_constants():
    assert fanin.STREAM_VERSION == _core.STREAM_VERSION == ANSWERS["stream_version"]
    assert streams.PERIOD == _core.PERIOD == int(ANSWERS["generator"]["period"])


@pytest.mark.parametrize("seed", [np.int32(7), np.uint64(7), np.array(7)])
def test_seeds_may_be_numpy_integers(seed):
    assert fanin.position(seed, "w") == fanin.position(7, "w")


@pytest.mark.parametrize("seed", [-1, 2**64, -(2**63)])
def test_seeds_out_of_range(seed):
    with pytest.raises(ValueError, match=rf"seed must be from 0 to 2\*\*64 - 1, got {seed}"):
        fanin.position(seed, "w")


@pytest.mark.parametrize("seed", [True, np.True_, 1.0, "1", None, np.ones(1, dtype=int)])
def test_seeds_are_integers(seed):
    with pytest.raises(TypeError, match="seed must be an integer, got"):
        fanin.position(seed, "w")


def test_names_are_valid_strings():
    with pytest.raises(TypeError, match="name must be a string, got b'w'"):
        fanin.position(0, b"w")
    with pytest.raises(ValueError, match=r"name must be valid Unicode, got '\\udc80'"):
        fanin.position(0, "\udc80")
