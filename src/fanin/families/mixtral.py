"""Mixtral (Jiang et al. 2024): Mistral with experts in the place of its MLP.

Files call gate, up and down of an expert w1, w3 and w2. Initialization as in transformers:
N(0, initializer_range^2), routers included.
"""

from __future__ import annotations

from collections.abc import Iterator

from fanin.families.decoder import family, projections
from fanin.families.experts import auto, experts, router
from fanin.families.fields import Config, size
from fanin.families.layers import rms_norm
from fanin.families.llama import MISTRAL
from fanin.model import Tensor

MIXTRAL = {**MISTRAL, "experts": size(8, "num_local_experts", "num_experts")}


def block(c: Config, at: str) -> Iterator[Tensor]:
    """MixtralDecoderLayer."""
    d, stored = c.hidden_size, f"{at}block_sparse_moe."
    yield from projections(c, f"{at}self_attn.")
    yield from router(f"{stored}gate", c.experts, d)
    yield from experts(
        f"{stored}experts.",
        c.experts,
        c.intermediate_size,
        d,
        names=("w1", "w3", "w2"),
        module=f"{at}mlp.experts.",
    )
    yield from rms_norm(f"{at}input_layernorm", d)
    yield from rms_norm(f"{at}post_attention_layernorm", d)


def module_name(stored: str) -> str:
    """Return the module's name of a stored tensor."""
    return stored.replace(".block_sparse_moe.", ".mlp.")


FAMILIES = [
    family("mixtral", "Mixtral", "mixtral", MIXTRAL, block, auto=auto, module_names=module_name)
]
