"""Mamba (Gu and Dao 2023) and Mamba-2 (Dao and Gu 2024): state-space layers in place of attention.

A block is one residual branch: a projection, a depthwise convolution, the state space, and a
projection. Initialization as in transformers: N(0, initializer_range^2), but the convolution
and the last projection as torch's layers start; decays 1, 2, 3 ..., log-uniform time steps, D = 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from fanin.families.family import COMMON, Family
from fanin.families.fields import Config, Field, count, flag, number, size, text
from fanin.families.layers import embedding, linear, part, repeat, rms_norm, vector
from fanin.initializers import Constant, Initializer, MambaALog, MambaDtBias, TorchLinear, Uniform
from fanin.initializers.mamba import LARGEST_STEP, SMALLEST_STEP
from fanin.model import Part, Tensor
from fanin.rules import Rule, Rules, normal_weights


def rank() -> Field:
    """Declare the rank of the time steps' projection: by itself, or a 16th of the width."""
    sized = size(1)

    def accepts(value: Any) -> bool:
        return value == "auto" or sized.accepts(value)

    return Field(f'"auto" or {sized.allowed}', accepts, "auto")


SHARED = {
    **COMMON,
    "initializer_range": number(0.1),
    "expand": size(2),
    "conv_kernel": size(4),
    "use_bias": flag(False),
    "use_conv_bias": flag(True),
    "hidden_act": text("silu"),
    "time_step_min": number(0.001),
    "time_step_max": number(0.1),
    "time_step_floor": number(1e-4),
    "rescale_prenorm_residual": flag(False),
}
MAMBA = {
    **SHARED,
    "tie_word_embeddings": flag(True),
    "vocab_size": size(50280),
    "hidden_size": size(768),
    "state_size": size(16),
    "num_hidden_layers": count(32),
    "intermediate_size": size(None, null=lambda c: c.expand * c.hidden_size),
    "time_step_rank": rank(),
    "time_step_scale": number(1.0),
    "time_step_init_scheme": text("random"),
}
MAMBA2 = {
    **SHARED,
    "vocab_size": size(32768),
    "hidden_size": size(4096),
    "state_size": size(128),
    "num_hidden_layers": count(64),
    "num_heads": size(128),
    "head_dim": size(64),
    "n_groups": size(8),
}


def mamba_lm(c: Config) -> Iterator[Tensor]:
    """MambaForCausalLM."""
    yield from mamba(c, "backbone.")
    yield from linear("lm_head", c.vocab_size, c.hidden_size, "head", bias=False)


def mamba(c: Config, prefix: str = "") -> Iterator[Tensor]:
    """MambaModel."""
    yield from stack(c, prefix, mamba_mixer)


def mamba2_lm(c: Config) -> Iterator[Tensor]:
    """Mamba2ForCausalLM."""
    yield from mamba2(c, "backbone.")
    yield from linear("lm_head", c.vocab_size, c.hidden_size, "head", bias=False)


def mamba2(c: Config, prefix: str = "") -> Iterator[Tensor]:
    """Mamba2Model."""
    yield from stack(c, prefix, mamba2_mixer)


def stack(
    c: Config, prefix: str, mixer: Callable[[Config, str], Iterator[Tensor]]
) -> Iterator[Tensor]:
    """Yield embeddings, blocks of a norm and a mixer, and the last norm."""

    def block(at: str) -> Iterator[Tensor]:
        yield from rms_norm(f"{at}norm", c.hidden_size)
        yield from mixer(c, f"{at}mixer.")

    yield from embedding(f"{prefix}embeddings", c.vocab_size, c.hidden_size)
    yield from repeat(f"{prefix}layers", c.num_hidden_layers, block, branches=1)
    yield from rms_norm(f"{prefix}norm_f", c.hidden_size)


def mamba_mixer(c: Config, at: str) -> Iterator[Tensor]:
    """MambaMixer: inputs and gate come from one projection, time steps and B and C from another."""
    d, inner, states, steps = c.hidden_size, c.intermediate_size, c.state_size, time_step_rank(c)
    decays = (inner, states)
    yield Tensor.of(f"{at}A_log", decays, (part(f"{at}A_log", "ssm.a_log", decays, None),))
    yield vector(f"{at}D", inner, "ssm.d")
    yield from depthwise_conv(c, f"{at}conv1d", inner)
    yield from linear(f"{at}in_proj", 2 * inner, d, "ssm.in", bias=c.use_bias)
    yield from linear(f"{at}x_proj", steps + 2 * states, inner, "ssm.x", bias=False)
    yield from linear(f"{at}dt_proj", inner, steps, "ssm.dt.weight", bias_role="ssm.dt.bias")
    yield from linear(f"{at}out_proj", d, inner, "ssm.out", bias=c.use_bias)


def mamba2_mixer(c: Config, at: str) -> Iterator[Tensor]:
    """Mamba2Mixer: one decay and time step a head, and one projection for everything."""
    d, inner, heads = c.hidden_size, c.expand * c.hidden_size, c.num_heads
    channels = inner + 2 * c.n_groups * c.state_size
    yield vector(f"{at}dt_bias", heads, "ssm.dt.bias")
    yield vector(f"{at}A_log", heads, "ssm.a_log")
    yield vector(f"{at}D", heads, "ssm.d")
    yield from depthwise_conv(c, f"{at}conv1d", channels)
    yield from linear(f"{at}in_proj", inner + channels + heads, d, "ssm.in", bias=c.use_bias)
    yield from rms_norm(f"{at}norm", inner)
    yield from linear(f"{at}out_proj", d, inner, "ssm.out", bias=c.use_bias)


def depthwise_conv(c: Config, name: str, channels: int) -> Iterator[Tensor]:
    """Yield a convolution of each channel with a filter of its own."""
    shape, role = (channels, 1, c.conv_kernel), "conv.depthwise"
    weight = part(f"{name}.weight", role, shape, "oik", groups=channels)
    yield Tensor.of(weight.name, shape, (weight,))
    if c.use_conv_bias:
        yield vector(f"{name}.bias", channels, "bias", fan_in=c.conv_kernel)


def time_step_rank(c: Config) -> int:
    """Return the rank of the time steps' projection."""
    return -(-c.hidden_size // 16) if c.time_step_rank == "auto" else int(c.time_step_rank)


def mamba_auto(c: Config) -> Rules:
    """`MambaPreTrainedModel._init_weights`."""
    limit = c.time_step_scale / math.sqrt(time_step_rank(c))
    starts: dict[str, Rule] = {"constant": Constant(limit), "random": _symmetric(limit)}
    rules = auto(c)
    rules["ssm.dt.weight"] = starts.get(c.time_step_init_scheme, rules["ssm"])
    return rules


def auto(c: Config) -> dict[str, Rule]:
    """`Mamba2PreTrainedModel._init_weights`; a range of 0 means 0.02."""
    depth = math.sqrt(c.num_hidden_layers) if c.rescale_prenorm_residual else 1.0

    def out(part: Part) -> Initializer:
        return _symmetric(1.0 / math.sqrt(part.shape[1]) / depth)

    return normal_weights(c.initializer_range or 0.02) | {
        "conv.depthwise": TorchLinear(),
        "ssm.out": TorchLinear() if depth == 1.0 else out,
        "ssm.a_log": MambaALog(),
        "ssm.d": Constant(1.0),
        "ssm.dt.bias": MambaDtBias(c.time_step_min, c.time_step_max, c.time_step_floor),
    }


def _symmetric(limit: float) -> Initializer:
    return Uniform(-limit, limit) if limit > 0.0 else Constant(0.0)


def check(c: Config) -> None:
    """Refuse time steps without a logarithm, or none at all."""
    for field, low in (
        ("time_step_min", SMALLEST_STEP),
        ("time_step_max", SMALLEST_STEP),
        ("time_step_floor", 0.0),
    ):
        if not low <= getattr(c, field) <= LARGEST_STEP:
            c.refuse(field, f"must be from {low:g} to {LARGEST_STEP:g}")
    if c.time_step_min > c.time_step_max:
        reason = f"must not be above {c.label('time_step_max')}, which is {c.time_step_max:g}"
        c.refuse("time_step_min", reason)


def check_heads(c: Config) -> None:
    """Refuse heads that do not fill the inner width."""
    check(c)
    inner = c.hidden_size * c.expand
    if c.num_heads * c.head_dim != inner:
        reason = f"times {c.label('head_dim')} must be {inner}, hidden_size times expand"
        c.refuse("num_heads", reason)


family = partial(Family, name="mamba", tied={"lm_head.weight": "backbone.embeddings.weight"})

FAMILIES = [
    family(
        model_type="mamba",
        fields=MAMBA,
        architectures={"MambaForCausalLM": mamba_lm, "MambaModel": mamba},
        auto=mamba_auto,
        check=check,
    ),
    family(
        model_type="mamba2",
        fields=MAMBA2,
        architectures={"Mamba2ForCausalLM": mamba2_lm, "Mamba2Model": mamba2},
        auto=auto,
        check=check_heads,
    ),
]
