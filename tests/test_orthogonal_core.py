"""Orthogonal matrices by the core: the definition in float64, the same bits however cut or run,
the cost of parts in time and memory, Ctrl-C.
"""

import functools
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import orthogonal_fills
from fanin import _core
from fanin.output import numpy_dtype
from orthogonal_fills import POSITION, fill

SHAPES = [(1, 1), (1, 9), (2, 2), (7, 12), (64, 64), (128, 130), (129, 129), (200, 600), (300, 300)]


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


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_parts(dtype):
    random = np.random.default_rng(0)
    short, long = 200, 333
    whole = fill(short, long, dtype, matrices=range(3), gain=1.5, threads=1)
    for threads in (1, 2, 3, 7):
        options = {"gain": 1.5, "threads": threads}
        vectors = random.permutation(short)[: random.integers(1, short)]
        components = random.permutation(long)[: random.integers(1, long)]
        part = fill(
            *(short, long, dtype),
            **{"matrices": (2, 0), "vectors": vectors, "components": components, **options},
        )
        assert part.tobytes() == whole[[2, 0]][:, vectors][:, :, components].tobytes()
        rows = fill(short, long, dtype, matrices=(1,), vectors=vectors, **options)
        assert rows.tobytes() == whole[1, vectors].tobytes()


def test_more_vectors_than_a_buffer_holds():
    """The panels are sampled again for each buffer of vectors."""
    whole = fill(2100, 2101)
    assert fill(2100, 2101, components=range(7, 13)).tobytes() == whole[:, :, 7:13].tobytes()


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


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_threads(threads):
    assert orthogonal_fills.hashes(threads) == orthogonal_fills.committed()


@pytest.mark.parametrize("simd", _core.simd_names())
def test_instruction_sets(simd):
    run = subprocess.run(
        [sys.executable, orthogonal_fills.__file__],
        env={**os.environ, "FANIN_SIMD": simd},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(run.stdout) == orthogonal_fills.committed()


def test_the_last_vectors_cost_little_more_than_their_share():
    """They meet all reflectors: 1.5 times the operations of the mean vector."""

    def seconds(vectors):
        times = []
        for _ in range(3):
            started = time.thread_time()
            fill(1536, 1536, vectors=vectors, threads=1)
            times.append(time.thread_time() - started)
        return min(times)

    assert seconds(range(1152, 1536)) < 2.5 * seconds(range(1536)) / 4


# Prints by how many bytes a part of some vectors raises the process's high-water mark.
PEAK = """
import resource
from orthogonal_fills import fill
fill(256, 256)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
fill(4096, 4096, vectors=range(4032, 4096), components=range(100, 4000, 2))
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


def run_here(program):
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(Path(__file__).parent)])},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_memory_of_a_part():
    """A panel's three forms and the part's vectors, not the matrix of 64 MB."""
    assert int(run_here(PEAK)) < 16e6


# Prints how long fills go on after a signal, in seconds.
INTERRUPTED = """
import os, signal, threading, time
from orthogonal_fills import fill

def interrupt():
    global sent
    sent = time.perf_counter()
    os.kill(os.getpid(), signal.SIGINT)

def seconds_on(short, long, **options):
    threading.Timer(0.1, interrupt).start()
    try:
        fill(short, long, **options)
    except KeyboardInterrupt:
        print(time.perf_counter() - sent)

for threads in (1, 2):
    seconds_on(6000, 6000, threads=threads)
    seconds_on(512, 512, matrices=range(200), threads=threads)
    one = {"vectors": (511,), "components": (0,)}
    seconds_on(512, 512, matrices=range(100_000), **one, threads=threads)
"""


def test_ctrl_c():
    """Long products, long batches, and those of one element a matrix stop within a second."""
    latencies = [float(line) for line in run_here(INTERRUPTED).split()]
    assert len(latencies) == 6
    assert max(latencies) < 1
