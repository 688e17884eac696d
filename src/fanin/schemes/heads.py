"""Whether the output head is a tensor of its own, or the embedding again."""

from __future__ import annotations

from fanin.model import Model

__all__ = ["tied_head"]


def tied_head(model: Model) -> str | None:
    """Return the name of a head that is tied to an embedding, or None.

    Examples
    --------
    >>> from fanin import families
    >>> tied_head(families.load("gpt2"))
    'lm_head.weight'
    """
    embeddings = {
        tensor.name for tensor in model.tensors if tensor.role.split(".")[0] == "embedding"
    }
    for alias, stored in model.tied.items():
        named_so = "embed" in alias.replace("embed_out", "")  # an encoder's and a decoder's table
        if stored in embeddings and not named_so:
            return alias
    return None
