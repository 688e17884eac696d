"""The files that a plan makes, as they will be byte for byte (but for the weights themselves).

The config is the one that was given, with the dtype that is written, and without a
`quantization_config` unless the weights are quantized: readers believe it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fanin.checkpoint import recipe
from fanin.checkpoint.safetensors_layout import Shard, index, layout

if TYPE_CHECKING:
    from fanin.plan import Plan

CONFIG = "config.json"
INDEX = "model.safetensors.index.json"


@dataclass(frozen=True)
class CheckpointFiles:
    """Everything that a finished folder holds, in the order in which it is written."""

    recipe: dict[str, Any]
    given_config: dict[str, Any]
    config: dict[str, Any]
    shards: tuple[Shard, ...]
    texts: dict[str, bytes]  # config.json, then the index if there is one
    notes: tuple[str, ...]

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes of every file, by name."""
        sizes = {shard.filename: shard.num_bytes for shard in self.shards}
        return sizes | {name: len(text) for name, text in self.texts.items()}


def checkpoint_files(plan: Plan, max_shard_size: int | str) -> CheckpointFiles:
    """Lay out the files of a plan."""
    given = plan.model.raw
    config = config_to_write(given, plan)
    ours = recipe.recipe(plan)
    shards = layout(plan.entries, recipe.metadata(ours), max_shard_size)
    texts = {CONFIG: (json.dumps(config, indent=2) + "\n").encode()}
    if len(shards) > 1:
        texts[INDEX] = index(shards, plan.num_parameters)
    notes = []
    if "quantization_config" in given and plan.model.quantization is None:
        notes.append(
            f"quantization_config is left out of config.json: the weights are plain {plan.dtype}"
        )
    return CheckpointFiles(ours, given, config, shards, texts, tuple(notes))


def config_to_write(given: dict[str, Any], plan: Plan) -> dict[str, Any]:
    """Return the config of a plan's weights, as `save_pretrained` would name its fields.

    Examples
    --------
    >>> from fanin import families
    >>> from fanin.plan import make_plan
    >>> given = {"model_type": "gpt2", "torch_dtype": "float32", "n_embd": 48}
    >>> config_to_write(given, make_plan(families.build(given), dtype="bfloat16"))
    ... # doctest: +NORMALIZE_WHITESPACE
    {'dtype': 'bfloat16', 'model_type': 'gpt2', 'n_embd': 48,
     'architectures': ['GPT2LMHeadModel']}
    """
    model = plan.model
    dtype = plan.dtype if model.quantization is None else model.dtype
    config = {"dtype": dtype, **_with_dtype(given, dtype)}
    if not config.get("architectures") and model.architecture:
        config["architectures"] = [model.architecture]
    if model.quantization is not None:
        config["quantization_config"] = model.quantization
    return config


def _with_dtype(config: dict[str, Any], dtype: str) -> dict[str, Any]:
    # torch_dtype is the older name of dtype; models of several parts repeat both in sub-configs.
    result: dict[str, Any] = {}
    for key, value in config.items():
        if key in ("dtype", "torch_dtype"):
            result["dtype"] = dtype
        elif key != "quantization_config":
            result[key] = _with_dtype(value, dtype) if isinstance(value, dict) else value
    return result


def config_difference(there: dict[str, Any], here: dict[str, Any]) -> str:
    """Say where two configs differ, the first three fields; empty if they do not."""
    keys = [key for key in {**here, **there} if there.get(key) != here.get(key)]
    return ", ".join(f"{key} {there.get(key)} there, {here.get(key)} here" for key in keys[:3])
