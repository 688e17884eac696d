"""A model as data: tensors on disk, the logical matrices they are made of, and what ties them.

A stored tensor is not always one matrix. GPT-2 keeps query, key and value side by side, and the
padding row of an embedding has a rule of its own. So a `Tensor` is a list of `Part`s: each is a
region of one logical matrix, with that matrix's name (which keys its random stream), shape and
layout (which give its fans), and the place in the tensor where the region lies.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fanin.rules import Rules

__all__ = ["Model", "Part", "Slot", "Tensor", "numberless"]

UNKNOWN = "parameter"
"""Role of a parameter of which nothing is known: under every scheme it keeps the model's own rule,
and where that says nothing only an override can initialize it."""

VALUES = "values"
"""Role of a tensor that the model computes and does not draw."""

PADDING = "embedding.padding"
"""Role of the embedding row that no token uses: zero in every scheme, and under every override."""


@dataclass(frozen=True, slots=True)
class Part:
    """A region of one logical matrix, inside a stored tensor of the same number of axes.

    Element `start + k` of the matrix (`k < extent`, axis by axis) lies in the tensor at
    `tensor_start + tensor_step * k`.
    """

    name: str  # keys the stream: the tensor's name, or "<tensor>#query" where it is fused
    role: str  # such as "attention.query"; a scheme gives each role its initializer
    shape: tuple[int, ...]  # of the whole logical matrix
    layout: str | None  # of the logical matrix; None for a vector, which has no fans
    start: tuple[int, ...]
    extent: tuple[int, ...]
    tensor_start: tuple[int, ...]
    tensor_step: tuple[int, ...]
    fan_in: int | None = None  # of a bias: the fan_in of its matrix; None if it has no matrix
    layer: int | None = None  # number of the block it belongs to, from 0
    branches: int | None = None  # residual branches of the stack that this block is one of
    groups: int = 1  # of a grouped convolution

    @property
    def numel(self) -> int:
        """Number of elements of the region."""
        return math.prod(self.extent)

    def within(self, box: tuple[slice, ...]) -> tuple[tuple[slice, ...], tuple[slice, ...]] | None:
        """Return what of this part lies in a box of the tensor, or None if nothing does.

        Parameters
        ----------
        box : tuple of slice
            Start and stop in the tensor, axis by axis, such as those of a shard.

        Returns
        -------
        region, places : tuple of slice
            The region of the logical matrix, and the places of its elements inside the box.

        Examples
        --------
        >>> key = Part("w#key", "attention.key", (4, 4), "io", (0, 0), (4, 4), (0, 4), (1, 1))
        >>> key.within((slice(0, 4), slice(2, 6)))
        ((slice(0, 4, None), slice(0, 2, None)), (slice(0, 4, 1), slice(2, 4, 1)))
        >>> key.within((slice(0, 4), slice(0, 4))) is None
        True
        """
        region, places = [], []
        axes = zip(box, self.start, self.extent, self.tensor_start, self.tensor_step, strict=True)
        for span, start, extent, first, step in axes:
            low = max(0, -((first - span.start) // step))
            high = min(extent, -((first - span.stop) // step))
            if low >= high:
                return None
            place = first + step * low - span.start
            region.append(slice(start + low, start + high))
            places.append(slice(place, place + step * (high - low - 1) + 1, step))
        return tuple(region), tuple(places)


@dataclass(frozen=True, slots=True)
class Slot:
    """Where transformers' module keeps a stored tensor that is not one of its own there.

    The module's tensor has one axis more, the first: experts lie one after another along it.
    """

    name: str  # of the module's tensor
    shape: tuple[int, ...]  # of the module's tensor
    start: tuple[int, ...]  # index there of the stored tensor's first element


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor as a checkpoint stores it."""

    name: str
    shape: tuple[int, ...]
    role: str
    layout: str | None
    parts: tuple[Part, ...]
    dtype: str | None = None  # stored in this dtype whatever the checkpoint's; None: as the rest
    buffer: bool = False  # stored, but no parameter
    wide: bool = False  # float32 where the checkpoint is float16
    slot: Slot | None = None  # in the module, if it is a piece of a larger tensor there

    @classmethod
    def of(cls, name: str, shape: tuple[int, ...], parts: tuple[Part, ...]) -> Tensor:
        """Return the tensor made of `parts`, with the role and layout that these share.

        Examples
        --------
        >>> query = Part("w#query", "attention.query", (4, 4), "io", (0, 0), (4, 4), (0, 0), (1, 1))
        >>> key = Part("w#key", "attention.key", (4, 4), "io", (0, 0), (4, 4), (0, 4), (1, 1))
        >>> Tensor.of("w", (4, 8), (query, key)).role
        'attention.query+key'
        """
        layouts = {part.layout for part in parts}
        return cls(
            name=name,
            shape=shape,
            role=_joined([part.role for part in parts]),
            layout=layouts.pop() if len(layouts) == 1 else None,
            parts=parts,
        )

    @property
    def numel(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def in_layer(self, layer: int, branches: int) -> Tensor:
        """Return this tensor as one of block `layer`, in a stack of so many residual branches."""
        parts = (replace(part, layer=layer, branches=branches) for part in self.parts)
        return replace(self, parts=tuple(parts))

    def in_slot(self) -> list[Part]:
        """Return the parts as they lie in the module's tensor: with one axis more."""
        if self.slot is None:
            return list(self.parts)
        first, *rest = self.slot.start
        return [
            replace(
                part,
                shape=(1, *part.shape),
                layout=part.layout and f"b{part.layout}",
                start=(0, *part.start),
                extent=(1, *part.extent),
                tensor_start=(
                    first,
                    *(a + b for a, b in zip(rest, part.tensor_start, strict=True)),
                ),
                tensor_step=(1, *part.tensor_step),
            )
            for part in self.parts
        ]


@dataclass(frozen=True)
class Model:
    """The tensors of one architecture with one config, in the order of transformers' state_dict."""

    family: str  # the module in fanin.families
    model_type: str
    architecture: str
    config: dict[str, Any]  # the fields it was built from, checked and with defaults
    tensors: tuple[Tensor, ...]
    num_layers: int  # blocks; of an encoder and a decoder, those of the deeper one
    hidden_size: int
    activation: str  # the config's name for it
    dtype: str = "float32"  # what the config asks for
    tied: Mapping[str, str] = field(default_factory=dict)  # name that is not stored -> stored name
    auto: Rules = field(default_factory=dict)  # the architecture's own initialization
    raw: dict[str, Any] = field(default_factory=dict)  # the config as it was read
    module_names: Mapping[str, str] = field(default_factory=dict)  # stored name -> the module's
    quantization: dict[str, Any] | None = None  # the config's, where weights are stored with scales
    notes: tuple[str, ...] = ()  # what the user should know of it, a sentence each
    like: bool = False  # its tensors are those of a checkpoint, by `fanin.checkpoint.like`

    @property
    def num_parameters(self) -> int:
        """Number of parameters, tied ones counted once; buffers that are stored are none."""
        return sum(tensor.numel for tensor in self.tensors if not tensor.buffer)

    def in_module(self) -> Model:
        """Return it as transformers' module has it; parts keep their names, the keys.

        Tensors have the module's names, and those that are pieces of a larger one there, such as
        experts, are parts of it; parts that the module does not fuse are tensors. So the same plan
        fills a module, and a file in its layout.

        Examples
        --------
        >>> from fanin import families
        >>> model = families.load("pythia-70m")
        >>> model.tensors[-1].name, model.in_module().tensors[-1].name
        ('embed_out.weight', 'lm_head.weight')
        """
        own = self.module_names
        whole: dict[str, Tensor] = {}
        split: set[str] = set()
        pieces: dict[str, tuple[tuple[int, ...], list[Part]]] = {}
        for tensor in self.tensors:
            if apart := _tensors_of_parts(tensor, own):
                whole |= apart
                split |= apart.keys()
            elif tensor.slot is None:
                name = own.get(tensor.name, tensor.name)
                whole[name] = replace(tensor, name=name)
            else:
                name = tensor.slot.name
                whole[name] = tensor  # the order is that of the first pieces
                pieces.setdefault(name, (tensor.slot.shape, []))[1].extend(tensor.in_slot())
        for name, (shape, parts) in pieces.items():
            whole[name] = Tensor.of(name, shape, tuple(parts))
        if split:  # a layer's weight and bias are neighbours again
            layers = {name.rpartition(".")[0]: None for name in whole}
            order = {layer: number for number, layer in enumerate(layers)}
            whole = dict(sorted(whole.items(), key=lambda item: order[item[0].rpartition(".")[0]]))
        return replace(
            self,
            tensors=tuple(whole.values()),
            tied={own.get(alias, alias): own.get(name, name) for alias, name in self.tied.items()},
            module_names={},
        )


def numberless(name: str) -> str:
    """Return a name with the numbers of blocks and experts as `*`.

    Examples
    --------
    >>> numberless("model.layers.3.mlp.experts.down_proj#17")
    'model.layers.*.mlp.experts.down_proj#*'
    """
    return re.sub(r"(?<=[.#/])\d+(?=[./]|$)", "*", name)


def _tensors_of_parts(tensor: Tensor, own: Mapping[str, str]) -> dict[str, Tensor]:
    """The tensors that the parts of one are in the module, if it fuses none of them."""
    names = [own.get(part.name, part.name) for part in tensor.parts]
    if any(
        "#" not in part.name or "#" in name for part, name in zip(tensor.parts, names, strict=True)
    ):
        return {}
    return {
        name: Tensor.of(name, part.shape, (replace(part, tensor_start=(0,) * len(part.shape)),))
        for part, name in zip(tensor.parts, names, strict=True)
    }


def _joined(roles: list[str]) -> str:
    """One text for the roles of a tensor's parts: `attention.query+key+value`."""
    distinct = list(dict.fromkeys(role for role in roles if role != PADDING)) or [PADDING]
    groups = {role.rpartition(".")[0] for role in distinct}
    if len(groups) == 1 and (group := groups.pop()):
        return f"{group}." + "+".join(role.rpartition(".")[2] for role in distinct)
    return "+".join(distinct)
