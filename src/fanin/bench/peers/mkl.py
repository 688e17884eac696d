"""Intel MKL's vector statistics (VSL), through ctypes and the `mkl` wheel: one thread.

A trial finds the fastest of its generators and methods, in one call or in chunks that stay in the
cache. VSL has float32 and float64 only, and no truncated normal. The wheel puts its libraries into
the environment's `lib`, where its list of files finds them; MKL is told to start no threads.

Numbers below: Intel oneAPI MKL, Vector Statistics Notes; `mkl_vsl_defines.h`.
"""

from __future__ import annotations

import ctypes
import functools
from importlib import metadata
from typing import Any

from numpy.typing import NDArray

from fanin.bench.axes import Case
from fanin.bench.measuring import Run
from fanin.bench.peers.peer import Peer, Ways

GENERATORS = {
    "MRG32K3A": 3 << 20,
    "MCG59": 4 << 20,
    "MT19937": 8 << 20,
    "SFMT19937": 13 << 20,
    "ARS5": 15 << 20,
    "PHILOX4X32X10": 16 << 20,
}
METHODS = {
    "normal": ("Gaussian", {"inverse CDF": 2, "Box-Muller": 1}),
    "uniform": ("Uniform", {"": 0}),
}
CHUNK = 2**15  # elements
SEQUENTIAL = 1


@functools.cache
def load() -> ctypes.CDLL:
    """MKL's runtime library.

    Raises
    ------
    ImportError
        The `mkl` wheel is not installed, or has no such library.
    """
    try:
        files = metadata.files("mkl") or []
    except metadata.PackageNotFoundError as error:
        raise ImportError("No module named 'mkl'") from error
    paths = [file.locate() for file in files if file.name.startswith("libmkl_rt.")]
    if not paths:
        raise ImportError("the mkl wheel has no libmkl_rt")
    library = ctypes.CDLL(str(paths[0]))
    library.MKL_Set_Threading_Layer(SEQUENTIAL)
    return library


def fill(case: Case, out: NDArray[Any]) -> Ways:
    if case.distribution not in METHODS or case.dtype not in ("float32", "float64"):
        return {}
    distribution, methods = METHODS[case.distribution]
    ways: Ways = {}
    for generator, generator_number in GENERATORS.items():
        stream = _Stream(generator_number)
        for method, method_number in methods.items():
            for cut, chunk in (("one call", out.size), (f"chunks of {CHUNK}", CHUNK)):
                if chunk <= out.size:
                    name = ", ".join(filter(None, [generator, method, cut]))
                    ways[name] = _sampler(stream, distribution, method_number, out, chunk)
    return ways


def fresh(case: Case) -> Ways:
    return {}


class _Stream:
    """A VSL stream, deleted with the object that holds it."""

    def __init__(self, generator: int) -> None:
        self.pointer = ctypes.c_void_p()
        self._delete = load().vslDeleteStream
        _check(load().vslNewStream(ctypes.byref(self.pointer), generator, 1))

    def __del__(self) -> None:
        self._delete(ctypes.byref(self.pointer))


def _sampler(stream: _Stream, distribution: str, method: int, out: NDArray[Any], chunk: int) -> Run:
    wide = out.itemsize == 8
    function = getattr(load(), f"{'vd' if wide else 'vs'}Rng{distribution}")
    real = ctypes.c_double if wide else ctypes.c_float
    address, size, itemsize = out.ctypes.data, out.size, out.itemsize

    def run() -> object:
        for start in range(0, size, chunk):
            count = min(chunk, size - start)
            place = ctypes.c_void_p(address + start * itemsize)
            _check(function(method, stream.pointer, count, place, real(0), real(1)))
        return out

    return run


def _check(status: int) -> None:
    if status != 0:
        raise RuntimeError(f"MKL's VSL gave the error {status}")


PEER = Peer(
    name="MKL",
    package="mkl",
    install="pip install mkl",
    threads="one",
    load=load,
    fill=fill,
    fresh=fresh,
)
