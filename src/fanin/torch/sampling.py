"""A torch tensor filled by fanin, with a seed from torch's generator.

Each call takes one draw of 64 bits from the generator and uses it as the seed, with the name "":
`torch.manual_seed`, `fork_rng` and `set_rng_state` rule as they do over torch's own functions, and
a tensor of any size moves the generator by the same step. Tensors that are no memory of their own
(under a tracer, a mode or a transform, or of a class that dispatches by itself) are torch's: a
tensor under `vmap` or a `DTensor` looks like memory that it is not.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Generator, Tensor
from torch.autograd import forward_ad
from torch.utils import _python_dispatch

from fanin.initializers import Initializer, Uniform
from fanin.output import ITEMSIZE

FLOATS = frozenset(getattr(torch, name) for name in ITEMSIZE if hasattr(torch, name))
"""The dtypes that fanin samples."""

# Elements that are sampled at once for a tensor outside of CPU memory.
_BLOCK = 2**24


def sample(tensor: Tensor, initializer: Initializer, generator: Generator | None = None) -> Tensor:
    """Fill `tensor` in place, whatever its device, and return it.

    Raises
    ------
    ValueError
        The tensor's dtype, layout or memory cannot be filled. Nothing has been written then.
    RuntimeError
        It is an inference tensor, outside of `torch.inference_mode()`.
    """
    check(tensor)
    return sample_checked(tensor, initializer, generator)


def sample_checked(
    tensor: Tensor, initializer: Initializer, generator: Generator | None = None
) -> Tensor:
    """As `sample`, of a tensor that `check` has passed."""
    if isinstance(initializer, Uniform):
        _check_bounds(tensor, initializer)
    if tensor.is_meta or tensor.numel() == 0:
        return tensor
    seed = draw_seed(generator)
    if tensor.device.type == "cpu":
        return initializer.fill(tensor, seed=seed)
    return sample_by_copies(tensor, initializer, seed)


def draw_seed(generator: Generator | None = None) -> int:
    """64 bits from torch's generator: the default one of the CPU, or that which is given.

    Examples
    --------
    >>> import torch
    >>> draw_seed(torch.Generator().manual_seed(0)) == draw_seed(torch.Generator().manual_seed(0))
    True
    """
    if generator is not None and not isinstance(generator, Generator):
        raise TypeError(f"generator must be a torch.Generator or None, got {generator!r}")
    device = "cpu" if generator is None else generator.device
    bits = torch.empty((), dtype=torch.int64, device=device)
    return int(bits.random_(-(2**63), None, generator=generator)) % 2**64


def sample_by_copies(tensor: Tensor, initializer: Initializer, seed: int) -> Tensor:
    """Fill a tensor outside of CPU memory: a block at a time here, each copied there.

    The values are those that a CPU tensor of that shape and seed gets.
    """
    shape = tuple(tensor.shape)
    with torch.no_grad():
        for region in _blocks(shape):
            there = tensor[region]
            block = torch.empty(there.shape, dtype=tensor.dtype, device="cpu")
            initializer.fill(block, seed=seed, shape=shape, region=region)
            there.copy_(block)
    return tensor


def is_foreign(tensor: Any) -> bool:
    """True where torch must do what is asked: more than a tensor's memory may be involved."""
    return (
        not isinstance(tensor, Tensor)
        or dispatches(tensor)
        or tensor.is_nested
        or _python_dispatch._get_current_dispatch_mode() is not None
        or torch._C._functorch.peek_interpreter_stack() is not None
        or torch.compiler.is_compiling()
        or torch.jit.is_tracing()
        or forward_ad._current_level >= 0
    )


def dispatches(tensor: Tensor) -> bool:
    """True for a class that decides itself what an operation does to what memory."""
    return type(tensor).__torch_dispatch__ is not Tensor.__torch_dispatch__


def check(tensor: Any) -> None:
    """Raise what `sample` raises."""
    if tensor.dtype not in FLOATS:
        dtype = str(tensor.dtype).removeprefix("torch.")
        raise ValueError(f"tensor must have one of the dtypes {', '.join(ITEMSIZE)}, got {dtype}")
    if tensor.numel() == 0 and (whole := math.prod(getattr(tensor, "ds_shape", (0,)))) > 0:
        raise ValueError(
            f"tensor is an empty placeholder: DeepSpeed has sharded its {whole} elements; fill it"
            " within deepspeed.zero.GatheredParameters"
        )
    if tensor.is_inference() and not torch.is_inference_mode_enabled():
        raise RuntimeError("tensor is an inference tensor: fill it within torch.inference_mode()")
    if tensor.layout is torch.strided and shares_elements(tensor):
        raise ValueError(
            f"elements of tensor share memory, as after expand(): shape {tuple(tensor.shape)},"
            f" strides {tensor.stride()}; fill its contiguous() copy"
        )


def _check_bounds(tensor: Tensor, law: Uniform) -> None:
    """Refuse bounds that the dtype does not reach, as torch does: clamping heaps values there."""
    largest = torch.finfo(tensor.dtype).max
    for name, bound in (("a", law.low), ("b", law.high)):
        if abs(bound) > largest:
            dtype = str(tensor.dtype).removeprefix("torch.")
            raise ValueError(
                f"{name} must be from {-largest!r} to {largest!r} for a tensor of {dtype}, got"
                f" {bound!r}"
            )


def shares_elements(tensor: Any) -> bool:
    """True for an expanded tensor: an axis of several elements in the same place."""
    return any(
        step == 0 and size > 1 for step, size in zip(tensor.stride(), tensor.shape, strict=True)
    )


def _blocks(shape: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
    """Regions that cover the shape, each of about `_BLOCK` elements at most."""
    left = _BLOCK
    cuts: list[list[slice]] = []
    for size in reversed(shape):
        step = min(size, max(left, 1))
        cuts.append([slice(i, min(i + step, size)) for i in range(0, size, step)])
        left //= size
    return itertools.product(*reversed(cuts))
