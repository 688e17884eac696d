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

import warnings
from collections.abc import Callable
from typing import Any

from torch.nn.init import (
    calculate_gain,
    constant,
    constant_,
    dirac,
    dirac_,
    eye,
    eye_,
    ones_,
    zeros_,
)

from fanin.torch.init.distributions import normal_, trunc_normal_, uniform_
from fanin.torch.init.matrices import orthogonal_, sparse_
from fanin.torch.init.scaling import (
    kaiming_normal_,
    kaiming_uniform_,
    xavier_normal_,
    xavier_uniform_,
)

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
orthogonal = _deprecated(orthogonal_)
sparse = _deprecated(sparse_)
