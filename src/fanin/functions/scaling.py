"""Arrays whose variance scales with the fans, under the names of their papers.

`*_normal` is the plain normal, as in the papers and torch; JAX, Keras and Flax mean the truncated
one by the same name: `truncated=True`.
"""

from typing import Any, Unpack

from numpy.typing import NDArray

from fanin.arguments import Shape
from fanin.functions.keywords import FanOptions, array_function, sample
from fanin.gains import Gain
from fanin.initializers import TorchLinear, VarianceScaling, table
from fanin.initializers.scaling import DistributionName, Mode


@array_function
def variance_scaling(
    shape: Shape | None = None,
    *,
    scale: float = 1.0,
    mode: Mode = "fan_in",
    distribution: DistributionName = "truncated_normal",
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


xavier_uniform = glorot_uniform
xavier_normal = glorot_normal
kaiming_uniform = he_uniform
kaiming_normal = he_normal
