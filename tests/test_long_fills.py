"""Long fills: Ctrl-C, the interpreter's lock, fills at the same time, elements beyond 2^32."""

import contextlib
import ctypes
import mmap
import os
import signal
import subprocess
import sys
import threading

import ml_dtypes
import numpy as np
import pytest

import fanin
from fanin.initializers import Normal, Uniform

# Prints how long the fill goes on after a signal, in seconds, thrice; then fills again.
INTERRUPTED = """
import os, signal, threading, time
import ml_dtypes, numpy as np
from fanin.initializers import TruncatedNormal
init = TruncatedNormal(low=0.5)
memory = np.zeros(2**30, ml_dtypes.float8_e4m3fn)
out = {out}

def interrupt():
    global sent
    sent = time.perf_counter()
    os.kill(os.getpid(), signal.SIGINT)

for _ in range(3):
    threading.Timer(0.1, interrupt).start()
    try:
        init.fill(out, seed=0, threads={threads})
    except KeyboardInterrupt:
        print(time.perf_counter() - sent)
memory[:3] = 0
init.fill(memory[:3], seed=0)
print(bool((memory[:3] > 0).all()))
"""


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("out", ["memory", "memory[::-1]", "memory.reshape(-1, 8)[:, ::-1]"])
def test_ctrl_c(out, threads):
    """A fill of seconds stops at once, and the process goes on."""
    code = INTERRUPTED.replace("{threads}", str(threads)).replace("{out}", out)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *latencies, goes_on = run.stdout.split()
    assert len(latencies) == 3
    assert min(map(float, latencies)) < 0.2  # a busy machine may delay one
    assert goes_on == "True"


def test_a_signal_whose_handler_returns():
    """The handler runs while the fill does, which goes on and is whole."""
    calls = []
    expected = fanin.normal(2**26, seed=0, name="w", threads=2)
    previous = signal.signal(signal.SIGALRM, lambda *_: calls.append(filling))
    filling = True
    signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
    try:
        values = fanin.normal(2**26, seed=0, name="w", threads=1)
        filling = False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert sum(calls) >= 2
    assert np.array_equal(values, expected)


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


@contextlib.contextmanager
def memory_over_and_over(size, window):
    """So many bytes of addresses, all of them the same `window` bytes of memory."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_int64]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    fixed = 0x10  # MAP_FIXED
    windows = -(-size // window)
    file = os.memfd_create("window")
    os.ftruncate(file, window)
    reserved = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    start = libc.mmap(None, windows * window, mmap.PROT_READ, reserved, -1, 0)
    try:
        for i in range(windows):
            place, access = start + i * window, mmap.PROT_READ | mmap.PROT_WRITE
            assert libc.mmap(place, window, access, mmap.MAP_SHARED | fixed, file, 0) == place
        yield np.frombuffer((ctypes.c_uint8 * size).from_address(start), np.uint8)
    finally:
        libc.munmap(start, windows * window)
        os.close(file)


def test_more_than_4_gib_in_one_call():
    size, window = 2**32 + 5, 2**21
    dtype = ml_dtypes.float8_e5m2
    init = Uniform(1.0, 2.0)
    last = np.empty(window, dtype)
    init.fill(last, seed=3, name="w", shape=size, region=(slice(size - window, size),))
    with memory_over_and_over(size, window) as memory:
        init.fill(memory.view(dtype), seed=3, name="w", threads=1)
        found = memory[size - window :].copy()
    assert np.array_equal(found, last.view(np.uint8))


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
