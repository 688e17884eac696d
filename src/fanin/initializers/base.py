"""What every initializer can do: tell its standard deviation, fill an array.

An initializer is a value. It knows a rule and its numbers, and nothing of seeds, names or memory;
these come with each call, so that one value may serve a whole model. A rule of either kind, one
distribution for independent elements (`fanin.initializers.elementwise`) or a matrix as a whole
(`fanin.initializers.structured`), becomes a `Filler` when shape and dtype are known.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import Field, dataclass, fields
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from fanin import _core, output, streams
from fanin.arguments import Shape, integer, shape_tuple
from fanin.layouts import resolve_layout
from fanin.threads import thread_count

if TYPE_CHECKING:
    from numpy.typing import NDArray

Out = TypeVar("Out")

# Below this many elements the core never starts a thread, and asking how many there are would cost
# more than the fill.
_ONE_THREAD = 4096


class Filler(ABC):
    """An initializer ready for one matrix and dtype: all is checked, the numbers are rounded."""

    @property
    @abstractmethod
    def draws(self) -> int:
        """How many draws of the stream the whole matrix takes."""

    @property
    @abstractmethod
    def cheap_axes(self) -> tuple[int, ...]:
        """Axes along which a region costs no more than its share, those to cut first in front."""

    @abstractmethod
    def fill(
        self, array: NDArray[Any], position: int, start: tuple[int, ...], threads: int
    ) -> None:
        """Fill an array, not empty, with the region of its shape that begins at `start`."""


@dataclass(frozen=True)
class ComputedFiller(Filler):
    """One that computes each value by itself: it draws nothing, and any region costs its share."""

    shape: tuple[int, ...]

    @property
    def draws(self) -> int:
        return 0

    @property
    def cheap_axes(self) -> tuple[int, ...]:
        return tuple(range(len(self.shape)))


@dataclass(frozen=True)
class Initializer(ABC):
    """Base of the initializer values: frozen dataclasses that compare, print and parse."""

    text_name: ClassVar[str]
    """Name in the text form, which is also the name of the function that makes it."""

    uses_layout: ClassVar[bool]
    """True where the values depend on which axes are outputs and inputs."""

    uses_fans: ClassVar[bool] = False
    """True where the distribution depends on the shape through its fans."""

    fills_integers: ClassVar[bool] = False
    """True where the values may be of the integer dtypes that files have too."""

    def standard_deviation(
        self, shape: Shape = (), layout: str | None = None, groups: int = 1
    ) -> float:
        """Exact standard deviation of an element, in float64; if they differ, of a random one."""
        with _core.IeeeEnvironment():
            return self._standard_deviation(shape_tuple(shape), layout, groups)

    def filler(self, shape: Shape, layout: str | None, groups: int, dtype: str) -> Filler:
        """What fills a matrix of that global shape and dtype.

        Raises
        ------
        ValueError
            The shape is none that the initializer can fill, a parameter leaves the range of the
            dtype's computing type, or no value of the dtype lies within the bounds.
        """
        shape = shape_tuple(shape)
        if layout is not None:
            resolve_layout(shape, layout)
        if type(groups) is not int:
            groups = integer("groups", groups, low=1)
        return _filler(self, shape, layout, groups, dtype)

    def fill(
        self,
        out: Out,
        *,
        seed: int,
        name: str = "",
        layout: str | None = None,
        groups: int = 1,
        shape: Shape | None = None,
        region: tuple[slice, ...] | None = None,
        threads: int | None = None,
    ) -> Out:
        """Fill `out` in place and return it.

        Parameters
        ----------
        out : array
            NumPy array, torch CPU tensor, or anything with a writable buffer of a float dtype; its
            memory order does not matter and never changes a value.
        seed : int
            From 0 to 2**64 - 1.
        name : str, default ""
            Name of the matrix. The same seed and name give the same draws: different
            matrices need different names.
        layout, groups
            Of the matrix, as in `fanin.fans`.
        shape : tuple of int, optional
            Shape of the whole matrix where `out` is a region of it. Default: that of `out`.
        region : tuple of slice, optional
            The part of the matrix that `out` holds, in slices with step 1.
        threads : int, optional
            Default: the environment's number, or the CPUs there are.

        Returns
        -------
        out

        Raises
        ------
        ValueError, TypeError
            An argument is not allowed. Nothing has been written then.

        Examples
        --------
        >>> import numpy as np
        >>> import fanin
        >>> weight = np.empty((2, 3), dtype=np.float32, order="F")
        >>> init = fanin.initializers.Constant(0.5)
        >>> init.fill(weight, seed=0, name="w") is weight
        True
        >>> weight
        array([[0.5, 0.5, 0.5],
               [0.5, 0.5, 0.5]], dtype=float32)
        """
        position = streams.position(seed, name)
        array, dtype = output.view(out, integers=self.fills_integers)
        matrix = _matrix_shape(array.shape, shape, region)
        start, extent = output.region_bounds(region, matrix)
        if extent != array.shape:
            what = "region" if region is not None else "shape"
            raise ValueError(f"out has shape {array.shape}, but {what} asks for {extent}")
        filler = self.filler(matrix, layout, groups, dtype)
        if threads is not None or array.size > _ONE_THREAD:
            threads = thread_count(threads)
        if array.size > 0:
            output.announce_write(out)
            filler.fill(array, position, start, threads or 1)
        return out

    def __str__(self) -> str:
        """Text that `fanin.initializers.parse` turns into an equal value."""
        shown = [
            f"{field.name}={getattr(self, field.name)}"
            for field in fields(self)
            if not self._text_omits(field)
        ]
        return f"{self.text_name}({', '.join(shown)})" if shown else self.text_name

    def _text_omits(self, field: Field[Any]) -> bool:
        return bool(getattr(self, field.name) == field.default)

    @abstractmethod
    def _standard_deviation(self, shape: tuple[int, ...], layout: str | None, groups: int) -> float:
        """What `standard_deviation` returns; called in an `IeeeEnvironment`."""

    @abstractmethod
    def _filler(
        self, shape: tuple[int, ...], layout: str | None, groups: int, dtype: str
    ) -> Filler:
        """What `filler` returns; called in an `IeeeEnvironment`."""

    def _set(self, **values: Any) -> None:
        """Store checked values in the frozen dataclass."""
        for name, value in values.items():
            object.__setattr__(self, name, value)


# A small tensor takes less time to fill than its parameters to compute, and a model repeats few
# kinds.
@lru_cache(maxsize=4096)
def _filler(
    initializer: Initializer, shape: tuple[int, ...], layout: str | None, groups: int, dtype: str
) -> Filler:
    with _core.IeeeEnvironment():
        return initializer._filler(shape, layout, groups, dtype)


def _matrix_shape(
    out: tuple[int, ...], shape: Shape | None, region: tuple[slice, ...] | None
) -> tuple[int, ...]:
    if shape is not None:
        return shape_tuple(shape)
    if region is not None:
        raise ValueError("region needs shape=, the shape of the whole matrix")
    return out
