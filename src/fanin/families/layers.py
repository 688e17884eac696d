"""The layers that models are made of, as the tensors that transformers stores for them.

Each function takes the layer's name and sizes and yields its tensors in the order of the layer's
own state_dict (a weight before its bias). A family strings them together; `repeat` numbers blocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

from fanin.model import PADDING, Part, Tensor

__all__ = [
    "conv",
    "embedding",
    "fused_linear",
    "linear",
    "norm",
    "number",
    "offset_norm",
    "part",
    "repeat",
    "rms_norm",
    "table",
    "vector",
]


def linear(
    name: str,
    fan_out: int,
    fan_in: int,
    role: str,
    *,
    bias: bool = True,
    layout: str = "oi",
    bias_role: str | None = None,
) -> Iterator[Tensor]:
    """Yield a dense layer: weight (out, in), or (in, out) with the layout `"io"`, and bias."""
    shape = _matrix_shape(fan_out, fan_in, layout)
    yield _whole(f"{name}.weight", shape, role, layout)
    if bias:
        own = bias_role or ("bias.head" if role == "head" else "bias")
        yield vector(f"{name}.bias", fan_out, own, fan_in=fan_in)


def fused_linear(
    name: str,
    fan_outs: Mapping[str, int],
    fan_in: int,
    role: str | Mapping[str, str],
    *,
    bias: bool = True,
    layout: str = "oi",
    heads: int = 1,
) -> Iterator[Tensor]:
    """Yield dense layers that read the same input and lie one after another along the outputs.

    `fan_outs` are their names (`query`, `key`, `gate`, `up` ...) and sizes, `role` what goes before
    the name in their roles (where the one of `up` is `in`), or the role of each. With `heads`, each
    is cut in as many equal bands: the first band of every layer comes first, then the second of
    every layer ...
    """
    total, axis = sum(fan_outs.values()), layout.index("o")
    weights, biases, offset = [], [], 0
    for head in range(heads):
        for label, fan_out in fan_outs.items():
            shape, band = _matrix_shape(fan_out, fan_in, layout), fan_out // heads
            start, stop = [0, 0], list(shape)
            start[axis], stop[axis] = head * band, (head + 1) * band
            corner = (offset, 0) if axis == 0 else (0, offset)
            usual = f"{role}.{'in' if label == 'up' else label}"
            own = usual if isinstance(role, str) else role[label]
            weights.append(
                part(
                    f"{name}.weight#{label}",
                    own,
                    shape,
                    layout,
                    at=corner,
                    start=tuple(start),
                    stop=tuple(stop),
                )
            )
            biases.append(
                part(
                    f"{name}.bias#{label}",
                    "bias",
                    (fan_out,),
                    None,
                    at=(offset,),
                    start=(head * band,),
                    stop=((head + 1) * band,),
                    fan_in=fan_in,
                )
            )
            offset += band
    yield Tensor.of(f"{name}.weight", _matrix_shape(total, fan_in, layout), tuple(weights))
    if bias:
        yield Tensor.of(f"{name}.bias", (total,), tuple(biases))


def conv(
    name: str,
    fan_out: int,
    fan_in: int,
    kernel: tuple[int, ...],
    role: str = "conv",
    *,
    bias: bool = True,
) -> Iterator[Tensor]:
    """Yield a convolution: weight (out, in, *kernel), of channels, and bias."""
    yield _whole(f"{name}.weight", (fan_out, fan_in, *kernel), role, "oi" + "k" * len(kernel))
    if bias:
        yield vector(f"{name}.bias", fan_out, "bias", fan_in=fan_in * math.prod(kernel))


def embedding(
    name: str, rows: int, columns: int, role: str = "embedding", *, padding: int | None = None
) -> Iterator[Tensor]:
    """Yield a table of embeddings; the row `padding` (negative: from the end) is a part of its own.

    Its layout is that of the output head it may be tied to: rows are outputs.
    """
    yield table(f"{name}.weight", rows, columns, role, padding=padding)


def table(name: str, rows: int, columns: int, role: str, *, padding: int | None = None) -> Tensor:
    """Return the tensor of an embedding, by its whole name."""
    shape = (rows, columns)
    pieces = [(0, rows, role)]
    if padding is not None:
        row = padding % rows
        pieces = [(0, row, role), (row, row + 1, PADDING), (row + 1, rows, role)]
    parts = tuple(
        part(name, piece, shape, "oi", at=(low, 0), start=(low, 0), stop=(high, columns))
        for low, high, piece in pieces
        if low < high
    )
    return Tensor.of(name, shape, parts)


def norm(name: str, size: int, *, bias: bool = True) -> Iterator[Tensor]:
    """Yield a layer norm, or an RMS norm, which has no bias."""
    yield vector(f"{name}.weight", size, "norm.scale")
    if bias:
        yield vector(f"{name}.bias", size, "norm.bias")


def rms_norm(name: str, size: int) -> Iterator[Tensor]:
    """Yield an RMS norm: a scale and no bias."""
    yield from norm(name, size, bias=False)


def offset_norm(name: str, size: int) -> Iterator[Tensor]:
    """Yield an RMS norm that multiplies by 1 + weight."""
    yield vector(f"{name}.weight", size, "norm.scale.offset")


def vector(name: str, size: int, role: str, *, fan_in: int | None = None) -> Tensor:
    """Return a vector; a bias says the `fan_in` of the matrix it belongs to."""
    return _whole(name, (size,), role, None, fan_in=fan_in)


def repeat(
    name: str, layers: int, block: Callable[[str], Iterator[Tensor]], *, branches: int = 2
) -> Iterator[Tensor]:
    """Yield the tensors of `block("<name>.0.")`, `block("<name>.1.")` ... with their numbers.

    `branches` are the residual ones of a block: three where it has cross-attention.
    """
    for layer in range(layers):
        for tensor in block(f"{name}.{layer}."):
            yield tensor.in_layer(layer, branches * layers)


def number(at: str) -> int:
    """Return the number of a block, from what `repeat` passes to it.

    Examples
    --------
    >>> number("model.layers.7.")
    7
    """
    return int(at.rstrip(".").rpartition(".")[2])


def _whole(
    name: str,
    shape: tuple[int, ...],
    role: str,
    layout: str | None,
    *,
    fan_in: int | None = None,
) -> Tensor:
    if 0 in shape:  # nothing to fill, but transformers stores it
        return Tensor(name, shape, role, layout, ())
    return Tensor.of(name, shape, (part(name, role, shape, layout, fan_in=fan_in),))


def part(
    name: str,
    role: str,
    shape: tuple[int, ...],
    layout: str | None,
    *,
    at: tuple[int, ...] | None = None,
    start: tuple[int, ...] | None = None,
    stop: tuple[int, ...] | None = None,
    step: tuple[int, ...] | None = None,
    fan_in: int | None = None,
    groups: int = 1,
) -> Part:
    """Return `start` to `stop` (by default all) of a matrix, at `at` (0, 0 ...) in its tensor."""
    origin = (0,) * len(shape)
    start, stop = start or origin, stop or shape
    return Part(
        name=name,
        role=role,
        shape=shape,
        layout=layout,
        start=start,
        extent=tuple(b - a for a, b in zip(start, stop, strict=True)),
        tensor_start=at or origin,
        tensor_step=step or (1,) * len(shape),
        fan_in=fan_in,
        groups=groups,
    )


def _matrix_shape(fan_out: int, fan_in: int, layout: str) -> tuple[int, int]:
    return (fan_out, fan_in) if layout == "oi" else (fan_in, fan_out)
