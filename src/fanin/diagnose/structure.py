"""How a model's blocks are put together, as far as the size of signals depends on it.

Tensors do not say whether a norm stands before a branch or after it, nor that embeddings are
multiplied by sqrt(width). These are facts of each architecture's code in transformers 5.24, by
`model_type`; a model that is not listed has no predictions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from fanin.model import Model

__all__ = ["Placement", "Structure", "structure_of"]

Placement: TypeAlias = Literal["pre", "post", "both", "end"]
"""Where a branch's norm is: before it, after it is added, before and at its end, at its end."""


@dataclass(frozen=True)
class Structure:
    """What multiplies the signal, beside the weights."""

    placement: Placement | None = "pre"  # None: there are no branches of attention and MLP
    parallel: bool = False  # attention and MLP read the same signal
    causal: bool = True
    embedding_factor: float = 1.0
    embedding_norm: bool = False  # after the embeddings are added
    residual_factor: float = 1.0  # of each branch
    score_factor: float | None = None  # of query times key; None: 1 / sqrt(head_dim)
    experts_per_token: int = 0  # 0: experts are not predicted
    normalized_experts: bool = True  # their weights sum to 1
    eps: float = 1e-5  # of the norms
    logit_factor: float = 1.0
    softcap: float | None = None  # of logits: cap * tanh(logits / cap)


def structure_of(model: Model) -> Structure | None:
    """Return the structure of a model, or None if it is not known."""
    known = _STRUCTURES.get(model.model_type)
    if known is None:
        return None
    eps = next((value for name in _EPS if (value := model.raw.get(name)) is not None), None)
    found = known(model)
    return found if eps is None else replace(found, eps=float(eps))


_EPS = (
    "layer_norm_epsilon",
    "layer_norm_eps",
    "rms_norm_eps",
    "norm_epsilon",
    "norm_eps",
)
"""What configs call the number that a norm adds to the variance."""


def _get(model: Model, name: str, default: Any) -> Any:
    """A field as the family read it, else as the file has it."""
    value = model.config.get(name)
    value = model.raw.get(name) if value is None else value
    return default if value is None else value


def _pre(model: Model) -> Structure:
    return Structure(eps=1e-6)


def _layer_norm(model: Model) -> Structure:
    return Structure(parallel=bool(_get(model, "use_parallel_residual", False)))


def _gpt_neox(model: Model) -> Structure:
    return Structure(parallel=bool(_get(model, "use_parallel_residual", True)))


def _parallel(model: Model) -> Structure:
    return Structure(parallel=bool(_get(model, "parallel_attn", True)))


def _gpt2(model: Model) -> Structure:
    scaled = bool(_get(model, "scale_attn_weights", True))
    return Structure(score_factor=None if scaled else 1.0)


def _bloom(model: Model) -> Structure:
    return Structure(embedding_norm=True)


def _opt(model: Model) -> Structure:
    return Structure("pre" if _get(model, "do_layer_norm_before", True) else "post")


def _bert(model: Model) -> Structure:
    causal = bool(_get(model, "is_decoder", False))
    return Structure("post", causal=causal, embedding_norm=True, eps=1e-12)


def _gemma(model: Model) -> Structure:
    return Structure(embedding_factor=math.sqrt(model.hidden_size), eps=1e-6)


def _gemma2(model: Model) -> Structure:
    return Structure(
        "both",
        embedding_factor=math.sqrt(model.hidden_size),
        score_factor=float(_get(model, "query_pre_attn_scalar", 256)) ** -0.5,
        eps=1e-6,
        # null means none, and an absent field 30, but for Gemma 3
        softcap=model.raw.get(
            "final_logit_softcapping", 30.0 if model.model_type == "gemma2" else None
        ),
    )


def _granite(model: Model) -> Structure:
    return Structure(
        embedding_factor=float(_get(model, "embedding_multiplier", 1.0)),
        residual_factor=float(_get(model, "residual_multiplier", 1.0)),
        score_factor=float(_get(model, "attention_multiplier", 1.0)),
        logit_factor=1.0 / float(_get(model, "logits_scaling", 1.0)),
        eps=1e-6,
    )


def _olmo2(model: Model) -> Structure:
    return Structure("end")


def _mixtral(model: Model) -> Structure:
    return Structure(experts_per_token=int(_get(model, "num_experts_per_tok", 2)), eps=1e-5)


def _experts(by_default: int) -> Callable[[Model], Structure]:
    def structure(model: Model) -> Structure:
        return Structure(
            experts_per_token=int(_get(model, "num_experts_per_tok", by_default)),
            normalized_experts=bool(_get(model, "norm_topk_prob", False)),
            eps=1e-6,
        )

    return structure


def _t5(model: Model) -> Structure:
    """A tied head sees the hidden state times d^(-1/2); not so in mT5."""
    tied = any(alias.startswith("lm_head") for alias in model.tied)
    scaled = bool(model.raw.get("scale_decoder_outputs", tied))
    return Structure(logit_factor=model.hidden_size**-0.5 if scaled else 1.0, eps=1e-6)


def _tower(model: Model) -> Structure:
    """Encoders of images, and text models beside them."""
    return Structure(causal=model.model_type == "clip_text_model")


def _bart(model: Model) -> Structure:
    return Structure("post", embedding_norm=True)


def _mbart(model: Model) -> Structure:
    return Structure(embedding_norm=True)


def _mamba(model: Model) -> Structure:
    return Structure(None)


_STRUCTURES: dict[str, Callable[[Model], Structure]] = {
    "bart": _bart,
    "bert": _bert,
    "bloom": _bloom,
    "camembert": _bert,
    "clip": _tower,
    "clip_text_model": _tower,
    "clip_vision_model": _tower,
    "deepseek_v2": _pre,
    "deepseek_v3": _pre,
    "deit": _tower,
    "distilbert": _bert,
    "electra": _bert,
    "falcon": _parallel,
    "gemma": _gemma,
    "gemma2": _gemma2,
    "gemma3_text": _gemma2,
    "gpt2": _gpt2,
    "gpt_neox": _gpt_neox,
    "gpt_oss": _pre,
    "gptj": _parallel,
    "granite": _granite,
    "llama": _pre,
    "mamba": _mamba,
    "mamba2": _mamba,
    "mbart": _mbart,
    "mistral": _pre,
    "mixtral": _mixtral,
    "mt5": _pre,
    "olmo2": _olmo2,
    "olmoe": _experts(8),
    "opt": _opt,
    "phi3": _pre,
    "qwen2": _pre,
    "qwen2_moe": _experts(4),
    "qwen3": _pre,
    "qwen3_moe": _experts(8),
    "roberta": _bert,
    "siglip": _tower,
    "siglip_text_model": _tower,
    "siglip_vision_model": _tower,
    "stablelm": _layer_norm,
    "starcoder2": _layer_norm,
    "t5": _t5,
    "umt5": _t5,
    "vit": _tower,
    "whisper": _layer_norm,
    "xlm-roberta": _bert,
}
