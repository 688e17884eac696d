"""The keywords that all named functions share, written once.

Static types come from `Unpack` of a TypedDict (PEP 692). At run time `array_function` puts the same
keywords, with the defaults of `sample`, into each function's signature, documentation and errors,
so that `help` shows what may be passed.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, Required, TypedDict, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from fanin import output
from fanin.arguments import Shape, shape_tuple, unknown
from fanin.initializers import Initializer

P = ParamSpec("P")
R = TypeVar("R")


class ArrayOptions(TypedDict, total=False):
    """Keywords of every function."""

    seed: Required[int]
    name: str
    dtype: Any
    out: Any
    region: tuple[slice, ...] | None
    threads: int | None


class LayoutOptions(ArrayOptions, total=False):
    """Keywords of the functions that see a weight as a matrix."""

    layout: str | None


class FanOptions(LayoutOptions, total=False):
    """Keywords of the functions whose rule depends on the fans."""

    groups: int


def sample(
    initializer: Initializer,
    shape: Shape | None,
    *,
    layout: str | None = None,
    groups: int = 1,
    seed: int,
    name: str = "",
    dtype: Any = None,
    out: Any = None,
    region: tuple[slice, ...] | None = None,
    threads: int | None = None,
) -> NDArray[Any]:
    """Sample an initializer into `out`, or into a new array."""
    if out is None:
        if shape is None:
            raise TypeError("shape is needed where no out is given")
        shape = shape_tuple(shape)
        _, extent = output.region_bounds(region, shape)
        out = np.empty(extent, output.numpy_dtype(output.dtype_name(dtype or "float32")))
    elif dtype is not None:
        wanted, (_, given) = output.dtype_name(dtype), output.view(out)
        if wanted != given:
            raise ValueError(f"out has dtype {given}, but dtype asks for {wanted}")
    return initializer.fill(
        out,
        seed=seed,
        name=name,
        layout=layout,
        groups=groups,
        shape=shape,
        region=region,
        threads=threads,
    )


_SHAPE_TEXT = """\
    shape : int or tuple of int, optional
        Shape of the whole matrix. Default: that of `out`.
"""

_LAYOUT_TEXT = """\
    layout : str, optional
        One letter an axis: `o` output, `i` input, `k` kernel, `b` batch. Default: `"oi"` and then
        `k`s.
"""

_GROUPS_TEXT = """\
    groups : int, default 1
        Groups of a grouped convolution; see `fanin.fans`.
"""

_OPTIONS_TEXT = """\
    seed : int
        From 0 to 2**64 - 1.
    name : str, default ""
        Name of the matrix. The same seed and name give the same draws: different matrices need
        different names.
    dtype : str or dtype, default float32
        float64, float32, float16, bfloat16, float8_e4m3fn or float8_e5m2; that of `out` if given.
    out : array, optional
        Filled in place and returned: a NumPy array of any strides, a torch CPU tensor, or another
        object with a writable buffer.
    region : tuple of slice, optional
        The part of the matrix to compute, in slices with step 1. `out` then has the region's shape.
    threads : int, optional
        Default: `FANIN_NUM_THREADS`, or `OMP_NUM_THREADS`, or the CPUs there are.

    Returns
    -------
    numpy.ndarray
        `out`, or a new array of the shape (or the region's shape).

    Raises
    ------
    ValueError, TypeError
        An argument is not allowed. Nothing has been written then.
"""


def array_function(function: Callable[P, R]) -> Callable[P, R]:
    """Give a function the shared keywords in its signature, its docstring and its errors."""
    own = inspect.signature(function).parameters
    (options,) = get_args(own["options"].annotation)
    parameters = [
        *(parameter for name, parameter in own.items() if name != "options"),
        *(
            parameter
            for name, parameter in inspect.signature(sample).parameters.items()
            if name in options.__annotations__
        ),
    ]
    allowed = {parameter.name for parameter in parameters}

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        if not allowed.issuperset(kwargs):
            stranger = min(kwargs.keys() - allowed)
            kind = f"argument of {function.__name__}"
            raise TypeError(unknown(kind, stranger, (parameter.name for parameter in parameters)))
        if "seed" not in kwargs:
            raise TypeError(f"{function.__name__} needs seed=, an integer from 0 to 2**64 - 1")
        return function(*args, **kwargs)

    signature = inspect.signature(function).replace(parameters=parameters)
    wrapper.__signature__ = signature  # type: ignore[attr-defined]
    if wrapper.__doc__ is not None:  # python -OO
        texts = {"layout": _LAYOUT_TEXT, "groups": _GROUPS_TEXT}
        shared = "".join(text for key, text in texts.items() if key in options.__annotations__)
        wrapper.__doc__ = wrapper.__doc__.replace("    shape\n", _SHAPE_TEXT).replace(
            "    **options\n", shared + _OPTIONS_TEXT
        )
    return wrapper
