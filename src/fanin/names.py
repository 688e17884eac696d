"""What the names of tensors tell: roles, and numbers of blocks.

For models that no family describes. The words are those that the libraries of the last years use;
a layer whose word is none of them stays `dense`, which every scheme has a rule for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from fanin.families.layers import part
from fanin.layouts import resolve_layout
from fanin.model import UNKNOWN, VALUES, Tensor
from fanin.output import ITEMSIZE

__all__ = ["dense_role", "in_blocks", "named_tensor"]

PACKED = "packed"
"""Role of integers that are weights in another form, several in one."""

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


def named_tensor(name: str, shape: tuple[int, ...], dtype: str = "float32") -> Tensor:
    """Return a tensor of which only name, shape and dtype are known.

    Its role is `parameter` if the name tells nothing.

    Examples
    --------
    >>> named_tensor("h.0.ln_1.weight", (8,)).role, named_tensor("h.0.mlp.fc1.weight", (8, 4)).role
    ('norm.scale', 'mlp.in')
    >>> named_tensor("mystery", (8, 4)).role
    'parameter'
    """
    role, layout = _role(name, len(shape), dtype)
    return Tensor.of(name, shape, (part(name, role, shape, layout),))


def _role(name: str, axes: int, dtype: str) -> tuple[str, str | None]:
    path, _, own = name.rpartition(".")
    word = path.rpartition(".")[2].lower()
    if re.fullmatch(_SCALES, own):
        return ("scale.e8m0" if dtype == "uint8" else "scale"), None
    if own in ("num_batches_tracked", "position_ids") and dtype not in ITEMSIZE:
        return VALUES, None
    if dtype not in ITEMSIZE:
        return PACKED, None
    if axes == 1 and re.search(_NORM, word):
        if own in ("weight", "running_var"):
            return "norm.scale", None
        return ("norm.bias" if own in ("bias", "running_mean") else UNKNOWN), None
    if axes == 1 and own == "bias":
        return "bias", None
    default = resolve_layout((1,) * axes, None) if axes > 1 else None
    layer = path if own == "weight" else name
    if axes == 2 and own == "weight":
        embeds = re.search("embed|^w[tp]e$|^shared$", word)
        return ("embedding" if embeds else dense_role(path)), "oi"
    if axes == 3 and "expert" in name.lower() and (role := dense_role(layer)) != "dense":
        return role, "boi"
    if axes in (3, 4, 5) and own == "weight":
        return "conv", default
    return UNKNOWN, default


_SCALES = (
    r"(weight|input|activation|output|[qkv]|.*_proj)_scales?(_inv|_2)?|scales|.*_proj.*_scales"
)
_NORM = r"norm|^ln(_|\d|$)|(^|_)ln$|^bn\d*$"


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
