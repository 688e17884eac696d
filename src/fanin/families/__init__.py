"""The model families that are built in, by `model_type`.

To add one, write its file (fields, tensors, ties, rules; `llama.py` is a good start), import it
here and put its `FAMILIES` into the table.
"""

from __future__ import annotations

import importlib.util
import os
from typing import Any

from fanin import config as configs
from fanin.arguments import unknown
from fanin.families import (
    bart,
    bert,
    bloom,
    clip,
    deepseek,
    dinov2,
    distilbert,
    electra,
    falcon,
    gemma,
    gpt2,
    gpt_neox,
    gpt_oss,
    gptj,
    llama,
    mamba,
    mixtral,
    olmo2,
    olmoe,
    opt,
    phi3,
    qwen_moe,
    roberta,
    siglip,
    stablelm,
    starcoder2,
    t5,
    vit,
    whisper,
)
from fanin.families.family import OTHERS, Family
from fanin.model import Model

__all__ = ["FAMILIES", "build", "load"]

MODULES = (
    bart,
    bert,
    bloom,
    clip,
    deepseek,
    dinov2,
    distilbert,
    electra,
    falcon,
    gemma,
    gpt2,
    gpt_neox,
    gpt_oss,
    gptj,
    llama,
    mamba,
    mixtral,
    olmo2,
    olmoe,
    opt,
    phi3,
    qwen_moe,
    roberta,
    siglip,
    stablelm,
    starcoder2,
    t5,
    vit,
    whisper,
)

FAMILIES: dict[str, Family] = {
    family.model_type: family for module in MODULES for family in module.FAMILIES
}


def load(config: str | os.PathLike[str]) -> Model:
    """Return the model of a `config.json`, of a folder with one, or of a shipped preset.

    Examples
    --------
    >>> from fanin import families
    >>> families.load("gpt2").num_parameters
    124439808
    """
    return build(configs.load(config), source=str(configs.find(config)))


def build(raw: dict[str, Any], source: str = "config.json") -> Model:
    """Return the model that the fields of a config describe.

    A family that is built in wins; any other architecture is read through transformers, if that is
    installed (`pip install "fanin[hf]"`).

    Parameters
    ----------
    raw : dict
        The config as JSON gives it. Fields that are absent have the default of its `model_type`.
    source : str
        Where it came from, for error messages.

    Raises
    ------
    ValueError
        Neither fanin nor an installed transformers knows the model type or architecture, or a field
        has an impossible value.

    Examples
    --------
    >>> from fanin import families
    >>> model = families.build({"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4})
    >>> len(model.tensors), model.tied
    (28, {'lm_head.weight': 'transformer.wte.weight'})
    """
    model_type = raw.get("model_type")
    if not isinstance(model_type, str):
        problem = "is missing" if model_type is None else f"is {model_type!r}, which is no string"
        raise ValueError(f"{source}: model_type {problem}; known: {', '.join(sorted(FAMILIES))}")
    family = FAMILIES.get(model_type)
    if family is not None and (family.knows(raw) or not _has_transformers()):
        return family.build(raw, source)
    if not _has_transformers():
        raise ValueError(
            f"{source}: {unknown('model_type', model_type, sorted(FAMILIES))} ({OTHERS})"
        )
    from fanin.torch.architectures import model_of_config

    return model_of_config(raw, source)


def _has_transformers() -> bool:
    return all(importlib.util.find_spec(name) is not None for name in ("torch", "transformers"))
