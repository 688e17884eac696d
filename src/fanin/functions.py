"""The named functions: arrays of initial weights, one line over an initializer value each.

Every function takes the shape first and everything else by keyword; the keywords that all share are
in `fanin.keywords`.

`*_normal` is the plain normal, as in the papers and torch; JAX, Keras and Flax mean the truncated
one by the same name: `truncated=True`.
"""

from typing import Any, Unpack

from numpy.typing import NDArray

from fanin.arguments import Shape
from fanin.gains import Gain
from fanin.initializers import (
    Constant,
    Normal,
    TorchLinear,
    TruncatedNormal,
    Uniform,
    VarianceScaling,
    table,
)
from fanin.initializers.distributions import Bounds
from fanin.initializers.scaling import Distribution, Mode
from fanin.keywords import ArrayOptions, FanOptions, array_function, sample


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
def variance_scaling(
    shape: Shape | None = None,
    *,
    scale: float = 1.0,
    mode: Mode = "fan_in",
    distribution: Distribution = "truncated_normal",
    **options: Unpack[FanOptions],
) -> NDArray[Any]:
    """Mean 0 and variance `scale / fan`.

    Parameters
    ----------
    shape
    scale : float
        The square of the gain.
    mode : {"fan_in", "fan_out", "fan_avg", "fan_geo_avg"}
        Which fan: one of them, their arithmetic or their geometric mean.
    distribution : {"truncated_normal", "normal", "uniform"}
        The truncated normal is cut at 2 standard deviations of its parent, which is widened so that
        the variance is kept.
    **options

    Examples
    --------
    >>> import fanin
    >>> fanin.variance_scaling((2, 3), scale=3, distribution="uniform", seed=0).shape
    (2, 3)
    """
    return sample(VarianceScaling(scale, mode, distribution), shape, **options)


@array_function
def glorot_uniform(
    shape: Shape | None = None, *, gain: Gain = 1.0, **options: Unpack[FanOptions]
) -> NDArray[Any]:
    """Uniform with variance `gain**2 * 2 / (fan_in + fan_out)`: Glorot and Bengio (2010).

    Parameters
    ----------
    shape
    gain : float, str or callable, default 1
        As in `fanin.gain`.
    **options

    Examples
    --------
    >>> import fanin
    >>> bool(abs(fanin.glorot_uniform((2, 4), seed=0)).max() < 1)
    True
    """
    return sample(table.glorot_uniform(gain), shape, **options)


@array_function
def glorot_normal(
    shape: Shape | None = None,
    *,
    gain: Gain = 1.0,
    truncated: bool = False,
    **options: Unpack[FanOptions],
) -> NDArray[Any]:
    """Normal with variance `gain**2 * 2 / (fan_in + fan_out)`: Glorot and Bengio (2010).

    Parameters
    ----------
    shape
    gain : float, str or callable, default 1
        As in `fanin.gain`.
    truncated : bool, default False
        Cut the normal at 2 standard deviations and keep the variance, as JAX, Keras and Flax do.
    **options

    Examples
    --------
    >>> import fanin
    >>> fanin.glorot_normal((768, 3072), gain="gelu", seed=0, name="mlp.weight").shape
    (768, 3072)
    """
    return sample(table.glorot_normal(gain, truncated), shape, **options)


@array_function
def he_uniform(
    shape: Shape | None = None,
    *,
    gain: Gain = "relu",
    mode: Mode = "fan_in",
    **options: Unpack[FanOptions],
) -> NDArray[Any]:
    """Uniform with variance `gain**2 / fan`: He et al. (2015).

    Parameters
    ----------
    shape
    gain : float, str or callable, default "relu"
        As in `fanin.gain`.
    mode : {"fan_in", "fan_out", "fan_avg", "fan_geo_avg"}
        Which fan.
    **options

    Examples
    --------
    >>> import fanin
    >>> fanin.he_uniform((64, 3, 7, 7), mode="fan_out", seed=0).shape
    (64, 3, 7, 7)
    """
    return sample(table.he_uniform(gain, mode), shape, **options)


@array_function
def he_normal(
    shape: Shape | None = None,
    *,
    gain: Gain = "relu",
    mode: Mode = "fan_in",
    truncated: bool = False,
    **options: Unpack[FanOptions],
) -> NDArray[Any]:
    """Normal with variance `gain**2 / fan`: He et al. (2015).

    Parameters
    ----------
    shape
    gain : float, str or callable, default "relu"
        As in `fanin.gain`.
    mode : {"fan_in", "fan_out", "fan_avg", "fan_geo_avg"}
        Which fan.
    truncated : bool, default False
        Cut the normal at 2 standard deviations and keep the variance, as JAX, Keras and Flax do.
    **options

    Examples
    --------
    >>> import fanin
    >>> weight = fanin.he_normal((64, 3, 7, 7), seed=0, name="conv1.weight")
    >>> part = fanin.he_normal(
    ...     (64, 3, 7, 7), seed=0, name="conv1.weight", region=(slice(16, 32), *[slice(None)] * 3)
    ... )
    >>> bool((part == weight[16:32]).all())
    True
    """
    return sample(table.he_normal(gain, mode, truncated), shape, **options)


@array_function
def lecun_uniform(shape: Shape | None = None, **options: Unpack[FanOptions]) -> NDArray[Any]:
    """Uniform with variance `1 / fan_in`: LeCun et al. (1998).

    Parameters
    ----------
    shape
    **options

    Examples
    --------
    >>> import fanin
    >>> fanin.lecun_uniform((300, 10), layout="io", seed=0).shape
    (300, 10)
    """
    return sample(table.lecun_uniform(), shape, **options)


@array_function
def lecun_normal(
    shape: Shape | None = None, *, truncated: bool = False, **options: Unpack[FanOptions]
) -> NDArray[Any]:
    """Normal with variance `1 / fan_in`: LeCun et al. (1998).

    Parameters
    ----------
    shape
    truncated : bool, default False
        Cut the normal at 2 standard deviations and keep the variance, as JAX, Keras and Flax do.
    **options

    Examples
    --------
    >>> import fanin
    >>> fanin.lecun_normal((300, 10), layout="io", truncated=True, seed=0).shape
    (300, 10)
    """
    return sample(table.lecun_normal(truncated), shape, **options)


@array_function
def torch_linear(shape: Shape | None = None, **options: Unpack[FanOptions]) -> NDArray[Any]:
    """Uniform on +-1/sqrt(fan_in): what torch's `nn.Linear` and `nn.Conv2d` start from.

    torch writes it as `kaiming_uniform_(a=math.sqrt(5))`.

    Parameters
    ----------
    shape
    **options

    Examples
    --------
    >>> import fanin
    >>> bool(abs(fanin.torch_linear((3, 4), seed=0)).max() < 0.5)
    True
    """
    return sample(TorchLinear(), shape, **options)


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


xavier_uniform = glorot_uniform
xavier_normal = glorot_normal
kaiming_uniform = he_uniform
kaiming_normal = he_normal
