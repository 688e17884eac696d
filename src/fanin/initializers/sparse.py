"""Normal weights of which each column keeps only some: Martens (2010), section 5.

A unit that reads few inputs is not driven into saturation by many. Which rows of a column are zero
is drawn as well: each element has a draw of its own behind those of the values, and the rows with
the smallest are zero. So any region knows its zeros from the draws of its columns alone, and there
are exactly as many in each column as there should be.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from fanin import _core
from fanin.arguments import nonnegative, number
from fanin.boxes import boxes
from fanin.initializers.base import Filler
from fanin.initializers.distributions import Normal
from fanin.initializers.elementwise import ElementwiseFiller
from fanin.initializers.matrices import Matrices, matrices
from fanin.initializers.structured import Structured

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Columns are ranked in groups of so many draws, of 8 bytes: they stay in the cache.
_GROUP_DRAWS = 2**18

_UNUSED_BITS = 8
"""Low bits of a draw that nothing uses: the weak ones of the generator."""


@dataclass(frozen=True)
class Sparse(Structured):
    """Normal with that standard deviation, and `ceil(sparsity * rows)` zeros in each column.

    Parameters
    ----------
    sparsity : float
        The fraction of each column that is zero, from 0 to 1.
    std : float
        Of the values that are not.
    """

    sparsity: float
    std: float = 0.01

    text_name: ClassVar[str] = "sparse"

    def __post_init__(self) -> None:
        self._set(sparsity=number("sparsity", self.sparsity), std=nonnegative("std", self.std))
        if not 0.0 <= self.sparsity <= 1.0:
            raise ValueError(f"sparsity must be from 0 to 1, got {self.sparsity!r}")

    def _standard_deviation(self, shape: tuple[int, ...], layout: str | None, groups: int) -> float:
        rows = matrices(shape, layout).rows
        return math.sqrt(1.0 - self._zeros(rows) / rows) * self.std if rows else 0.0

    def _filler(
        self, shape: tuple[int, ...], layout: str | None, groups: int, dtype: str
    ) -> Filler:
        matrix = matrices(shape, layout)
        values = ElementwiseFiller(Normal(0.0, self.std)._sampler(dtype), shape)
        return _SparseFiller(matrix, values, self._zeros(matrix.rows))

    def _zeros(self, rows: int) -> int:
        return math.ceil(self.sparsity * rows)


@dataclass(frozen=True)
class _SparseFiller(Filler):
    matrix: Matrices
    values: ElementwiseFiller
    zeros: int  # of each column

    @property
    def draws(self) -> int:
        ranks = self.matrix.batch * self.matrix.rows * self.matrix.columns if self._ranks else 0
        return self.values.draws + ranks

    @property
    def cheap_axes(self) -> tuple[int, ...]:
        return self._column_axes

    def fill(
        self, array: NDArray[Any], position: int, start: tuple[int, ...], threads: int
    ) -> None:
        import numpy as np

        self.values.fill(array, position, start, threads)
        if self.zeros == 0:
            return
        zero = np.zeros((), array.dtype)
        if not self._ranks:
            array[...] = zero
            return
        column_axes, row_axes = self._column_axes, self.matrix.row_axes
        view = array.transpose((*column_axes, *row_axes))
        rows = self.matrix.numbers(row_axes, start, array.shape)

        def thin(first: tuple[int, ...], extent: tuple[int, ...]) -> None:
            """Put the zeros into a group of columns."""
            at, size = list(start), list(array.shape)
            for axis, begin, length in zip(column_axes, first, extent, strict=True):
                at[axis], size[axis] = start[axis] + begin, length
            columns = self.matrix.numbers(column_axes, tuple(at), tuple(size))
            places = tuple(slice(a, a + n) for a, n in zip(first, extent, strict=True))
            chosen = self._zero_rows(columns, position)[:, rows[0] : rows[-1] + 1]
            if len(rows) < chosen.shape[1]:
                chosen = chosen[:, rows - rows[0]]
            np.copyto(view[places], zero, where=chosen.reshape(view[places].shape))

        limit = max(1, _GROUP_DRAWS // self.matrix.rows)
        groups = list(boxes(view.shape[: len(column_axes)], limit, range(len(column_axes))))
        _on_threads(threads, thin, groups)

    @property
    def _ranks(self) -> bool:
        """False where every row is zero, or none."""
        return 0 < self.zeros < self.matrix.rows

    @property
    def _column_axes(self) -> tuple[int, ...]:
        return (*self.matrix.batch_axes, *self.matrix.column_axes)

    def _zero_rows(self, columns: NDArray[np.int64], position: int) -> NDArray[np.bool_]:
        """Whether each row is zero, for columns by their numbers over the whole batch."""
        import numpy as np

        rows, zeros = self.matrix.rows, self.zeros
        first = np.uint64(self.values.draws) + columns.astype(np.uint64) * np.uint64(rows)
        keys = np.empty((len(columns), rows), np.uint64)
        _core.draws(position, first, keys, 1)
        keys >>= np.uint64(_UNUSED_BITS)
        threshold = np.partition(keys, zeros - 1, axis=1)[:, zeros - 1, None]
        zero = keys <= threshold
        excess = np.count_nonzero(zero, axis=1) - zeros
        for column in np.flatnonzero(excess):  # ties, of which the last rows stay
            ties = np.flatnonzero(keys[column] == threshold[column])
            zero[column, ties[-excess[column] :]] = False
        return zero


def _on_threads(
    threads: int, work: Callable[..., None], arguments: Sequence[tuple[Any, ...]]
) -> None:
    """Call `work` once for each of the arguments; the first error, or Ctrl-C, ends it."""
    if threads == 1 or len(arguments) == 1:
        for given in arguments:
            work(*given)
        return
    from concurrent.futures import ThreadPoolExecutor

    pool = ThreadPoolExecutor(min(threads, len(arguments)))
    try:
        for _ in pool.map(lambda given: work(*given), arguments):
            pass
    finally:
        pool.shutdown(cancel_futures=True)
