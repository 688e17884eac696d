"""One committed hash a fill: whatever the threads, the cut, the strides, the process, the CPU.

The instruction sets that this machine runs are forced in the installed module; the others are built
from the same sources without Python: AVX-512 through SIMD Everywhere, Arm64 under an emulator.
"""

import ctypes
import itertools
import json
import math
import multiprocessing
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import fanin
import fills
import orthogonal_fills
from fanin import _core
from fanin.initializers import Normal
from fanin.output import ITEMSIZE, numpy_dtype
from reference import ROUNDING_MODES

HASHES = fills.committed()
ROOT = Path(__file__).parents[1]
SHAPE = (16, 64, 1024)  # fills.COUNT elements


@pytest.fixture(scope="module")
def whole():
    """Every fill, once."""
    return {case: fills.sample(*case) for case in fills.CASES}


def test_every_fill_is_committed():
    assert list(HASHES) == [fills.key(*case) for case in [*fills.CASES, *fills.MATRIX_CASES]]
    assert len(set(HASHES.values())) == len(HASHES)


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_threads(threads):
    assert fills.all_hashes(threads) == HASHES


@pytest.mark.parametrize("case", fills.CASES, ids=lambda case: "-".join(case))
def test_regions(case, whole):
    initializer, _dtype = case
    matrix = whole[case].reshape(SHAPE)
    random = np.random.default_rng(1)
    for threads in (1, 2, 3, 7):
        bounds = [sorted(random.integers(0, size + 1, 2).tolist()) for size in SHAPE]
        region = tuple(slice(low, high) for low, high in bounds)
        out = np.empty([high - low for low, high in bounds], matrix.dtype)
        fills.fill(initializer, out, shape=SHAPE, region=region, threads=threads)
        assert out.tobytes() == matrix[region].tobytes(), region


@pytest.mark.parametrize("case", fills.CASES, ids=lambda case: "-".join(case))
def test_short_rows_of_odd_length(case, whole):
    """Rows begin at either half of a pair, and are many enough for the table of jumps."""
    for rows, columns in ((1021, 1027), (29959, 35), (80659, 13)):
        matrix = whole[case][: rows * columns].reshape(rows, columns)
        for region in (np.s_[1:, 1:-2], np.s_[:, 3:4], np.s_[5:-3, :-1]):
            out = np.empty(matrix[region].shape, matrix.dtype)
            fills.fill(case[0], out, shape=matrix.shape, region=_explicit(region, matrix.shape))
            assert out.tobytes() == matrix[region].tobytes(), (matrix.shape, region)


@pytest.mark.parametrize("case", fills.MATRIX_CASES, ids=lambda case: "-".join(case))
def test_matrices_put_together_from_any_cut(case):
    initializer, shape = fills.MATRICES[case[0]]
    random = np.random.default_rng(4)
    for order in "CF":
        out = np.zeros(shape, numpy_dtype(case[1]), order)
        cuts = [
            [0, *sorted(random.choice(np.arange(1, size), 2, replace=False).tolist()), size]
            for size in shape
        ]
        for rows in itertools.pairwise(cuts[0]):
            for columns in itertools.pairwise(cuts[1]):
                region = (slice(*rows), slice(*columns))
                initializer.fill(
                    out[region], seed=fills.SEED, name=fills.NAME, shape=shape, region=region
                )
        assert fills.sha256(out) == HASHES[fills.key(*case)]


def _explicit(region, shape):
    """The region with its bounds as fanin takes them: from 0 to the shape."""
    return tuple(slice(*s.indices(size)[:2]) for s, size in zip(region, shape, strict=True))


@pytest.mark.parametrize("case", fills.CASES, ids=lambda case: "-".join(case))
def test_runs_of_any_length_write_nothing_else(case, whole):
    """Runs that begin and end anywhere in a vector, a lane or a group of lanes."""
    random = np.random.default_rng(3)
    lengths = [
        *range(40),
        *random.integers(40, 3000, 20),
        1984 * 8 + 1,
        3968 * 8 - 1,
        3968 * 24 + 7,
    ]
    for length in map(int, lengths):
        start = int(random.integers(0, 300))
        memory = np.full((length + 200) * whole[case].itemsize, 0xA5, np.uint8)
        expected = memory.view(whole[case].dtype).copy()
        expected[100 : 100 + length] = whole[case][start : start + length]
        out = memory.view(whole[case].dtype)[100 : 100 + length]
        region = (slice(start, start + length),)
        fills.fill(case[0], out, shape=fills.COUNT, region=region, threads=1)
        assert memory.tobytes() == expected.tobytes(), (start, length)


@pytest.mark.parametrize("case", fills.CASES, ids=lambda case: "-".join(case))
def test_a_matrix_put_together_from_any_cut(case):
    initializer, dtype = case
    random = np.random.default_rng(2)
    out = np.zeros(SHAPE, numpy_dtype(dtype))
    cuts = [
        [0, *sorted(random.choice(np.arange(1, size), 2, replace=False).tolist()), size]
        for size in SHAPE
    ]
    for i in range(3):
        for j in range(3):
            for k in range(3):
                region = tuple(
                    slice(cut[n], cut[n + 1]) for cut, n in zip(cuts, (i, j, k), strict=True)
                )
                fills.fill(initializer, out[region], shape=SHAPE, region=region)
    assert fills.sha256(out) == HASHES[fills.key(*case)]


def strided(dtype):
    """Name a destination of SHAPE at each kind of strides."""
    item = numpy_dtype(dtype)
    yield "Fortran", np.zeros(SHAPE, item, order="F")
    yield "transposed", np.zeros((64, 1024, 16), item).transpose(2, 0, 1)
    yield "reversed", np.zeros(SHAPE, item)[::-1, ::-1, ::-1]
    yield "stepped", np.zeros((32, 64, 3072), item)[::2, :, ::3]
    yield "padded rows", np.zeros((16, 64, 1030), item)[:, :, 3:1027]
    unaligned = np.zeros(fills.COUNT * item.itemsize + 1, np.uint8)[1:]
    yield "unaligned", unaligned.view(item).reshape(SHAPE)


@pytest.mark.parametrize("case", fills.CASES, ids=lambda case: "-".join(case))
def test_strides(case):
    initializer, dtype = case
    for kind, out in strided(dtype):
        fills.fill(initializer, out)
        assert fills.sha256(out) == HASHES[fills.key(*case)], kind


@pytest.mark.parametrize("dtype", ITEMSIZE)
@pytest.mark.parametrize("initializer", ["constant", "uniform", "normal"])
def test_large_memory_in_use(initializer, dtype):
    """It is written past the cache, from a whole line on; a part of it is not."""
    item = ITEMSIZE[dtype]
    count = 2**25 // item + 1001
    memory = np.full((count + 64) * item, 0xA5, np.uint8).view(numpy_dtype(dtype))
    begins_a_line = -memory.ctypes.data % 64 // item
    for shift in (begins_a_line, begins_a_line + 1, begins_a_line + 8):
        out = fills.fill(initializer, memory[shift : shift + count])
        for start, stop in ((0, 5000), (count // 2, count // 2 + 5000), (count - 5000, count)):
            part = np.empty(stop - start, out.dtype)
            fills.fill(initializer, part, shape=count, region=(slice(start, stop),))
            assert out[start:stop].tobytes() == part.tobytes(), shift
    assert fills.sha256(out[: fills.COUNT]) == HASHES[fills.key(initializer, dtype)]
    assert (memory[shift + count :].view(np.uint8) == 0xA5).all()


def test_forked_children():
    fills.sample("normal", "float32")  # threads have been started and joined before the fork
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=lambda: sender.send(fills.all_hashes(threads=3)))
    child.start()
    assert receiver.poll(120), "the child hangs"
    assert receiver.recv() == HASHES
    child.join()


@pytest.mark.parametrize("mode", ROUNDING_MODES)
def test_rounding_modes(mode):
    libm = ctypes.CDLL("libm.so.6")
    assert libm.fesetround(mode) == 0
    try:
        hashes = fills.all_hashes(threads=2)
        assert libm.fegetround() == mode
    finally:
        libm.fesetround(0)
    assert hashes == HASHES


def test_flush_to_zero():
    subnormal = Normal(std=1e-40)
    out = np.empty(10**5, np.float32)
    expected = subnormal.fill(out, seed=0, threads=2).tobytes()
    assert torch.set_flush_denormal(True)
    try:
        hashes = fills.all_hashes(threads=2)
        values = subnormal.fill(out, seed=0, threads=2).tobytes()
        assert not (torch.full((4,), 1e-40) * 1.0).any()  # still flushed for the caller
    finally:
        torch.set_flush_denormal(False)
    assert hashes == HASHES
    assert values == expected
    assert np.count_nonzero(out) > 0.99 * out.size


@pytest.mark.parametrize("simd", _core.simd_names())
def test_instruction_sets(simd):
    run = subprocess.run(
        [sys.executable, Path(fills.__file__)],
        env={**os.environ, "FANIN_SIMD": simd},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(run.stdout) == HASHES


def test_an_unknown_instruction_set_is_refused():
    run = subprocess.run(
        [sys.executable, "-c", "import fanin; fanin.zeros(1, seed=0)"],
        env={**os.environ, "FANIN_SIMD": "sse9"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 1
    assert "FANIN_SIMD=sse9 is no instruction set of this build and CPU" in run.stderr
    assert ", ".join(_core.simd_names()) in run.stderr


def tool(name, package):
    """Find a program, or say which Debian package has it."""
    path = shutil.which(name)
    assert path, f"{name} is needed: apt-get install {package}"
    return path


def build(folder, *options):
    """Build the core's test programs and return their folder."""
    commands = [
        [tool("cmake", "cmake"), "-GNinja", "-S", ROOT / "tests" / "core", "-B", folder, *options],
        [tool("cmake", "cmake"), "--build", folder, "--parallel", "2"],
    ]
    for command in commands:
        run = subprocess.run(command, capture_output=True, text=True)
        assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-4000:]
    return folder


@pytest.fixture(scope="module")
def native_programs(tmp_path_factory):
    assert Path("/usr/include/simde").is_dir(), "apt-get install libsimde-dev"
    return build(tmp_path_factory.mktemp("native"), "-DFANIN_SIMDE=ON")


@pytest.fixture(scope="module")
def arm_programs(tmp_path_factory):
    return build(
        tmp_path_factory.mktemp("arm"),
        "-DCMAKE_SYSTEM_NAME=Linux",
        "-DCMAKE_SYSTEM_PROCESSOR=aarch64",
        f"-DCMAKE_CXX_COMPILER={tool('aarch64-linux-gnu-g++', 'g++-aarch64-linux-gnu')}",
    )


# Without Python there is no sparse matrix.
PROGRAM_CASES = [case for case in [*fills.CASES, *fills.MATRIX_CASES] if case[0] != "sparse"]
PROGRAM_HASHES = {fills.key(*case): HASHES[fills.key(*case)] for case in PROGRAM_CASES}


def program_hashes(command, simd):
    position = str(fanin.position(fills.SEED, fills.NAME))
    hashes = {}
    for case in PROGRAM_CASES:
        run = subprocess.run(
            [*command, *case, position, "2"],
            env={**os.environ, "FANIN_SIMD": simd},
            capture_output=True,
            check=True,
        )
        count = math.prod(fills.MATRICES[case[0]][1]) if case[0] in fills.MATRICES else fills.COUNT
        assert len(run.stdout) == count * ITEMSIZE[case[1]]
        hashes[fills.key(*case)] = fills.sha256(run.stdout)
    return hashes


def orthogonal_hashes(command, simd):
    hashes = {}
    for dtype in orthogonal_fills.DTYPES:
        numbers = (
            orthogonal_fills.SHORT,
            orthogonal_fills.LONG,
            orthogonal_fills.POSITION,
            orthogonal_fills.GAIN,
            2,
        )
        run = subprocess.run(
            [*command, dtype, *map(str, numbers)],
            env={**os.environ, "FANIN_SIMD": simd},
            capture_output=True,
            check=True,
        )
        hashes[dtype] = fills.sha256(run.stdout)
    return hashes


@pytest.mark.parametrize("simd", ["avx2", "avx512"])
def test_core_without_python(simd, native_programs):
    assert program_hashes([native_programs / "fills"], simd) == PROGRAM_HASHES
    found = orthogonal_hashes([native_programs / "orthogonal"], simd)
    assert found == orthogonal_fills.committed()


@pytest.mark.parametrize("simd", ["baseline", "neon"])
def test_core_on_arm(simd, arm_programs):
    emulator = [tool("qemu-aarch64", "qemu-user"), "-L", "/usr/aarch64-linux-gnu"]
    assert program_hashes([*emulator, arm_programs / "fills"], simd) == PROGRAM_HASHES
    found = orthogonal_hashes([*emulator, arm_programs / "orthogonal"], simd)
    assert found == orthogonal_fills.committed()
