"""The compiled core. It trusts its arguments: the Python modules beside it validate them.

dtypes are the names `float64 float32 float16 bfloat16 float8_e4m3fn float8_e5m2`.
"""

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

# Indices along an axis, in any order, and each one's offset from the address in bytes.
_Places: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64]]

STREAM_VERSION: int
PERIOD: int

@final
class Xorshift64Star:
    def __init__(self, state: int) -> None: ...
    @property
    def state(self) -> int: ...
    def next_u64(self) -> int: ...
    def uniform(self) -> float: ...
    def normal(self) -> float: ...
    def jump(self, n: int) -> None: ...

@final
class Sampler:
    @staticmethod
    def constant(value: float, dtype: str) -> Sampler: ...
    @staticmethod
    def uniform(low: float, high: float, dtype: str) -> Sampler: ...
    @staticmethod
    def normal(mean: float, std: float, dtype: str) -> Sampler: ...
    @staticmethod
    def truncated_normal(
        mean: float,
        std: float,
        low_sigma: float,
        high_sigma: float,
        low: float,
        high: float,
        dtype: str,
    ) -> Sampler: ...
    @staticmethod
    def time_step_bias(low: float, high: float, floor: float, dtype: str) -> Sampler: ...
    @property
    def dtype(self) -> str: ...
    def draws(self, elements: int) -> int: ...

@final
class Part:
    def __init__(
        self,
        sampler: Sampler,
        position: int,
        shape: Sequence[int],
        start: Sequence[int],
        extent: Sequence[int],
        tensor_start: Sequence[int],
        tensor_step: Sequence[int],
    ) -> None: ...

@final
class IeeeEnvironment:
    def __init__(self) -> None: ...
    def __enter__(self) -> IeeeEnvironment: ...
    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

def fill(
    sampler: Sampler,
    position: int,
    out: NDArray[Any],
    shape: Sequence[int],
    start: Sequence[int],
    threads: int,
) -> None: ...
def draws(position: int, firsts: NDArray[Any], out: NDArray[Any], threads: int) -> None: ...
def fill_orthogonal(
    position: int,
    short_side: int,
    long_side: int,
    gain: float,
    dtype: str,
    matrices: _Places,
    vectors: _Places,
    components: _Places,
    address: int,
    threads: int,
) -> None: ...
def multiply(a: NDArray[Any], b: NDArray[Any], c: NDArray[Any], threads: int) -> None: ...
def write_tensors(
    fd: int,
    tensors: Sequence[tuple[int, Sequence[int], Sequence[Part]]],
    threads: int,
    to_disk: bool,
    progress: Callable[[int], object] | None = None,
) -> None: ...
def compare_tensors(
    fd: int,
    tensors: Sequence[tuple[int, Sequence[int], Sequence[Part]]],
    threads: int,
    progress: Callable[[int], object] | None = None,
) -> tuple[int, int, bytes, bytes] | None: ...
def advise_huge_pages(out: NDArray[Any]) -> None: ...
def normal_cdf(x: float) -> float: ...
def truncated_normal_moments(low: float, high: float) -> tuple[float, float]: ...
def logarithm(x: float) -> float: ...
def time_step_bias_moments(low: float, high: float, floor: float) -> tuple[float, float]: ...
def simd() -> str: ...
def simd_names() -> list[str]: ...
