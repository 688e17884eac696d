"""Layouts and fans: which axes of a weight are inputs, outputs, kernel and batch.

A layout is one letter an axis: `o` output, `i` input, `k` kernel (receptive field), `b` batch of
independent matrices, such as experts. Libraries store the same weight in different orders (torch
`"oikk"`, Keras and Flax `"kkio"`, a transposed convolution `"iokk"`, attention heads `"ioo"`), and
guessing the order from the shape is how fans come out swapped; here the letters say it.
"""

from __future__ import annotations

import re
from functools import lru_cache

from fanin.arguments import Shape, integer, shape_tuple

__all__ = ["fans"]


def fans(shape: Shape, layout: str | None = None, groups: int = 1) -> tuple[int, int]:
    """Number of inputs that one output sums, and of outputs that one input feeds.

    Parameters
    ----------
    shape : int or tuple of int
        The global shape of the weight, not that of a shard.
    layout : str, optional
        One letter an axis: `o` output, `i` input, `k` kernel, `b` batch. Letters may repeat.
        Default: `"oi"` and then `k` for each further axis, as torch stores a linear or
        convolutional layer.
    groups : int, default 1
        Groups of a grouped convolution. They divide the output fan; in a transposed
        convolution (`"io"` and then `k`), whose `i` axis holds all the groups, the input fan.

    Returns
    -------
    fan_in, fan_out : int

    Raises
    ------
    ValueError
        A letter that is not one of `o i k b`, a layout that does not fit the shape, fewer than
        two axes without a layout, or groups that do not divide the axis that holds them.

    Examples
    --------
    >>> import fanin
    >>> fanin.fans((64, 3, 7, 7))
    (147, 3136)
    >>> fanin.fans((768, 50257), "io")
    (768, 50257)
    >>> fanin.fans((4, 1, 3, 3), groups=4)  # depthwise
    (9, 9)
    """
    axes = shape_tuple(shape)
    inputs, outputs, kernel = channels(axes, resolve_layout(axes, layout), groups)
    return inputs * kernel, outputs * kernel


def channels(shape: tuple[int, ...], letters: str, groups: int) -> tuple[int, int, int]:
    """Inputs and outputs of each group, and taps of the kernel; `letters` are a resolved layout."""
    size = {"i": 1, "o": 1, "k": 1, "b": 1}
    for letter, axis in zip(letters, shape, strict=True):
        size[letter] *= axis
    inputs, outputs = size["i"], size["o"]
    if groups != 1 or type(groups) is not int:
        groups = integer("groups", groups, low=1)
        if is_transposed(letters):
            inputs = _divide("input", inputs, groups, shape, letters)
        else:
            outputs = _divide("output", outputs, groups, shape, letters)
    return inputs, outputs, size["k"]


def resolve_layout(shape: tuple[int, ...], layout: str | None) -> str:
    """Return the layout of `shape`, checked, or the default one (`"oi"` and then `k`s)."""
    if layout is None:
        if len(shape) < 2:
            raise ValueError(
                f"shape {shape} has {len(shape)} axes, which does not say its fans:"
                ' pass a layout, such as layout="o" or "i" for a vector'
            )
        return "oi" + "k" * (len(shape) - 2)
    if not isinstance(layout, str):
        raise TypeError(f"layout must be a string such as 'oikk', got {layout!r}")
    _check_letters(layout)
    if len(layout) != len(shape):
        raise ValueError(
            f"layout {layout!r} names {len(layout)} axes, but shape {shape} has {len(shape)}"
        )
    return layout


@lru_cache(maxsize=256)
def _check_letters(layout: str) -> None:
    if strangers := set(layout) - set("oikb"):
        raise ValueError(
            f"layout {layout!r} contains {min(strangers)!r}; allowed letters: o (output),"
            " i (input), k (kernel), b (batch)"
        )
    if not set(layout) & set("oi"):
        raise ValueError(f"layout {layout!r} has neither an output axis (o) nor an input axis (i)")


def is_transposed(letters: str) -> bool:
    """True where the `i` axis holds all the groups: `"io"` and then a kernel."""
    return re.fullmatch("i+o+k+", letters.replace("b", "")) is not None


def _divide(side: str, size: int, groups: int, shape: tuple[int, ...], letters: str) -> int:
    if size % groups:
        raise ValueError(
            f"groups must divide the {size} {side}s of shape {shape} with layout {letters!r},"
            f" got {groups}"
        )
    return size // groups
