"""What stands in the place of torch's methods and functions while `accelerate` is active.

Each samples by fanin if the tensor is plain float memory of the CPU and the arguments are plain
numbers in their range. All else is torch's, as before: integers and complex numbers, other devices,
subclasses and modes, anything traced, compiled or under a transform, and whatever torch refuses,
with torch's own error.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter, init
from torch.overrides import _get_current_function_mode_stack, has_torch_function_unary
from torch.utils._device import DeviceContext

from fanin.initializers import Initializer, Normal, Orthogonal, Sparse
from fanin.torch.init.distributions import truncated_law, uniform_law
from fanin.torch.sampling import FLOATS, is_foreign, sample_checked, shares_elements

METHODS: dict[str, tuple[tuple[str, str], Callable[[float, float], Initializer]]] = {
    "normal_": (("mean", "std"), functools.lru_cache(Normal)),
    "uniform_": (("from", "to"), functools.lru_cache(uniform_law)),
}
"""The methods of `torch.Tensor`: their parameters, 0 and 1 by default, and the law of these."""


def method(
    name: str, original: Callable[..., Any], is_active: Callable[[], bool]
) -> Callable[..., Any]:
    """A method of `torch.Tensor`: by fanin where it can be, else `original`."""
    parameters, law = METHODS[name]

    @functools.wraps(original)
    def replacement(self: Any, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling() or not is_active():
            return original(self, *args, **kwargs)
        rest = dict(zip(parameters, args, strict=False)) | kwargs
        numbers = rest.pop(parameters[0], 0.0), rest.pop(parameters[1], 1.0)
        generator = rest.pop("generator", None)
        accepted = not rest and len(args) <= 2 and kwargs.keys().isdisjoint(parameters[: len(args)])
        if accepted and _is_sampled(self, *numbers) and not _is_recorded(self):
            try:
                return sample_checked(self, law(*numbers), generator)
            except ValueError:  # nothing is written yet: torch's own error, or its own way
                pass
        return original(self, *args, **kwargs)

    return replacement


def function(name: str, tensor: Any, numbers: tuple[Any, ...], generator: Any) -> Any:
    """A function of `torch.nn.init`: by fanin where it can be, else as it was."""
    if not torch.compiler.is_compiling() and _is_sampled(tensor, *numbers):
        try:
            law = _LAWS[name](tensor, *numbers)
            if law is not None:
                return sample_checked(tensor, law, generator)
        except ValueError:
            pass
    return ORIGINALS[name](tensor, *numbers, generator)


def _truncated_law(tensor: Any, mean: float, std: float, a: float, b: float) -> Initializer | None:
    """None where torch warns, as the mean is far out of the bounds."""
    return truncated_law(mean, std, a, b) if a - 2 * std <= mean <= b + 2 * std else None


def _orthogonal_law(tensor: Any, gain: float) -> Initializer | None:
    return Orthogonal(gain) if tensor.dim() >= 2 else None


def _sparse_law(tensor: Any, sparsity: float, std: float) -> Initializer | None:
    return Sparse(sparsity, std) if tensor.dim() == 2 else None


_LAWS: dict[str, Callable[..., Initializer | None]] = {
    "trunc_normal_": _truncated_law,
    "orthogonal_": _orthogonal_law,
    "sparse_": _sparse_law,
}


# The code of these becomes that of torch's. So they have the parameters of those, and no names but
# what they import.


def _trunc_normal_(tensor: Any, mean: float, std: float, a: float, b: float, generator: Any) -> Any:
    from fanin.torch.replacements import function

    return function("trunc_normal_", tensor, (mean, std, a, b), generator)


def _orthogonal_(tensor: Any, gain: float, generator: Any) -> Any:
    from fanin.torch.replacements import function

    return function("orthogonal_", tensor, (gain,), generator)


def _sparse_(tensor: Any, sparsity: float, std: float, generator: Any) -> Any:
    from fanin.torch.replacements import function

    return function("sparse_", tensor, (sparsity, std), generator)


FUNCTIONS: dict[str, FunctionType] = {
    name: getattr(init, name) for name in _LAWS if getattr(init, name).__module__ == init.__name__
}
"""The functions of `torch.nn.init` that do more than call a method."""

ORIGINALS: dict[str, FunctionType] = {
    name: FunctionType(torch_one.__code__, torch_one.__globals__, name, torch_one.__defaults__)
    for name, torch_one in FUNCTIONS.items()
}
"""The same, with the code that torch gave them."""

CODES: dict[str, CodeType] = {
    "trunc_normal_": _trunc_normal_.__code__,
    "orthogonal_": _orthogonal_.__code__,
    "sparse_": _sparse_.__code__,
}
"""The code that they are given."""


def _is_sampled(tensor: Any, *numbers: Any) -> bool:
    """True for numbers, and a tensor that is nothing but float memory of the CPU."""
    return (
        all(isinstance(x, float | int) and not isinstance(x, bool) for x in numbers)
        and not is_foreign(tensor)
        and not _is_overridden(tensor)
        and tensor.dtype in FLOATS
        and tensor.device.type == "cpu"
        and tensor.layout is torch.strided
        and not tensor.is_neg()
        and not shares_elements(tensor)
        and (not tensor.is_inference() or torch.is_inference_mode_enabled())
    )


def _is_recorded(tensor: Any) -> bool:
    """True where autograd would record the call, or refuse it: a leaf outside of `no_grad`."""
    return bool(tensor.requires_grad) and torch.is_grad_enabled()


def _is_overridden(tensor: Any) -> bool:
    """True where a `__torch_function__` must see the call. `torch.device` as a mode need not."""
    return has_torch_function_unary(tensor) and not (
        type(tensor) in (Tensor, Parameter)
        and all(isinstance(mode, DeviceContext) for mode in _get_current_function_mode_stack())
    )
