"""`xavier_*` and `kaiming_*`: variances from the fans of the weight, as torch counts them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from torch import Generator, Tensor
from torch.nn import init

from fanin.arguments import choice, nonnegative
from fanin.initializers import Initializer, table
from fanin.torch.sampling import check, is_foreign, sample_checked


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


def _sample_scaled(tensor: Tensor, initializer: Initializer, generator: Generator | None) -> Tensor:
    check(tensor)
    if tensor.dim() < 2:
        raise ValueError(
            f"tensor must have 2 axes or more, as it has fans; got shape {tuple(tensor.shape)}"
        )
    return sample_checked(tensor, initializer, generator)


def _sample_kaiming(
    tensor: Tensor,
    rule: Callable[[float, Any], Initializer],
    a: float,
    mode: str,
    nonlinearity: Any,
    generator: Generator | None,
) -> Tensor:
    check(tensor)
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", UserWarning, stacklevel=3)
        return tensor
    fan = choice("mode", mode.lower() if isinstance(mode, str) else mode, ("fan_in", "fan_out"))
    return _sample_scaled(tensor, rule(init.calculate_gain(nonlinearity, a), fan), generator)
