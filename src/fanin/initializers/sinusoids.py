"""Sines and cosines of a position: Vaswani et al. (2017), section 3.5. Nothing is drawn.

Channel pair k of position t is the sine and the cosine of t times a frequency that falls
geometrically with k. What others compute in float32 is off by up to 1e-4 at a position of 1500, and
differs from one C library to the next. Here the frequencies are 96 binary digits of a turn, so that
the angle of any position is whole-number arithmetic modulo one turn; only the sine of at most an
eighth of it is a series, of IEEE operations in a fixed order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from fanin import _core
from fanin.arguments import choice
from fanin.boxes import boxes
from fanin.initializers.base import ComputedFiller, Filler
from fanin.initializers.matrices import Matrices, matrices
from fanin.initializers.structured import Structured

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Order: TypeAlias = Literal["interleaved", "halves"]

TIMESCALE = 10_000
"""Ratio of the longest wave to the shortest, whose length is 2 pi positions."""

MAX_POSITIONS = 2**32

_TURN = Decimal("6.28318530717958647692528676655900576839433879875021164194988918461563")
_DIGITS = 60
_QUARTER = 2**62  # of a turn of 2**64
_BLOCK = 2**16  # elements that are computed at a time


@dataclass(frozen=True)
class Sinusoids(Structured):
    """Sine and cosine of the row's number, a pair of columns to a frequency.

    Parameters
    ----------
    order : {"interleaved", "halves"}
        A sine and its cosine are neighbours, of frequencies `10000**(-2 k / columns)`; or all
        sines come first, of frequencies `10000**(-k / (columns / 2 - 1))`.
    """

    order: Order = "interleaved"

    text_name: ClassVar[str] = "sinusoids"

    def __post_init__(self) -> None:
        choice("order", self.order, ("interleaved", "halves"))

    def _standard_deviation(self, shape: tuple[int, ...], layout: str | None, groups: int) -> float:
        matrix = self._matrix(shape, layout)
        return (
            _std(matrix.rows, matrix.columns, self.order) if matrix.rows * matrix.columns else 0.0
        )

    def _filler(
        self, shape: tuple[int, ...], layout: str | None, groups: int, dtype: str
    ) -> Filler:
        return _SinusoidsFiller(shape, self._matrix(shape, layout), self.order)

    def _matrix(self, shape: tuple[int, ...], layout: str | None) -> Matrices:
        matrix = matrices(shape, layout)
        if matrix.rows > MAX_POSITIONS:
            raise ValueError(f"sinusoids has at most 2**32 rows, got shape {shape}")
        if self.order == "halves" and (matrix.columns % 2 or matrix.columns == 2):
            raise ValueError(
                f"{self} needs an even number of columns, 4 or more, got shape {shape} with layout"
                f" {matrix.layout!r}"
            )
        return matrix


@dataclass(frozen=True)
class _SinusoidsFiller(ComputedFiller):
    matrix: Matrices
    order: Order

    def fill(
        self, array: NDArray[Any], position: int, start: tuple[int, ...], threads: int
    ) -> None:
        import numpy as np

        digits, quarters = _channels(self.matrix.columns, self.order)
        batch, rows, columns = (self.matrix.axes(letters) for letters in ("b", "o", "ik"))
        view = array.transpose((*batch, *rows, *columns))
        at, size = list(start), list(array.shape)
        with _core.IeeeEnvironment():
            for first, extent in boxes(view.shape[len(batch) :], _BLOCK, range(view.ndim)):
                for axis, begin, length in zip((*rows, *columns), first, extent, strict=True):
                    at[axis], size[axis] = start[axis] + begin, length
                row = self.matrix.numbers(rows, tuple(at), tuple(size)).astype(np.uint64)[:, None]
                column = self.matrix.numbers(columns, tuple(at), tuple(size))
                angles = row * digits[0, column] + (row * digits[1, column] >> np.uint64(32))
                values: NDArray[Any] = sine(angles + quarters[column]).reshape(extent)
                if array.dtype != np.float64:
                    values = values.astype(np.float32)
                places = tuple(slice(a, a + n) for a, n in zip(first, extent, strict=True))
                view[(slice(None),) * len(batch) + places] = values


def sine(angles: NDArray[np.uint64]) -> NDArray[np.float64]:
    """The sine of angles in 2**-64 of a turn, to 4e-16; called in an `IeeeEnvironment`.

    The angle less the nearest number of quarters is at most an eighth of a turn, of which the
    Taylor series of sine and cosine are taken to the 17th and the 16th power.
    """
    import numpy as np

    quarter = angles + np.uint64(_QUARTER // 2) >> np.uint64(62)
    rest = (angles - (quarter << np.uint64(62))).view(np.int64)
    x = rest.astype(np.float64) * (float(_TURN) * 2.0**-64)
    square = x * x
    series = [np.ones_like(x), np.ones_like(x)]
    for first, terms in enumerate(series):  # 1 - x^2 / (1 2) (1 - x^2 / (3 4) (1 - ...
        for n in range(15 + first, 0, -2):
            np.subtract(1.0, square / float(n * (n + 1)) * terms, out=terms)
    cosines, sines = series[0], series[1] * x
    magnitude = np.where(quarter % np.uint64(2) == 1, cosines, sines)
    return np.where(quarter >= 2, -magnitude, magnitude)


@lru_cache(maxsize=16)
def _channels(columns: int, order: Order) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Of each column: its frequency, as 64 and 32 binary digits; what a cosine is ahead by."""
    import numpy as np

    fixed = _frequencies(columns, order)
    digits = np.array([[f >> 32 for f in fixed], [f % 2**32 for f in fixed]], np.uint64)
    quarters = np.array([0, _QUARTER], np.uint64)
    if order == "halves":
        return np.tile(digits, 2), np.repeat(quarters, len(fixed))
    pairs = np.repeat(digits, 2, axis=1)[:, :columns]
    return pairs, np.tile(quarters, len(fixed))[:columns]


@lru_cache(maxsize=16)
def _frequencies(columns: int, order: Order) -> list[int]:
    """Of each pair of columns: the part of a turn from row to row, in 2**-96 of it."""
    pairs = (columns + 1) // 2
    with localcontext(Context(prec=_DIGITS)):
        step = Decimal(2) / columns if order == "interleaved" else Decimal(1) / (pairs - 1)
        ratio = (-Decimal(TIMESCALE).ln() * step).exp()
        frequency = 2**96 / _TURN
        fixed = []
        for _ in range(pairs):
            fixed.append(int(frequency))
            frequency *= ratio
    return fixed


@lru_cache(maxsize=256)
def _std(rows: int, columns: int, order: Order) -> float:
    """Standard deviation over a table, from the closed sums of sines and cosines over its rows."""
    frequencies = _frequencies(columns, order)
    sines, cosines = _sums(rows, frequencies)
    squares = rows * columns / 2
    if columns % 2:  # a sine without its cosine
        sines, cosines = sines, cosines[:-1]
        squares -= 0.5 * _sums(rows, [2 * frequencies[-1]])[1][0]
    mean = math.fsum([*sines, *cosines]) / (rows * columns)
    return math.sqrt(squares / (rows * columns) - mean * mean)


def _sums(rows: int, frequencies: list[int]) -> tuple[list[float], list[float]]:
    """The sums of sin(t w) and cos(t w) over t < rows: sin(rows w/2) / sin(w/2) times ..."""
    import numpy as np

    def half(times: int) -> NDArray[np.uint64]:
        return np.array([(times * f >> 33) % 2**64 for f in frequencies], np.uint64)

    length, middle = sine(half(rows)) / sine(half(1)), half(rows - 1)
    return (
        (length * sine(middle)).tolist(),
        (length * sine(middle + np.uint64(_QUARTER))).tolist(),
    )
