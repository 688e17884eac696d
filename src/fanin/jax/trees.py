"""A tree of JAX parameters as a `Model`: names from paths, roles and layouts from Flax's names.

The name of a leaf is its path, joined by "/": `params/Dense_0/kernel` in Flax linen,
`dense/kernel` in nnx (the box that linen's partitioning and nnx put around an array is left out).
A tree says no more than names and shapes; what Flax's own layers mean by theirs:

| leaf | role | layout |
|---|---|---|
| `kernel`, 2 axes | `dense` | `io` |
| `kernel`, 3 to 5 axes | `conv` | `kio`, `kkio`, `kkkio` |
| `query`, `key`, `value` and `out` of attention: `kernel` | `attention.*` | `ioo`; `out`: `iio` |
| `embedding`, 2 axes | `embedding` | `oi` |
| `scale`; `bias` | `norm.scale`; `norm.bias`, or `bias` beside a kernel | |
| `hi`, `hf` ... of a recurrent cell: `kernel` | `recurrent.hidden` | `io` |
| `hf` of an LSTM: `bias` | `bias.forget` | |
| `mean`, `var` of a batch norm | `norm.bias`, `norm.scale`: zeros and ones | |
| `negative_slope` | `activation.slope` | |

An embedding is `oi`: one output for each token, and a row is what the head it may be tied to sums
over, so its fan_in is the number of features. Flax counts the same. Anything else needs an
override, and a kernel of another order (stacked by `nn.scan`, transposed) a layout.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np

from fanin.initializers import Constant, Orthogonal, VarianceScaling
from fanin.layouts import fans, resolve_layout
from fanin.model import UNKNOWN, Model, Part, Tensor
from fanin.output import ITEMSIZE
from fanin.rules import Rules, weights

__all__ = ["FLAX", "Leaf", "leaves_of", "model_of"]

FLAX: Rules = {
    **weights(VarianceScaling(1.0, "fan_in", "truncated_normal")),
    "embedding": VarianceScaling(1.0, "fan_in", "normal"),
    "recurrent.hidden": Orthogonal(),
    "bias.forget.minimal": Constant(1.0),
    "activation.slope": Constant(0.01),
}
"""What Flax's layers start from, linen's and nnx's alike."""

Siblings: TypeAlias = dict[tuple[str, ...], set[str]]
"""The words that follow each beginning of a path."""

_ATTENTION = ("query", "key", "value", "out")
_HIDDEN = ("h", "hi", "hf", "hg", "ho", "hr", "hz", "hn")
_LSTM = {"hi", "hf", "hg", "ho"}
_MINIMAL_GATED = {"if", "in", "hf", "hn"}  # the modules of MGUCell, whose forget gate starts open
_BOXES = ("value", "raw_value")


class Leaf(NamedTuple):
    """A leaf of the tree: its name, and the words of it."""

    name: str
    words: tuple[str, ...]
    value: Any


def leaves_of(tree: Any) -> list[Leaf]:
    """Return the leaves of a tree in its order; ValueError for those that cannot be filled."""
    leaves = []
    for path, value in jax.tree_util.tree_flatten_with_path(tree)[0]:
        words = tuple(_word(key) for key in path)
        if len(path) > 1 and isinstance(path[-1], jax.tree_util.GetAttrKey) and words[-1] in _BOXES:
            words = words[:-1]
        leaves.append(Leaf("/".join(words), words, value))
    if not leaves:
        raise ValueError("abstract_params has no leaves: there is nothing to initialize")
    for leaf in leaves:
        if not hasattr(leaf.value, "shape") or not hasattr(leaf.value, "dtype"):
            raise TypeError(
                f"{leaf.name} must be a jax.ShapeDtypeStruct, as jax.eval_shape makes, or an"
                f" array, got {leaf.value!r}"
            )
    strangers = [leaf for leaf in leaves if str(leaf.value.dtype) not in ITEMSIZE]
    if strangers:
        listed = ", ".join(f"{leaf.name} ({leaf.value.dtype})" for leaf in strangers)
        raise ValueError(
            f"these leaves are no parameters of a dtype that fanin fills: {listed}; pass a part of"
            " the tree, such as variables['params'] or nnx.state(model, nnx.Param)"
        )
    return leaves


def model_of(leaves: list[Leaf], layouts: Iterable[tuple[str, str]] = ()) -> Model:
    """Return the leaves as a model, with the layouts that patterns give to some of them."""
    given = _read_layouts(layouts, leaves)
    siblings: Siblings = {}
    for leaf in leaves:
        for depth, word in enumerate(leaf.words):
            siblings.setdefault(leaf.words[:depth], set()).add(word)
    meanings = {leaf.name: _meaning(leaf, siblings) for leaf in leaves}
    layout_of = {name: given.get(name, layout) for name, (_, layout) in meanings.items()}
    fan_ins = {
        leaf.words[:-1]: _fan_in(tuple(leaf.value.shape), layout_of[leaf.name])
        for leaf in leaves
        if leaf.words[-1:] == ("kernel",)
    }
    return Model(
        family="flax",
        model_type="flax",
        architecture="tree",
        config={},
        tensors=tuple(
            _tensor(
                leaf, meanings[leaf.name][0], layout_of[leaf.name], fan_ins.get(leaf.words[:-1])
            )
            for leaf in leaves
        ),
        num_layers=0,
        hidden_size=0,
        activation="relu",
        auto=FLAX,
    )


def _tensor(leaf: Leaf, role: str, layout: str | None, fan_in: int | None) -> Tensor:
    shape = tuple(leaf.value.shape)
    start, step = (0,) * len(shape), (1,) * len(shape)
    part = Part(leaf.name, role, shape, layout, start, shape, start, step, fan_in)
    parts = (part,) if math.prod(shape) > 0 else ()
    return Tensor(leaf.name, shape, role, layout, parts, np.dtype(leaf.value.dtype).name)


def _meaning(leaf: Leaf, siblings: Siblings) -> tuple[str, str | None]:
    """Role and layout of a leaf, from its name and those around it."""
    axes, kind = len(leaf.value.shape), leaf.words[-1] if leaf.words else ""
    beside = siblings.get(leaf.words[:-1], set())
    module = leaf.words[-2] if len(leaf.words) > 1 else ""
    modules = siblings.get(leaf.words[:-2], set()) if module else set()
    if kind == "kernel" and 2 <= axes <= 5:
        if module in _ATTENTION and "query" in modules and axes <= 3:
            inputs = axes - 1 if module == "out" else 1
            return f"attention.{module}", "i" * inputs + "o" * (axes - inputs)
        if axes == 2 and _is_hidden(module, modules):
            return "recurrent.hidden", "io"
        return "dense" if axes == 2 else "conv", "k" * (axes - 2) + "io"
    if kind == "embedding" and axes == 2:
        return "embedding", "oi"
    if kind == "bias":
        if "kernel" not in beside:
            return "norm.bias", None
        if module == "if" and modules >= _MINIMAL_GATED:
            return "bias.forget.minimal", None
        return "bias.forget" if module == "hf" and modules >= _LSTM else "bias", None
    if kind == "scale":
        return "norm.scale", None
    if kind in ("mean", "var") and {"mean", "var"} <= beside:
        return "norm.bias" if kind == "mean" else "norm.scale", None
    if kind == "negative_slope":
        return "activation.slope", None
    return UNKNOWN, None


def _is_hidden(module: str, modules: set[str]) -> bool:
    """True for the matrix of a recurrent cell's state: `hi` beside `ii`, `dense_h` by `dense_i`."""
    if module == "dense_h":
        return "dense_i" in modules
    return module in _HIDDEN and bool({f"i{module[1:]}", f"i{module[1:]}_"} & modules)


def _word(key: Any) -> str:
    """The text of one step of a path: a key, an index or an attribute."""
    for attribute in ("key", "name", "idx"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)


def _fan_in(shape: tuple[int, ...], layout: str | None) -> int | None:
    return None if layout is None or math.prod(shape) == 0 else fans(shape, layout)[0]


def _read_layouts(layouts: Iterable[tuple[str, str]], leaves: list[Leaf]) -> dict[str, str]:
    """The layout that the last matching pattern gives to each leaf."""
    given: dict[str, str] = {}
    for pattern, layout in layouts:
        matched = [leaf for leaf in leaves if fnmatchcase(leaf.name, pattern)]
        if not matched:
            names = ", ".join(leaf.name for leaf in leaves[:3])
            raise ValueError(f"layouts: {pattern!r} matches no leaf; there are {names} ...")
        for leaf in matched:
            try:
                given[leaf.name] = resolve_layout(tuple(leaf.value.shape), layout)
            except ValueError as error:
                raise ValueError(f"layouts: {leaf.name}: {error}") from None
    return given
