"""Long fills: Ctrl-C, the interpreter's lock, fills at the same time, elements beyond 2^32."""

import subprocess
import sys
import threading

import numpy as np
import pytest

import fanin
from fanin.initializers import Normal, Uniform

INTERRUPTED = """
import os, signal, threading
import ml_dtypes, numpy as np
from fanin.initializers import TruncatedNormal
out = np.zeros(2**30, ml_dtypes.float8_e4m3fn)
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    TruncatedNormal(low=0.5).fill(out, seed=0, threads={threads})
except KeyboardInterrupt:
    print("interrupted", bool(out[0] > 0), bool(out[-1] > 0))
out[:3] = 0
TruncatedNormal(low=0.5).fill(out[:3], seed=0)
print(bool((out[:3] > 0).all()))
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c(threads):
    """The fill takes seconds; it stops long before its end, and the process goes on."""
    code = INTERRUPTED.replace("{threads}", str(threads))
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["interrupted", "True", "False", "True"], run.stdout


def test_other_python_threads_go_on():
    counted, stop = [0], threading.Event()

    def count():
        while not stop.is_set():
            counted[0] += 1

    out = np.empty(2**26, np.float32)
    counter = threading.Thread(target=count)
    counter.start()
    try:
        before = counted[0]
        Normal().fill(out, seed=0, threads=1)
        during = counted[0] - before
    finally:
        stop.set()
        counter.join()
    assert during > 1000


def test_fills_at_the_same_time():
    expected = [fanin.normal(2**20, seed=0, name=str(i)).tobytes() for i in range(4)]
    found = [None] * 4

    def fill(i):
        found[i] = fanin.normal(2**20, seed=0, name=str(i), threads=2).tobytes()

    workers = [threading.Thread(target=fill, args=(i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert found == expected


@pytest.mark.parametrize("first", [2**31 - 3, 2**32 - 3, 2**40 + 1, 2**62])
def test_elements_beyond_32_bits(first):
    generator = fanin.Xorshift64Star(0x9E3779B97F4A7C15)
    generator.jump((fanin.position(7, "w") + first) % (2**64 - 1))
    expected = [generator.uniform() for _ in range(8)]
    region = (slice(first, first + 8),)
    values = fanin.uniform(2**63 - 1, seed=7, name="w", dtype="float64", region=region)
    assert values.tolist() == expected


@pytest.mark.parametrize("shape", [(65536, 65537), (256, 8493466 * 2), (3, 2**31 + 5)])
def test_the_last_rows_of_large_matrices(shape):
    """Indices, not bytes, decide: rows and columns at the far end, cut in two ways."""
    rows, columns = shape
    init = Uniform(-1.0, 1.0)
    corner = np.empty((3, 5), np.float32)
    region = (slice(rows - 3, rows), slice(columns - 5, columns))
    init.fill(corner, seed=1, name="w", shape=shape, region=region)
    for i in range(3):
        flat = (rows - 3 + i) * columns + columns - 5
        row = init.fill(
            np.empty(5, np.float32),
            seed=1,
            name="w",
            shape=rows * columns,
            region=(slice(flat, flat + 5),),
        )
        assert row.tobytes() == corner[i].tobytes()
    assert np.unique(corner).size == 15
