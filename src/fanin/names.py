"""What the names of tensors tell: roles of dense layers, numbers of blocks.

For models that no family describes. The words are those that the libraries of the last years use;
a layer whose word is none of them stays `dense`, which every scheme has a rule for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from fanin.model import Tensor

__all__ = ["dense_role", "in_blocks"]

_ANYWHERE = {
    "attention.query": "q_proj query q_lin wq query_proj to_q",
    "attention.key": "k_proj key k_lin wk key_proj to_k",
    "attention.value": "v_proj value v_lin wv value_proj to_v",
    "attention.out": "o_proj out_lin to_out",
    "mlp.in": "fc1 up_proj c_fc lin1 wi wi_1 dense_h_to_4h linear1 w3 fc_in gate_up_proj",
    "mlp.gate": "gate_proj wi_0 w1",
    "mlp.out": "fc2 down_proj lin2 dense_4h_to_h linear2 w2 fc_out",
    "head": "lm_head embed_out output_projection classifier score qa_outputs lm_loss",
    "router": "router",
}
_IN_ATTENTION = {
    "attention.query": "q",
    "attention.key": "k",
    "attention.value": "v",
    "attention.out": "o dense c_proj proj out out_proj wo output",
    "attention": "qkv qkv_proj query_key_value c_attn in_proj wqkv",
}
_IN_MLP = {"mlp.out": "wo c_proj", "router": "gate"}


def _by_word(table: dict[str, str]) -> dict[str, str]:
    return {word: role for role, words in table.items() for word in words.split()}


_WORDS = tuple(_by_word(table) for table in (_ANYWHERE, _IN_ATTENTION, _IN_MLP))


def dense_role(path: str) -> str:
    """Return the role of a dense layer by its path, the name of its weight without `.weight`.

    Examples
    --------
    >>> dense_role("encoder.layer.0.attention.output.dense"), dense_role("encoder.block.3.wi_0")
    ('attention.out', 'mlp.gate')
    >>> dense_role("pooler.dense")
    'dense'
    """
    *above, word = path.lower().split(".")
    anywhere, in_attention, in_mlp = _WORDS
    if word in anywhere:
        return anywhere[word]
    # The innermost word that says what the layer is a part of.
    for context in reversed(above):
        if re.search("attn|attention", context):
            return in_attention.get(word, "dense")
        if re.search("mlp|ffn|feed_?forward|dense_?relu_?dense|moe|experts", context):
            return in_mlp.get(word, "dense")
    if above and word == "dense" and not re.fullmatch(r"\d+", above[-1]):
        return {"intermediate": "mlp.in", "output": "mlp.out"}.get(above[-1], "dense")
    return "dense"


def in_blocks(tensors: Iterable[Tensor]) -> list[Tensor]:
    """Number the parts of tensors whose names have the number of a block, the first number in it.

    Each block is taken to have two residual branches, attention and an MLP.

    Examples
    --------
    >>> from fanin.families.layers import linear
    >>> tensors = [*linear("h.0.fc", 4, 4, "dense"), *linear("h.1.fc", 4, 4, "dense")]
    >>> [(part.layer, part.branches) for tensor in in_blocks(tensors) for part in tensor.parts]
    [(0, 4), (0, 4), (1, 4), (1, 4)]
    """
    tensors = list(tensors)
    found = [re.search(r"^(.*?)\.(\d+)\.", tensor.name) for tensor in tensors]
    depth: dict[str, int] = {}
    for match in found:
        if match is not None:
            depth[match[1]] = max(depth.get(match[1], 0), int(match[2]) + 1)
    return [
        tensor if match is None else tensor.in_layer(int(match[2]), 2 * depth[match[1]])
        for tensor, match in zip(tensors, found, strict=True)
    ]
