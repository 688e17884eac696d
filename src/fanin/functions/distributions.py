"""Arrays from distributions with concrete numbers: constant, uniform, normal, truncated normal."""

from typing import Any, Unpack

from numpy.typing import NDArray

from fanin.arguments import Shape
from fanin.functions.keywords import ArrayOptions, array_function, sample
from fanin.initializers import Constant, Normal, TruncatedNormal, Uniform, table
from fanin.initializers.distributions import Bounds


@array_function
def zeros(shape: Shape | None = None, **options: Unpack[ArrayOptions]) -> NDArray[Any]:
    """Zeros.

    Parameters
    ----------
    shape
    **options

    Examples
    --------
    >>> import fanin
    >>> fanin.zeros(3, seed=0)
    array([0., 0., 0.], dtype=float32)
    """
    return sample(table.zeros(), shape, **options)


@array_function
def ones(shape: Shape | None = None, **options: Unpack[ArrayOptions]) -> NDArray[Any]:
    """Ones.

    Parameters
    ----------
    shape
    **options

    Examples
    --------
    >>> import fanin
    >>> fanin.ones(3, seed=0, dtype="float16")
    array([1., 1., 1.], dtype=float16)
    """
    return sample(table.ones(), shape, **options)


@array_function
def constant(
    shape: Shape | None = None, *, value: float, **options: Unpack[ArrayOptions]
) -> NDArray[Any]:
    """The same value everywhere.

    Parameters
    ----------
    shape
    value : float
        Rounded to the dtype.
    **options

    Examples
    --------
    >>> import fanin
    >>> fanin.constant(3, value=0.5, seed=0)
    array([0.5, 0.5, 0.5], dtype=float32)
    """
    return sample(Constant(value), shape, **options)


@array_function
def uniform(
    shape: Shape | None = None,
    *,
    low: float = 0.0,
    high: float = 1.0,
    **options: Unpack[ArrayOptions],
) -> NDArray[Any]:
    """Uniform on [low, high).

    No value is outside of the interval, nor equal to `high`, whatever the dtype.

    Parameters
    ----------
    shape
    low, high : float
        Finite, low < high.
    **options

    Examples
    --------
    >>> import fanin
    >>> fanin.uniform(3, low=-1, high=1, seed=0, name="w")
    array([-0.6970562 ,  0.10911083,  0.9485471 ], dtype=float32)
    """
    return sample(Uniform(low, high), shape, **options)


@array_function
def normal(
    shape: Shape | None = None,
    *,
    mean: float = 0.0,
    std: float = 1.0,
    **options: Unpack[ArrayOptions],
) -> NDArray[Any]:
    """Normal.

    Parameters
    ----------
    shape
    mean, std : float
        Finite, std >= 0.
    **options

    Examples
    --------
    >>> import fanin
    >>> fanin.normal((2, 2), seed=0, name="w")
    array([[ 0.3313612 , -1.9143953 ],
           [-0.00469553,  0.22826356]], dtype=float32)
    """
    return sample(Normal(mean, std), shape, **options)


@array_function
def truncated_normal(
    shape: Shape | None = None,
    *,
    mean: float = 0.0,
    std: float = 1.0,
    low: float | None = None,
    high: float | None = None,
    bounds: Bounds = "sigma",
    keep_std: bool = False,
    **options: Unpack[ArrayOptions],
) -> NDArray[Any]:
    """Normal, cut to [low, high] by inverting its distribution function.

    Parameters
    ----------
    shape
    mean, std : float
        Of the parent, the normal before it is cut; with `keep_std`, `std` is that of the result.
    low, high : float, optional
        May be infinite. Default: -2 and 2 in sigma; absolute bounds must both be given.
    bounds : {"sigma", "absolute"}
        Whether `low` and `high` count standard deviations of the parent from its mean, or are the
        values themselves (as in `torch.nn.init.trunc_normal_`).
    keep_std : bool, default False
        Widen the parent so that the result has the standard deviation `std`: without it, a normal
        cut at 2 sigma has 0.88 `std`.
    **options

    Warns
    -----
    UserWarning
        Absolute bounds are so far away that they cut nothing.

    Examples
    --------
    >>> import fanin
    >>> fanin.truncated_normal(4, std=0.02, seed=0, name="w").round(5)
    array([-0.0193 ,  0.03343,  0.01483, -0.00362], dtype=float32)
    """
    initializer = TruncatedNormal(mean, std, low, high, bounds, keep_std)
    return sample(initializer, shape, **options)


@array_function
def gpt2_residual(
    shape: Shape | None = None,
    *,
    n_layer: int,
    std: float = 0.02,
    branches: int = 2,
    **options: Unpack[ArrayOptions],
) -> NDArray[Any]:
    """Normal with std `std / sqrt(branches * n_layer)`: Radford et al. (2019), section 2.3.

    For the projections that add to the residual stream, so that it does not grow with depth.

    Parameters
    ----------
    shape
    n_layer : int
        Blocks of the model.
    std : float, default 0.02
        Standard deviation of the other weights.
    branches : int, default 2
        Additions to the residual stream in each block.
    **options

    Examples
    --------
    >>> import fanin
    >>> fanin.gpt2_residual(2, n_layer=12, seed=0, name="w").round(5)
    array([ 0.00135, -0.00782], dtype=float32)
    """
    return sample(table.gpt2_residual(n_layer, std, branches), shape, **options)
