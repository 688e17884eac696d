"""The functions of `torch.nn.init`: the same names, arguments, defaults and return values.

Random ones are sampled by fanin; `zeros_`, `eye_` and the like, which have one right result, are
torch's own. Every float dtype, contiguous or not; the fans are those of torch. Where torch must act
(a `DTensor`, a `FakeTensor`, a tracer), its function of the same name is called.

Examples
--------
>>> import torch
>>> import fanin.torch
>>> _ = torch.manual_seed(0)
>>> weight = torch.nn.Parameter(torch.empty(3, 5, dtype=torch.bfloat16))
>>> fanin.torch.init.kaiming_normal_(weight, nonlinearity="relu") is weight
True
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any

from torch import Generator, Tensor
from torch.nn import init
from torch.nn.init import (
    calculate_gain,
    constant,
    constant_,
    dirac,
    dirac_,
    eye,
    eye_,
    ones_,
    orthogonal,
    orthogonal_,
    sparse,
    sparse_,
    zeros_,
)

from fanin.arguments import choice, finite, nonnegative, number
from fanin.initializers import Constant, Initializer, Normal, TruncatedNormal, Uniform, table
from fanin.torch.sampling import is_foreign, sample

__all__ = [
    "calculate_gain",
    "constant",
    "constant_",
    "dirac",
    "dirac_",
    "eye",
    "eye_",
    "kaiming_normal",
    "kaiming_normal_",
    "kaiming_uniform",
    "kaiming_uniform_",
    "normal",
    "normal_",
    "ones_",
    "orthogonal",
    "orthogonal_",
    "sparse",
    "sparse_",
    "trunc_normal_",
    "uniform",
    "uniform_",
    "xavier_normal",
    "xavier_normal_",
    "xavier_uniform",
    "xavier_uniform_",
    "zeros_",
]


def uniform_(
    tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Fill a tensor from the uniform distribution on [a, b).

    Parameters
    ----------
    tensor : torch.Tensor
        Of a float dtype. It may be a view, a parameter, or on another device.
    a, b : float, default 0 and 1
        Bounds, finite, `a <= b`; where they are equal, every element is `a`.
    generator : torch.Generator, optional
        Gives the seed. Default: torch's, which `torch.manual_seed` seeds.

    Returns
    -------
    torch.Tensor
        The tensor.

    Raises
    ------
    ValueError
        A bound is not allowed, or the tensor cannot be filled: an integer or complex dtype,
        elements that share memory. Nothing has been written then.
    RuntimeError
        It is an inference tensor, outside of `torch.inference_mode()`.

    Examples
    --------
    >>> import torch
    >>> import fanin.torch
    >>> weight = fanin.torch.uniform_(torch.empty(3, 5), -0.1, 0.1)
    >>> bool(weight.abs().max() <= 0.1)
    True
    """
    if is_foreign(tensor):
        return init.uniform_(tensor, a, b, generator)
    return sample(tensor, uniform_law(a, b), generator)


def normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Fill a tensor from the normal distribution.

    Parameters
    ----------
    tensor : torch.Tensor
    mean, std : float, default 0 and 1
        Finite; `std` at least 0.
    generator : torch.Generator, optional

    Returns
    -------
    torch.Tensor
        The tensor.

    Raises
    ------
    ValueError, RuntimeError
        As in `uniform_`.

    Examples
    --------
    >>> import torch
    >>> import fanin.torch
    >>> fanin.torch.normal_(torch.empty(2, 2), mean=3.0, std=0.0)
    tensor([[3., 3.],
            [3., 3.]])
    """
    if is_foreign(tensor):
        return init.normal_(tensor, mean, std, generator)
    return sample(tensor, Normal(mean, std), generator)


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Fill a tensor from the normal distribution cut to [a, b]: values, not standard deviations.

    Bounds that cut nothing, such as the default ones of a `std` of 0.02, are a plain normal, and
    warn once.

    Parameters
    ----------
    tensor : torch.Tensor
    mean, std : float, default 0 and 1
        Of the normal before it is cut.
    a, b : float, default -2 and 2
        Bounds, `a < b`, as values.
    generator : torch.Generator, optional

    Returns
    -------
    torch.Tensor
        The tensor.

    Raises
    ------
    ValueError, RuntimeError
        As in `uniform_`; also where no value of the dtype lies within the bounds.

    Warns
    -----
    UserWarning
        Both bounds are more than 8 standard deviations from the mean; once for each `std`, `mean`
        and bounds.

    Examples
    --------
    >>> import torch
    >>> import fanin.torch
    >>> weight = fanin.torch.trunc_normal_(torch.empty(300), std=0.02, a=-0.04, b=0.04)
    >>> bool(weight.abs().max() <= 0.04)
    True
    """
    if is_foreign(tensor):
        return init.trunc_normal_(tensor, mean, std, a, b, generator)
    law = truncated_law(mean, std, a, b)
    if isinstance(law, Normal) and not math.inf == b == -a:
        _warn_of_no_cut(law.mean, law.std, float(a), float(b))
    return sample(tensor, law, generator)


def xavier_uniform_(
    tensor: Tensor, gain: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Fill from the uniform distribution of variance `gain**2 * 2 / (fan_in + fan_out)`.

    Glorot and Bengio (2010).

    Parameters
    ----------
    tensor : torch.Tensor
        Of 2 axes or more: output, input, then those of a kernel.
    gain : float, default 1
        At least 0.
    generator : torch.Generator, optional

    Returns
    -------
    torch.Tensor
        The tensor.

    Raises
    ------
    ValueError, RuntimeError
        As in `uniform_`; also where the tensor has fewer than 2 axes.

    Examples
    --------
    >>> import torch
    >>> import fanin.torch
    >>> fanin.torch.xavier_uniform_(torch.empty(3, 5), gain=0.0)[0]
    tensor([0., 0., 0., 0., 0.])
    """
    if is_foreign(tensor):
        return init.xavier_uniform_(tensor, gain, generator)
    return _sample_scaled(tensor, table.glorot_uniform(nonnegative("gain", gain)), generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill from the normal distribution of variance `gain**2 * 2 / (fan_in + fan_out)`.

    Glorot and Bengio (2010).

    Parameters
    ----------
    tensor : torch.Tensor
        Of 2 axes or more: output, input, then those of a kernel.
    gain : float, default 1
        At least 0.
    generator : torch.Generator, optional

    Returns
    -------
    torch.Tensor
        The tensor.

    Raises
    ------
    ValueError, RuntimeError
        As in `xavier_uniform_`.

    Examples
    --------
    >>> import torch
    >>> import fanin.torch
    >>> fanin.torch.xavier_normal_(torch.empty(3, 5)).shape
    torch.Size([3, 5])
    """
    if is_foreign(tensor):
        return init.xavier_normal_(tensor, gain, generator)
    return _sample_scaled(tensor, table.glorot_normal(nonnegative("gain", gain)), generator)


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Fill from the uniform distribution of variance `gain**2 / fan`.

    He et al. (2015).

    Parameters
    ----------
    tensor : torch.Tensor
        Of 2 axes or more: output, input, then those of a kernel. One without elements warns.
    a : float, default 0
        Negative slope, for `"leaky_relu"`.
    mode : {"fan_in", "fan_out"}
        Which fan.
    nonlinearity : str, default "leaky_relu"
        As in `calculate_gain`, which gives the gain.
    generator : torch.Generator, optional

    Returns
    -------
    torch.Tensor
        The tensor.

    Raises
    ------
    ValueError, RuntimeError
        As in `xavier_uniform_`.

    Examples
    --------
    >>> import torch
    >>> import fanin.torch
    >>> weight = fanin.torch.kaiming_uniform_(torch.empty(64, 6, 3, 3), nonlinearity="relu")
    >>> bool(weight.max() < 1 / 3)
    True
    """
    if is_foreign(tensor):
        return init.kaiming_uniform_(tensor, a, mode, nonlinearity, generator)
    return _sample_kaiming(tensor, table.he_uniform, a, mode, nonlinearity, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Fill from the normal distribution of variance `gain**2 / fan`.

    He et al. (2015).

    Parameters
    ----------
    tensor : torch.Tensor
        Of 2 axes or more: output, input, then those of a kernel. One without elements warns.
    a : float, default 0
        Negative slope, for `"leaky_relu"`.
    mode : {"fan_in", "fan_out"}
        Which fan.
    nonlinearity : str, default "leaky_relu"
        As in `calculate_gain`, which gives the gain.
    generator : torch.Generator, optional

    Returns
    -------
    torch.Tensor
        The tensor.

    Raises
    ------
    ValueError, RuntimeError
        As in `xavier_uniform_`.

    Examples
    --------
    >>> import torch
    >>> import fanin.torch
    >>> fanin.torch.kaiming_normal_(torch.empty(64, 3, 7, 7), mode="fan_out").shape
    torch.Size([64, 3, 7, 7])
    """
    if is_foreign(tensor):
        return init.kaiming_normal_(tensor, a, mode, nonlinearity, generator)
    return _sample_kaiming(tensor, table.he_normal, a, mode, nonlinearity, generator)


def uniform_law(a: float, b: float) -> Initializer:
    """Uniform on [a, b), or where the bounds are equal, which torch allows, the constant."""
    a, b = finite("a", a), finite("b", b)
    if a > b:
        raise ValueError(f"a must not be above b, got a={a!r}, b={b!r}")
    return Uniform(a, b) if a < b else Constant(a)


def truncated_law(mean: float, std: float, a: float, b: float) -> Initializer:
    """Normal cut to [a, b], or the plain normal where the bounds cut nothing."""
    law = Normal(mean, std)
    if TruncatedNormal.cuts_nothing(law.mean, law.std, number("a", a), number("b", b)):
        return law
    if not a < b:
        raise ValueError(f"a must be below b, got a={a!r}, b={b!r}")
    return TruncatedNormal(law.mean, law.std, a, b, bounds="absolute")


def _sample_scaled(tensor: Tensor, initializer: Initializer, generator: Generator | None) -> Tensor:
    if tensor.dim() < 2:
        raise ValueError(
            f"tensor must have 2 axes or more, as it has fans; got shape {tuple(tensor.shape)}"
        )
    return sample(tensor, initializer, generator)


def _sample_kaiming(
    tensor: Tensor,
    rule: Callable[[float, Any], Initializer],
    a: float,
    mode: str,
    nonlinearity: Any,
    generator: Generator | None,
) -> Tensor:
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", UserWarning, stacklevel=3)
        return tensor
    fan = choice("mode", mode.lower() if isinstance(mode, str) else mode, ("fan_in", "fan_out"))
    return _sample_scaled(tensor, rule(calculate_gain(nonlinearity, a), fan), generator)


@functools.lru_cache(maxsize=256)
def _warn_of_no_cut(mean: float, std: float, a: float, b: float) -> None:
    warnings.warn(
        f"the bounds a={a!r}, b={b!r} of trunc_normal_ are values and cut nothing: they are more"
        f" than 8 standard deviations ({std!r}) from the mean ({mean!r}); for bounds in standard"
        " deviations, multiply them by std",
        UserWarning,
        stacklevel=3,
    )


def _deprecated(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function by its name without the underscore, as torch still has it."""
    name = function.__name__

    def alias(*args: Any, **kwargs: Any) -> Any:
        warnings.warn(f"{name[:-1]} is deprecated: use {name}", FutureWarning, stacklevel=2)
        return function(*args, **kwargs)

    alias.__name__ = alias.__qualname__ = name[:-1]
    alias.__doc__ = f"Deprecated: use `{name}`."
    return alias


uniform = _deprecated(uniform_)
normal = _deprecated(normal_)
xavier_uniform = _deprecated(xavier_uniform_)
xavier_normal = _deprecated(xavier_normal_)
kaiming_uniform = _deprecated(kaiming_uniform_)
kaiming_normal = _deprecated(kaiming_normal_)
