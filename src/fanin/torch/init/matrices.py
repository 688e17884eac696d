"""`sparse_` and `orthogonal_`: matrices as a whole."""

from __future__ import annotations

from torch import Generator, Tensor
from torch.nn import init

from fanin.initializers import Sparse
from fanin.torch.sampling import is_foreign, sample


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
    if tensor.dim() != 2:
        raise ValueError(f"tensor must have 2 axes, got shape {tuple(tensor.shape)}")
    return sample(tensor, Sparse(sparsity, std), generator)
