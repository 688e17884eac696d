"""Given values: what a module computes and does not draw, such as a table of relative positions.

They have no text that could be parsed back, so no user writes them: they come from the code that
describes a model. Beside floats they may be of the integer dtypes that files hold for counters and
index tables.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from fanin.initializers.base import ComputedFiller, Filler, Initializer
from fanin.output import numpy_dtype

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Values"]


@dataclass(frozen=True)
class Values(Initializer):
    """An array, or one that broadcasts to the shape of the tensor, rounded once to its dtype.

    Two are equal if their elements and their dtypes are.

    Parameters
    ----------
    array : numpy.ndarray
        Of any dtype that a file may have. It is not copied: do not change it.

    Examples
    --------
    >>> import numpy as np
    >>> steps = Values(np.arange(6.0).reshape(2, 3))
    >>> out, right = np.empty((2, 2), np.float32), (slice(2), slice(1, 3))
    >>> steps.fill(out, seed=0, shape=(2, 3), region=right)
    array([[1., 2.],
           [4., 5.]], dtype=float32)
    """

    array: NDArray[Any] = field(compare=False, repr=False)
    digest: str = field(init=False, default="")

    text_name: ClassVar[str] = "values"
    uses_layout: ClassVar[bool] = False
    fills_integers: ClassVar[bool] = True

    def __post_init__(self) -> None:
        import numpy as np

        content = hashlib.blake2b(str((self.array.dtype, self.array.shape)).encode(), digest_size=8)
        content.update(np.ascontiguousarray(self.array).view(np.uint8).data)
        self._set(digest=content.hexdigest())

    def __str__(self) -> str:
        return f"values({self.digest})"

    def _standard_deviation(self, shape: tuple[int, ...], layout: str | None, groups: int) -> float:
        import numpy as np

        return float(np.std(self.array.astype(np.float64))) if self.array.size else 0.0

    def _filler(
        self, shape: tuple[int, ...], layout: str | None, groups: int, dtype: str
    ) -> Filler:
        import numpy as np

        try:
            np.broadcast_to(self.array, shape)
        except ValueError:
            raise ValueError(f"values of shape {self.array.shape} do not fit {shape}") from None
        integers = numpy_dtype(dtype).kind in "biu"
        if integers and self.array.dtype.kind not in "biu":
            raise ValueError(f"values of {self.array.dtype} are not written as {dtype}")
        return _ValuesFiller(shape, self, dtype)


@dataclass(frozen=True)
class _ValuesFiller(ComputedFiller):
    values: Values
    dtype: str

    def fill(
        self, array: NDArray[Any], position: int, start: tuple[int, ...], threads: int
    ) -> None:
        import numpy as np

        region = tuple(
            slice(first, first + size) for first, size in zip(start, array.shape, strict=True)
        )
        array[...] = np.broadcast_to(self.values.array, self.shape)[region].astype(
            numpy_dtype(self.dtype)
        )
