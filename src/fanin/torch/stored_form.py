"""How transformers stores a module: the tensors of its file, each as a part of the module's own.

Since its version 5 the names and shapes in a file may be other ones than those in the module:
experts that the module stacks are tensors of their own, prefixes differ, query, key and value are
fused. `save_pretrained` turns one into the other by a mapping of transformers. Here it runs on
tensors of the meta device: what it makes by views (chunks, single experts) tells by its strides
what it is a view of, and what it joins is noted. So all of the mapping is used, nothing of it is
repeated, and no weight is needed for it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch
from torch.overrides import TorchFunctionMode

from fanin.model import Part, Tensor

__all__ = ["View", "Views", "in_files", "keyed", "split", "stored_views"]

Views: TypeAlias = "dict[str, tuple[View, ...]]"
"""By stored name, the views that are joined along the first axis in it: mostly one."""

_COPIES = (torch.Tensor.contiguous, torch.Tensor.clone, torch.clone)
_JOINS = (torch.cat, torch.concat, torch.concatenate)


@dataclass(frozen=True)
class View:
    """A box of a tensor of the module; without its first axis, of length 1, if `inner`."""

    name: str  # of the module's tensor
    box: tuple[slice, ...]
    inner: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the view."""
        sizes = tuple(span.stop - span.start for span in self.box)
        return sizes[1:] if self.inner else sizes


def stored_views(model: Any, shapes: Mapping[str, tuple[int, ...]]) -> Views | None:
    """Return what the tensors of a file of a model are in the model.

    Parameters
    ----------
    model : transformers.PreTrainedModel
    shapes : mapping
        Name and shape of each tensor of its state_dict.

    Returns
    -------
    dict or None
        The views, tied tensors once. None if transformers rearranges a tensor in another way, such
        as transposed.
    """
    from transformers.core_model_loading import revert_weight_conversion
    from transformers.modeling_utils import remove_tied_weights_from_state_dict

    state = {name: torch.empty(shape, device="meta") for name, shape in shapes.items()}
    for name in model._keys_to_ignore_on_save or ():
        state.pop(name, None)
    state = remove_tied_weights_from_state_dict(state, model)
    with _Tracing() as tracing:
        stored = revert_weight_conversion(model, dict(state))
    owners = {_storage(tensor): name for name, tensor in state.items()}
    views = {}
    for name, tensor in stored.items():
        pieces = tracing.joined.get(_storage(tensor), [tensor])
        found = [_view(piece, owners, shapes) for piece in pieces]
        known = tuple(view for view in found if view is not None)
        if len(known) < len(pieces) or sum(map(torch.numel, pieces)) != tensor.numel():
            return None
        if len(pieces) > 1 and any(view.inner for view in known):
            return None
        views[name] = known
    return views


def split(tensors: Mapping[str, Tensor], views: Views) -> dict[str, Tensor]:
    """Return the module's tensors, with a part for each stored tensor that is a piece of one.

    Only where no more is known of a tensor than that it is one matrix, and the pieces cover it.
    """
    pieces: dict[str, list[tuple[str, View]]] = {}
    for stored, joined in views.items():
        for view in joined:
            pieces.setdefault(view.name, []).append((stored, view))
    result = dict(tensors)
    for name, tensor in tensors.items():
        own = pieces.get(name, [])
        covered = sum(math.prod(view.shape) for _, view in own)
        first, *more = tensor.parts
        if len(own) > 1 and not more and covered == tensor.numel:
            parts = tuple(_piece(first, stored, view) for stored, view in own)
            result[name] = replace(tensor, parts=parts)
    return result


def _piece(matrix: Part, stored: str, view: View) -> Part:
    shape = tuple(span.stop - span.start for span in view.box)
    share, rest = divmod(matrix.groups * shape[0], matrix.shape[0])
    return replace(
        matrix,
        name=stored,
        shape=shape,
        groups=1 if rest else max(share, 1),
        layout="boi" if view.inner and len(shape) == 3 else matrix.layout,
        start=(0,) * len(shape),
        extent=shape,
        tensor_start=tuple(span.start for span in view.box),
    )


def keyed(tensors: Mapping[str, Tensor], views: Views) -> dict[str, Tensor]:
    """Return the module's tensors with their parts keyed as the files have them.

    A logical matrix has the name of the stored tensor that it is, or `<stored>#<label>` if it
    shares that with others. One that lies in several, or in none, keeps its name.
    """
    stacks = _Stacks(tensors)
    placed = {
        stored: [part for parts in _placed(joined, tensors, stacks) for part in parts]
        for stored, joined in views.items()
        if all(view.name in tensors for view in joined)
    }
    homes: dict[str, set[str]] = {}
    for stored, parts in placed.items():
        for part in parts:
            homes.setdefault(part.name, set()).add(stored)
    keys = {name: _key(name, homes[name], placed) for name in homes}
    if max(Counter(keys.values()).values(), default=1) > 1:
        return dict(tensors)
    return {
        name: replace(
            tensor, parts=tuple(replace(p, name=keys.get(p.name, p.name)) for p in tensor.parts)
        )
        for name, tensor in tensors.items()
    }


def in_files(tensors: Mapping[str, Tensor], views: Views) -> list[Tensor]:
    """Return the tensors of the files, in their order, from those of the module."""
    result, stacks = [], _Stacks(tensors)
    for stored, joined in views.items():
        if any(view.name not in tensors for view in joined):  # without elements
            continue
        own, shape = tensors[joined[0].name], joined[0].shape
        if len(joined) > 1:
            shape = (sum(view.shape[0] for view in joined), *shape[1:])
        parts = tuple(part for parts in _placed(joined, tensors, stacks) for part in parts)
        tensor = Tensor.of(stored, shape, parts)
        result.append(replace(tensor, dtype=own.dtype, wide=own.wide, buffer=own.buffer))
    return result


def _placed(
    joined: tuple[View, ...], tensors: Mapping[str, Tensor], stacks: _Stacks
) -> list[tuple[Part, ...]]:
    """The parts that lie in each of the joined views, at their places in the stored tensor."""
    pieces, offset = [], 0
    for view in joined:
        parts = []
        whole = tensors[view.name].parts
        for part in stacks[view.name].get(view.box[0].start, ()) if view.inner else whole:
            if (inside := part.within(view.box)) is None:
                continue
            region, places = inside
            moved = replace(
                part,
                start=tuple(span.start for span in region),
                extent=tuple(span.stop - span.start for span in region),
                tensor_start=tuple(span.start for span in places),
                tensor_step=tuple(span.step for span in places),
            )
            parts.append(_without_first_axis(moved) if view.inner else _shifted(moved, offset))
        pieces.append(tuple(parts))
        offset += view.shape[0] if view.shape else 0
    return pieces


class _Stacks(dict[str, dict[int, list[Part]]]):
    """The parts of stacks by their index on the first axis: a stack may have thousands."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        super().__init__()
        self._tensors = tensors

    def __missing__(self, name: str) -> dict[int, list[Part]]:
        found = self[name] = {}
        for part in self._tensors[name].parts:
            if part.extent[0] != 1:
                raise ValueError(f"{part.name} is in several tensors of the files")
            found.setdefault(part.tensor_start[0], []).append(part)
        return found


def _without_first_axis(part: Part) -> Part:
    if part.shape[0] != 1:
        raise ValueError(f"{part.name} is in several tensors of the files")
    return replace(
        part,
        shape=part.shape[1:],
        layout=None if part.layout is None else part.layout[1:],
        start=part.start[1:],
        extent=part.extent[1:],
        tensor_start=part.tensor_start[1:],
        tensor_step=part.tensor_step[1:],
    )


def _shifted(part: Part, offset: int) -> Part:
    if not offset:
        return part
    first, *rest = part.tensor_start
    return replace(part, tensor_start=(first + offset, *rest))


def _key(name: str, homes: set[str], placed: Mapping[str, list[Part]]) -> str:
    if len(homes) > 1:
        return name
    (stored,) = homes
    roles = {part.name: part.role for part in placed[stored]}
    if len(roles) == 1:
        return stored
    if "#" in name:
        return f"{stored}#{name.partition('#')[2]}"
    alone = list(roles.values()).count(roles[name]) == 1
    return f"{stored}#{roles[name].rpartition('.')[2] if alone else name.split('.')[-2]}"


class _Tracing(TorchFunctionMode):  # type: ignore[misc]
    """Makes views of copies, and notes what is joined along the first axis."""

    def __init__(self) -> None:
        super().__init__()
        self.joined: dict[int, list[torch.Tensor]] = {}
        self._alive: list[torch.Tensor] = []

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in _COPIES:
            return args[0]
        result = func(*args, **kwargs)
        if func in _JOINS:
            self._alive.append(result)
            if (args[1] if len(args) > 1 else kwargs.get("dim", 0)) == 0:
                self.joined[_storage(result)] = list(args[0] if args else kwargs["tensors"])
        return result


def _view(
    tensor: torch.Tensor, owners: Mapping[int, str], shapes: Mapping[str, tuple[int, ...]]
) -> View | None:
    name = owners.get(_storage(tensor))
    if name is None or 0 in tensor.shape:
        return None
    whole, shape, strides = shapes[name], tuple(tensor.shape), list(tensor.stride())
    inner = len(shape) == len(whole) - 1
    if inner:
        shape, strides = (1, *shape), [0, *strides]
    if len(shape) != len(whole):
        return None
    offset, step, box = tensor.storage_offset(), torch.Size(whole).numel(), []
    for size, end, stride in zip(shape, whole, strides, strict=True):
        step //= end
        first, offset = divmod(offset, step)
        if first + size > end or (size > 1 and stride != step):
            return None
        box.append(slice(first, first + size))
    return View(name, tuple(box), inner)


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)
