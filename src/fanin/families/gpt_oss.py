"""GPT-OSS (OpenAI 2025): experts in every layer, stacked in the files too, and attention sinks.

Experts' matrices are stored (experts, in, out), the columns of gate and up alternating, with
biases. Initialization as in transformers: N(0, initializer_range^2), also for routers, their biases
and the sinks (a logit a head that belongs to no position).
"""

from __future__ import annotations

from collections.abc import Iterator

from fanin.families import experts
from fanin.families.decoder import FIELDS, family, projections
from fanin.families.fields import Config, count, flag, size
from fanin.families.layers import linear, rms_norm, vector
from fanin.initializers import Normal
from fanin.model import Tensor
from fanin.rules import Rules

GPT_OSS = {
    **FIELDS,
    "vocab_size": size(201088),
    "hidden_size": size(2880),
    "intermediate_size": size(2880),
    "num_hidden_layers": count(36),
    "num_attention_heads": size(64),
    "num_key_value_heads": size(8),
    "head_dim": size(64),
    "qkv_bias": flag(True, "attention_bias"),
    "output_bias": flag(True, "attention_bias"),
    "experts": size(128, "num_local_experts", "num_experts"),
}


def block(c: Config, at: str) -> Iterator[Tensor]:
    """GptOssDecoderLayer."""
    d = c.hidden_size
    yield vector(f"{at}self_attn.sinks", c.num_attention_heads, "attention.sink")
    yield from projections(c, f"{at}self_attn.")
    scores, bias = linear(f"{at}mlp.router", c.experts, d, "router")
    yield scores
    yield vector(bias.name, c.experts, "bias.router", fan_in=d)
    yield from stacks(c, f"{at}mlp.experts.")
    yield from rms_norm(f"{at}input_layernorm", d)
    yield from rms_norm(f"{at}post_attention_layernorm", d)


def stacks(c: Config, at: str) -> Iterator[Tensor]:
    """GptOssExperts."""
    d, inner, number = c.hidden_size, c.intermediate_size, c.experts
    for name, roles, fan_in, fan_out in (
        ("gate_up_proj", ("mlp.gate", "mlp.in"), d, 2 * inner),
        ("down_proj", ("mlp.out",), inner, d),
    ):
        fused = len(roles) > 1
        yield experts.expert_stack(
            f"{at}{name}", (number, fan_in, fan_out), roles, "bio", outputs=2, interleaved=fused
        )
        yield experts.expert_stack(
            f"{at}{name}_bias",
            (number, fan_out),
            ("bias",) * len(roles),
            None,
            outputs=1,
            interleaved=fused,
            fan_in=fan_in,
        )


def auto(c: Config) -> Rules:
    """`GptOssPreTrainedModel._init_weights`: a range of 0 means 0.02 to all but what is here."""
    own = dict.fromkeys(("bias.router", "attention.sink"), Normal(std=c.initializer_range))
    return {**experts.auto(c), **own}


FAMILIES = [family("gpt_oss", "GptOss", "gpt_oss", GPT_OSS, block, auto=auto)]
