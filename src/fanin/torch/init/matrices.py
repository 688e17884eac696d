"""`orthogonal_` and `sparse_`: matrices as a whole."""

from __future__ import annotations

from torch import Generator, Tensor
from torch.nn import init

from fanin.initializers import Orthogonal, Sparse
from fanin.torch.sampling import check, is_foreign, sample_checked


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """Fill with a matrix of orthonormal rows, or columns where there are more rows, times `gain`.

    Uniform among all such matrices; sampled in any float dtype, without a decomposition. Saxe et
    al. (2014).

    Parameters
    ----------
    tensor : torch.Tensor
        Of 2 axes or more: the first are the rows, all others together the columns.
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
    >>> weight = fanin.torch.orthogonal_(torch.empty(3, 5))
    >>> torch.allclose(weight @ weight.T, torch.eye(3), atol=1e-6)
    True
    """
    if is_foreign(tensor):
        return init.orthogonal_(tensor, gain, generator)
    check(tensor)
    if tensor.dim() < 2:
        raise ValueError(f"tensor must have 2 axes or more, got shape {tuple(tensor.shape)}")
    return sample_checked(tensor, Orthogonal(gain), generator)


def sparse_(
    tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None
) -> Tensor:
    """Fill from the normal distribution, but for some zeros in each column: Martens (2010).

    Parameters
    ----------
    tensor : torch.Tensor
        Of 2 axes.
    sparsity : float
        From 0 to 1: of the rows of each column, `ceil(sparsity * rows)` are zero.
    std : float, default 0.01
        Of the other elements.
    generator : torch.Generator, optional

    Returns
    -------
    torch.Tensor
        The tensor.

    Raises
    ------
    ValueError, RuntimeError
        As in `uniform_`; also where the tensor does not have 2 axes.

    Examples
    --------
    >>> import torch
    >>> import fanin.torch
    >>> (fanin.torch.sparse_(torch.empty(10, 3), sparsity=0.75) == 0).sum(dim=0)
    tensor([8, 8, 8])
    """
    if is_foreign(tensor):
        return init.sparse_(tensor, sparsity, std, generator)
    check(tensor)
    if tensor.dim() != 2:
        raise ValueError(f"tensor must have 2 axes, got shape {tuple(tensor.shape)}")
    return sample_checked(tensor, Sparse(sparsity, std), generator)
