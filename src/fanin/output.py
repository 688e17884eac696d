"""What can be written: dtypes, destinations, regions.

A destination is looked at through one NumPy view of its own memory, never through a copy: what
cannot be viewed is refused. torch is not imported for that; it is there if the object is a tensor.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from fanin.arguments import integer, unknown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ITEMSIZE: dict[str, int] = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
}
"""The dtypes there are, with their bytes an element."""

LITERAL_ITEMSIZE: dict[str, int] = {
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "int8": 1,
    "uint8": 1,
    "bool": 1,
    "float8_e8m0fnu": 1,
}
"""Dtypes of given values, such as counters in a file; nothing is sampled in them."""


def itemsize(dtype: str) -> int:
    """Bytes an element of a dtype that a file may have."""
    return ITEMSIZE[dtype] if dtype in ITEMSIZE else LITERAL_ITEMSIZE[dtype]


def dtype_name(dtype: Any) -> str:
    """Name of a dtype given by name or as a NumPy, ml_dtypes, JAX or torch object.

    Raises
    ------
    ValueError
        A dtype that is not one of `ITEMSIZE`.
    TypeError
        Something that is no dtype.

    Examples
    --------
    >>> import ml_dtypes, numpy
    >>> dtype_name("float32"), dtype_name(numpy.float16), dtype_name(ml_dtypes.bfloat16)
    ('float32', 'float16', 'bfloat16')
    """
    if isinstance(dtype, str):
        name = dtype
    elif type(dtype).__module__ == "torch":
        name = str(dtype).removeprefix("torch.")
    else:
        import numpy as np

        try:
            resolved = np.dtype(dtype) if dtype is not None else None
        except TypeError:
            resolved = None
        if resolved is None:
            raise TypeError(f"dtype must be one of {', '.join(ITEMSIZE)}, got {dtype!r}")
        if not resolved.isnative:
            raise ValueError(f"dtype must have the machine's byte order, got {resolved!r}")
        name = resolved.name
    if name not in ITEMSIZE:
        raise ValueError(unknown("dtype", name, ITEMSIZE))
    return name


@functools.cache
def numpy_dtype(name: str) -> np.dtype[Any]:
    """The NumPy dtype of one of the names in `ITEMSIZE` or `LITERAL_ITEMSIZE`."""
    import ml_dtypes
    import numpy as np

    own = name.startswith(("bfloat", "float8"))
    dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name) if own else name)
    return dtype


@functools.cache
def _dtype_names() -> dict[np.dtype[Any], str]:
    return {numpy_dtype(name): name for name in (*ITEMSIZE, *LITERAL_ITEMSIZE)}


def view(out: Any, *, integers: bool = False) -> tuple[NDArray[Any], str]:
    """A NumPy view of the memory of `out` that may be written, and the name of its dtype.

    Raises
    ------
    TypeError
        `out` is no array.
    ValueError
        `out` cannot be filled in place: it is read-only, overlaps itself, lies on another device,
        or its dtype is not one of `ITEMSIZE` in the machine's byte order (or, with `integers`, of
        `LITERAL_ITEMSIZE`).
    """
    import numpy as np

    if type(out) is np.ndarray:
        array = out
    elif isinstance(out, np.ndarray):
        array = out.view(np.ndarray)
    elif is_tensor(out):
        array = _view_tensor(out, integers)
    else:
        array = _view_buffer(out)
    name = _dtype_names().get(array.dtype)
    if name is None or (name not in ITEMSIZE and not integers):
        _refuse_dtype(array.dtype)
    if not array.flags.writeable:
        raise ValueError("out is read-only")
    if not array.flags.forc and _may_overlap(array):
        raise ValueError(
            f"elements of out overlap in memory: shape {array.shape}, strides {array.strides} bytes"
        )
    return array, name


def is_tensor(out: Any) -> bool:
    """True for a torch tensor. torch is loaded where there is one."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(out, torch.Tensor)


def announce_write(out: Any) -> None:
    """Tell torch's autograd that a tensor is about to change in place."""
    if is_tensor(out) and not out.is_inference():
        sys.modules["torch"].autograd.graph.increment_version(out)


def region_bounds(
    region: tuple[slice, ...] | None, shape: tuple[int, ...], what: str = "region"
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """First index and extent of a region of a matrix; of the whole matrix for None.

    Examples
    --------
    >>> region_bounds((slice(2, 4), slice(None)), (5, 3))
    ((2, 0), (2, 3))
    """
    if region is None:
        return (0,) * len(shape), shape
    if not isinstance(region, tuple) or not all(isinstance(part, slice) for part in region):
        raise TypeError(f"{what} must be a tuple of slices, got {region!r}")
    if len(region) != len(shape):
        raise ValueError(
            f"{what} must have a slice for each of the {len(shape)} axes of shape {shape},"
            f" got {len(region)}"
        )
    bounds = [
        _slice_bounds(f"{what}[{axis}]", part, size)
        for axis, (part, size) in enumerate(zip(region, shape, strict=True))
    ]
    return tuple(start for start, _ in bounds), tuple(stop - start for start, stop in bounds)


def _slice_bounds(name: str, part: slice, size: int) -> tuple[int, int]:
    if part.step is not None and integer(f"the step of {name}", part.step, low=-(2**63)) != 1:
        raise ValueError(f"{name} must have step 1, got {part!r}")
    start = 0 if part.start is None else integer(f"the start of {name}", part.start, low=0)
    stop = size if part.stop is None else integer(f"the stop of {name}", part.stop, low=0)
    if not start <= stop <= size:
        raise ValueError(f"{name} must lie within 0:{size}, got {start}:{stop}")
    return start, stop


def _view_buffer(out: Any) -> NDArray[Any]:
    import numpy as np

    try:
        return np.asarray(memoryview(out))
    except (TypeError, ValueError, BufferError):
        raise TypeError(
            "out must be a NumPy array, a torch CPU tensor or another object with a buffer,"
            f" got {type(out).__name__}"
        ) from None


def _view_tensor(tensor: Any, literal: bool) -> NDArray[Any]:
    """A NumPy view of a torch tensor: through integers, as NumPy knows few of torch's floats."""
    torch = sys.modules["torch"]
    if tensor.device.type != "cpu":
        raise ValueError(f"out must be a tensor in CPU memory, got one on {str(tensor.device)!r}")
    if tensor.layout is not torch.strided or tensor.is_nested:
        layout = "nested" if tensor.is_nested else str(tensor.layout).removeprefix("torch.")
        raise ValueError(f"out must be a dense tensor, got a tensor of the layout {layout}")
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in ITEMSIZE and not (literal and name in LITERAL_ITEMSIZE):
        _refuse_dtype(name)
    if tensor.is_neg():
        raise ValueError("out is a lazily negated view: call resolve_neg() first")
    integers = {8: torch.int64, 4: torch.int32, 2: torch.int16, 1: torch.uint8}[itemsize(name)]
    try:
        if tensor.numel() > 0 and tensor.untyped_storage().nbytes() == 0:
            raise RuntimeError("its storage was freed")
        array: NDArray[Any] = tensor.detach().view(integers).numpy()
    except (RuntimeError, TypeError, NotImplementedError) as error:
        raise ValueError(f"out is a tensor without memory that can be filled: {error}") from error
    return array.view(numpy_dtype(name))


def _refuse_dtype(dtype: Any) -> NoReturn:
    if not getattr(dtype, "isnative", True):
        raise ValueError(f"out must have the machine's byte order, got dtype {dtype.str!r}")
    raise ValueError(f"out must have one of the dtypes {', '.join(ITEMSIZE)}, got {dtype}")


def _may_overlap(array: NDArray[Any]) -> bool:
    """True unless each axis, by ascending stride, steps over all that the axes before it span."""
    if array.size == 0:
        return False
    span = array.itemsize
    for stride, size in sorted(zip(map(abs, array.strides), array.shape, strict=True)):
        if size > 1:
            if stride < span:
                return True
            span += (size - 1) * stride
    return False
