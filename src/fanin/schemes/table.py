"""The only list of schemes, and of what some of them say beside their rules."""

from __future__ import annotations

from collections.abc import Callable

from fanin.rules import Rules
from fanin.schemes import deepnorm, isometry, mup, published, residual, small, variance

__all__ = ["LEARNING_RATES", "NOTES", "SCHEMES"]

SCHEMES: dict[str, Callable[..., Rules]] = {
    "auto": published.auto,
    "gpt2": published.gpt2,
    "bert": published.bert,
    "llama": published.llama,
    "megatron": published.megatron,
    "olmo": published.olmo,
    "small": small.small,
    "small_init": small.small_init,
    "wang": small.wang,
    "lecun": variance.lecun,
    "xavier": variance.xavier,
    "he": variance.he,
    "torch_default": variance.torch_default,
    "orthogonal": isometry.orthogonal,
    "deepnorm": deepnorm.deepnorm,
    "fixup": residual.fixup,
    "zero_residual": residual.zero_residual,
    "mup": mup.mup,
    "dummy": small.dummy,
}
"""Each takes a model, and its options by name."""

NOTES: dict[str, Callable[..., list[str]]] = {
    "deepnorm": deepnorm.notes,
    "fixup": residual.fixup_notes,
    "zero_residual": residual.zero_residual_notes,
    "mup": mup.notes,
}
"""What the user must do beside, for schemes that weights alone do not make: same arguments."""

LEARNING_RATES: dict[str, Callable[..., dict[str, float]]] = {
    "mup": mup.learning_rates,
    "zero_residual": residual.zero_residual_learning_rates,
}
"""Factors of Adam's learning rate by tensor, for schemes that have some: same arguments."""
