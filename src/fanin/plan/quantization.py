"""float8 weights with scales, as inference servers read them: for load tests without real weights.

A quantized checkpoint is more than another dtype. The weights of linear layers are float8 and have
scales beside them, one a tensor (`weight_scale`, as vLLM and SGLang read it) or, where the config
has a `weight_block_size`, one a block (`weight_scale_inv`, as DeepSeek-V3 has it). All else keeps
the config's dtype, and the config says so in `quantization_config`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from fanin.families.layers import part
from fanin.model import Model, Tensor

__all__ = ["SCALED_DTYPES", "with_scales"]

SCALED_DTYPES = ("float8_e4m3fn", "float8_e5m2")

DEFAULT: dict[str, Any] = {"quant_method": "fp8", "activation_scheme": "dynamic"}
"""The `quantization_config` of a model whose config has none: one scale a tensor."""


def with_scales(model: Model, dtype: str) -> Model:
    """Return a model whose linear layers are stored in float8, with their scales.

    Parameters
    ----------
    model : Model
    dtype : str
        `"float8_e4m3fn"`, the only one that servers read.

    Raises
    ------
    ValueError
        Another float8, a `quantization_config` of another kind, or a model without linear layers
        that lie as (out, in).

    Examples
    --------
    >>> from fanin import families
    >>> from fanin.plan.quantization import with_scales
    >>> model = with_scales(families.load("deepseek-v3"), "float8_e4m3fn")
    >>> [(tensor.name, tensor.shape, tensor.dtype) for tensor in model.tensors[1:3]]
    ... # doctest: +NORMALIZE_WHITESPACE
    [('model.layers.0.self_attn.q_a_proj.weight', (1536, 7168), 'float8_e4m3fn'),
     ('model.layers.0.self_attn.q_a_proj.weight_scale_inv', (12, 56), 'float32')]
    """
    if dtype != "float8_e4m3fn":
        raise ValueError(f"weights with scales are float8_e4m3fn, not {dtype}")
    given = model.raw.get("quantization_config")
    settings = _checked(DEFAULT if given is None else given)
    rest = "bfloat16" if model.dtype in SCALED_DTYPES else model.dtype
    tensors: list[Tensor] = []
    kept: dict[str, None] = {}
    for tensor in model.tensors:
        if not _is_linear(tensor) or _is_left_out(tensor.name, settings):
            tensors.append(replace(tensor, dtype=tensor.dtype or rest))
            if len(tensor.shape) == 2:
                kept[tensor.name.removesuffix(".weight")] = None
        else:
            tensors.append(replace(tensor, dtype=dtype))
            tensors.extend(_scales(tensor, settings))
    if not any(tensor.dtype == dtype for tensor in tensors):
        raise ValueError(
            f"{model.architecture} has no linear layers, stored (out, in), that could be {dtype}"
            " with scales: choose --dtype bfloat16"
        )
    if given is None:
        settings = {**settings, "ignored_layers": list(kept)}
    return replace(model, tensors=tuple(tensors), dtype=rest, quantization=settings)


def _checked(settings: object) -> dict[str, Any]:
    """The settings of a config, if they are of the kind that is written here."""
    if not isinstance(settings, dict) or settings.get("quant_method") != "fp8":
        method = settings.get("quant_method") if isinstance(settings, dict) else settings
        raise ValueError(
            f"quantization_config has quant_method {method!r}, and float8 weights with scales are"
            " written for 'fp8' only: remove it for one scale a tensor, or choose --dtype bfloat16"
        )
    block = settings.get("weight_block_size")
    if block is not None and not (
        isinstance(block, list)
        and len(block) == 2
        and all(type(size) is int and size > 0 for size in block)
    ):
        raise ValueError(
            f"quantization_config has weight_block_size {block!r}, which must be two whole numbers"
        )
    for field, allowed in (
        ("activation_scheme", ("dynamic", "static")),
        ("scale_fmt", ("float", None)),
        ("fmt", ("e4m3", None)),
    ):
        if settings.get(field, allowed[0]) not in allowed:
            raise ValueError(
                f"quantization_config has {field} {settings[field]!r}; {allowed[0]!r} is written"
            )
    return settings


def _is_linear(tensor: Tensor) -> bool:
    return (
        tensor.layout == "oi"
        and tensor.name.endswith(".weight")
        and tensor.dtype is None
        and all(part.role.startswith(("attention.", "mlp.")) for part in tensor.parts)
    )


def _is_left_out(name: str, settings: dict[str, Any]) -> bool:
    """True for a layer that the config wants as it is: named in full, or by its last words."""
    names = settings.get("modules_to_not_convert") or settings.get("ignored_layers") or ()
    layer = name.removesuffix(".weight")
    return any(layer == left or layer.endswith(f".{left}") for left in names)


def _scales(tensor: Tensor, settings: dict[str, Any]) -> Iterator[Tensor]:
    block = settings.get("weight_block_size")
    if block is None:
        yield _ones(f"{tensor.name}_scale", (1,), tensor)
    else:
        sizes = zip(tensor.shape, block, strict=True)
        yield _ones(f"{tensor.name}_scale_inv", tuple(-(-a // b) for a, b in sizes), tensor)
    if settings.get("activation_scheme") == "static":
        yield _ones(f"{tensor.name.removesuffix('.weight')}.input_scale", (1,), tensor)


def _ones(name: str, shape: tuple[int, ...], of: Tensor) -> Tensor:
    own = replace(part(name, "scale", shape, None), layer=of.parts[0].layer)
    return replace(Tensor.of(name, shape, (own,)), dtype="float32", buffer=True)
