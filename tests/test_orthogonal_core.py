"""Orthogonal matrices by the core: the definition in float64, the same bits however cut or run."""

import functools
import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest

from fanin import _core
from fanin.output import numpy_dtype

POSITION = 2**64 - 100_000  # the stream's end, and then its beginning
SHAPES = [(1, 1), (1, 9), (2, 2), (7, 12), (64, 64), (128, 130), (129, 129), (200, 600), (300, 300)]


def places(index, stride):
    index = np.ascontiguousarray(index, np.int64)
    return index, np.arange(index.size, dtype=np.int64) * stride


def fill(
    short,
    long,
    dtype="float32",
    *,
    out=None,
    matrices=(0,),
    vectors=None,
    components=None,
    gain=1.0,
    threads=2,
):
    """Fill `out` (matrices, vectors, components), or a new array."""
    vectors = range(short) if vectors is None else vectors
    components = range(long) if components is None else components
    if out is None:
        shape = len(matrices), len(vectors), len(components)
        out = np.full(shape, -9, numpy_dtype(dtype))
    axes = (
        places(index, stride)
        for index, stride in zip((matrices, vectors, components), out.strides, strict=True)
    )
    _core.fill_orthogonal(
        POSITION, short, long, gain, dtype, *axes, out.__array_interface__["data"][0], threads
    )
    return out


def normals(short, long, matrix, dtype):
    """The normals of a matrix, from the same interval of the stream."""
    out = np.empty((1, short, long), dtype)
    sampler = _core.Sampler.normal(0, 1, dtype)
    _core.fill(sampler, POSITION, out, [matrix + 1, short, long], [matrix, 0, 0], 1)
    return out[0].astype(np.float64)


@functools.cache
def definition(short, long, matrix, dtype):
    """q_i = -s_i e_i H_i H_{i-1} ... H_0, one reflector after another."""
    x = np.triu(normals(short, long, matrix, dtype))
    sign = np.copysign(1, x.diagonal())
    rows = np.diag(-sign) @ np.eye(short, long)
    for k in reversed(range(short)):
        v = x[k].copy()
        v[k] += sign[k] * np.linalg.norm(x[k])
        rows[k:] -= np.outer(rows[k:] @ v * (2 / (v @ v)), v)
    return rows


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_definition(dtype):
    tolerance = {"float32": 4e-7, "float64": 2e-15}[dtype]
    for short, long in SHAPES:
        got = fill(short, long, dtype, matrices=(1,))[0].astype(np.float64)
        np.testing.assert_allclose(got, definition(short, long, 1, dtype), rtol=0, atol=tolerance)
        np.testing.assert_allclose(got @ got.T, np.eye(short), rtol=0, atol=2 * tolerance)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float8_e4m3fn", "float8_e5m2"])
def test_narrow_dtypes_are_float32_rounded_once(dtype):
    expected = fill(100, 300, gain=3.0).astype(numpy_dtype(dtype))
    assert fill(100, 300, dtype, gain=3.0).tobytes() == expected.tobytes()


def test_gain():
    np.testing.assert_array_equal(fill(90, 90, gain=1.7), fill(90, 90) * np.float32(1.7))


def whole_and_cut(dtype):
    """A hash of matrices whole, which is asserted to be that of any part."""
    random = np.random.default_rng(0)
    short, long = 200, 333
    whole = fill(short, long, dtype, matrices=range(3), gain=1.5, threads=1)
    for threads in (1, 2, 3, 7):
        again = fill(short, long, dtype, matrices=range(3), gain=1.5, threads=threads)
        assert again.tobytes() == whole.tobytes()
        vectors = random.permutation(short)[: random.integers(1, short)]
        components = random.permutation(long)[: random.integers(1, long)]
        part = fill(
            short,
            long,
            dtype,
            matrices=(2, 0),
            vectors=vectors,
            components=components,
            gain=1.5,
            threads=threads,
        )
        assert part.tobytes() == whole[[2, 0]][:, vectors][:, :, components].tobytes()
        rows = fill(short, long, dtype, matrices=(1,), vectors=vectors, gain=1.5, threads=threads)
        assert rows.tobytes() == whole[1, vectors].tobytes()
    return hashlib.sha256(whole.tobytes()).hexdigest()


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_parts_and_threads(dtype):
    whole_and_cut(dtype)


def test_strides():
    expected = fill(150, 260, matrices=range(2))
    item = expected.itemsize
    for out in (
        np.zeros((2, 260, 150), np.float32).transpose(0, 2, 1),
        np.zeros((260, 2, 150), np.float32).transpose(1, 2, 0),
        np.zeros((2, 150, 260), np.float32)[::-1, ::-1, ::-1],
        np.zeros((2, 300, 780), np.float32)[:, ::2, ::3],
        np.zeros((2, 150, 270), np.float32)[:, :, 5:265],
        np.zeros(expected.size * item + 1, np.uint8)[1:].view(np.float32).reshape(expected.shape),
    ):
        np.testing.assert_array_equal(fill(150, 260, matrices=range(2), out=out), expected)


def test_nothing_else_is_written():
    memory = np.full((4, 210, 270), 7, np.float32)
    fill(200, 260, matrices=range(2), out=memory[1:3, 5:205, 3:263])
    written = np.zeros(memory.shape, bool)
    written[1:3, 5:205, 3:263] = True
    assert (memory[~written] == 7).all()
    assert (memory[written] != 7).all()


@pytest.mark.parametrize(("short", "long"), [(0, 0), (0, 5)])
def test_nothing_to_do(short, long):
    assert fill(short, long).size == 0
    assert fill(3, 4, vectors=()).size == 0
    assert fill(3, 4, components=()).size == 0
    assert fill(3, 4, matrices=()).size == 0


@pytest.mark.parametrize("simd", _core.simd_names())
def test_instruction_sets(simd):
    run = subprocess.run(
        [sys.executable, __file__],
        env={**os.environ, "FANIN_SIMD": simd},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == small_hash()


def small_hash():
    bits = [fill(140, 300, dtype).tobytes() for dtype in ("float32", "float64", "float16")]
    return hashlib.sha256(b"".join(bits)).hexdigest()


if __name__ == "__main__":
    print(small_hash())
