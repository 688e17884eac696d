"""A changed floating-point environment changes no bit: neither in parameters nor in samples."""

import ctypes
import ctypes.util

import numpy as np
import pytest

import fanin
from fanin.initializers import TABLE
from fanin.initializers.base import _filler
from fanin.initializers.distributions import _parent_std, _truncated_std
from fanin.initializers.table import _scale
from reference import ROUNDING_MODES
from table_examples import NEEDED, shape_for

LIBM = ctypes.CDLL(ctypes.util.find_library("m") or "libm.so.6")

CALLS = {
    **{name: lambda name=name: call(name, shape_for(name, 41, 37)) for name in TABLE},
    "gain": lambda: call("he_normal", (37, 41), gain=0.7),
    "leaky": lambda: call("variance_scaling", (37, 41), scale=fanin.gain("leaky_relu", 0.3)),
    "geometric": lambda: call("variance_scaling", (37, 41), mode="fan_geo_avg"),
    "average": lambda: call("glorot_normal", (37, 41), truncated=True),
    "kept": lambda: call(
        "truncated_normal", 99, std=0.3, low=-0.5, high=0.7, bounds="absolute", keep_std=True
    ),
    "off centre": lambda: call("truncated_normal", 99, mean=0.1, std=0.3, low=-0.7, high=1.3),
}


def call(name, shape, **arguments):
    needed = NEEDED.get(name, {})
    return [
        getattr(fanin, name)(shape, seed=0, name="w", dtype=dtype, **needed, **arguments).tobytes()
        for dtype in ("float64", "float32", "bfloat16")
    ]


def forget():
    for cache in (_filler, _parent_std, _truncated_std, _scale):
        cache.cache_clear()


@pytest.mark.parametrize("what", CALLS)
@pytest.mark.parametrize("mode", ROUNDING_MODES)
def test_rounding_modes(what, mode):
    expected = CALLS[what]()
    nearest = LIBM.fegetround()
    forget()
    assert LIBM.fesetround(mode) == 0
    try:
        values = CALLS[what]()
        kept = LIBM.fegetround()
    finally:
        LIBM.fesetround(nearest)
    forget()
    assert values == expected
    assert kept == mode


def test_the_rounding_mode_reaches_numpy():
    """What the tests above would see without care: the modes do change sums."""
    nearest = LIBM.fegetround()
    LIBM.fesetround(ROUNDING_MODES[1])
    try:
        upward = float(np.float64(1.0) + np.float64(1e-30))
    finally:
        LIBM.fesetround(nearest)
    assert upward > 1.0
