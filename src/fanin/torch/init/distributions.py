"""`uniform_`, `normal_`, `trunc_normal_`, and the initializers that they stand for."""

from __future__ import annotations

import functools
import math
import warnings

from torch import Generator, Tensor
from torch.nn import init

from fanin.arguments import finite, number
from fanin.initializers import Constant, Initializer, Normal, TruncatedNormal, Uniform
from fanin.torch.sampling import is_foreign, sample


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


@functools.lru_cache(maxsize=256)
def _warn_of_no_cut(mean: float, std: float, a: float, b: float) -> None:
    warnings.warn(
        f"the bounds a={a!r}, b={b!r} of trunc_normal_ are values and cut nothing: they are more"
        f" than 8 standard deviations ({std!r}) from the mean ({mean!r}); for bounds in standard"
        " deviations, multiply them by std",
        UserWarning,
        stacklevel=3,
    )
