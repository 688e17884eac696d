"""What a checkpoint was made from: enough to make it again, and to tell it from any other.

The recipe is JSON text under the key `fanin` of every file's metadata. Beside what the user chose
it holds a digest of the resolved plan (every matrix with its shape, its place and its
initializer), since two configs can differ in nothing but an `initializer_range`.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING, Any

from fanin import __version__
from fanin.streams import STREAM_VERSION

if TYPE_CHECKING:
    from fanin.plan import Plan

KEY = "fanin"

# How a field is named to the user. The digest is not: it counts where nothing else differs.
_LABELS = {
    "fanin": "fanin version",
    "stream_version": "stream version",
    "model_type": "model type",
    "architecture": "architecture",
    "seed": "seed",
    "scheme": "scheme",
    "dtype": "dtype",
    "overrides": "overrides",
    "dtypes": "dtypes",
    "like": "the tensors of a checkpoint (--like)",
}


def recipe(plan: Plan) -> dict[str, Any]:
    """Return the recipe of a plan, as JSON values."""
    return {
        "fanin": __version__,
        "stream_version": STREAM_VERSION,
        "model_type": plan.model.model_type,
        "architecture": plan.model.architecture,
        "seed": plan.seed,
        "scheme": plan.scheme,
        "dtype": plan.dtype,
        "overrides": [[pattern, str(initializer)] for pattern, initializer in plan.overrides],
        "dtypes": [list(rule) for rule in plan.dtypes],
        **({"like": True} if plan.model.like else {}),
        "plan": _digest(plan),
    }


def metadata(recipe: dict[str, Any]) -> dict[str, str]:
    """Return the metadata of a safetensors file: the format that readers expect, and the recipe."""
    return {"format": "pt", KEY: json.dumps(recipe, separators=(",", ":"))}


def plan_again(theirs: dict[str, Any], config: str | os.PathLike[str]) -> Plan:
    """Return the plan that a recipe and a config make here.

    Raises
    ------
    ValueError
        The recipe or the config is none, or together they make another plan than they did when the
        recipe was written: by an edited config, or another version of fanin.
    """
    from fanin import families
    from fanin.checkpoint.like import model_like
    from fanin.plan import make_plan

    if theirs.get("stream_version") != STREAM_VERSION:
        raise ValueError(
            f"the weights are of stream version {theirs.get('stream_version')}, this fanin"
            f" ({__version__}) makes version {STREAM_VERSION}"
        )
    like = theirs.get("like") is True
    model = model_like(os.path.dirname(config) or ".") if like else families.load(config)
    try:
        plan = make_plan(
            model,
            scheme=theirs["scheme"],
            seed=theirs["seed"],
            dtype=theirs["dtype"],
            overrides=[(pattern, initializer) for pattern, initializer in theirs["overrides"]],
            dtypes=[(pattern, dtype) for pattern, dtype in theirs["dtypes"]],
        )
    except (KeyError, TypeError, ValueError) as error:
        reason = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"the recipe in the metadata makes no plan: {reason}") from None
    ours = recipe(plan)
    if theirs | {"fanin": __version__} != ours:  # another version may make the same plan
        raise ValueError(
            f"{os.fspath(config)} makes another plan than that of the weights:"
            f" {differences(theirs, ours)}"
        )
    return plan


def of_header(header: dict[str, Any]) -> dict[str, Any] | None:
    """Return the recipe in a file's header, or None if it is not a file of ours."""
    stored = header.get("__metadata__")
    if not isinstance(stored, dict) or not isinstance(stored.get(KEY), str):
        return None
    try:
        content = json.loads(stored[KEY])
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def differences(theirs: dict[str, Any], ours: dict[str, Any]) -> str:
    """Say in which fields two recipes differ; empty if they are the same."""
    if theirs == ours:
        return ""
    told = [
        f"{label} {_show(theirs.get(field))} there, {_show(ours.get(field))} here"
        for field, label in _LABELS.items()
        if theirs.get(field) != ours.get(field)
    ]
    return ", ".join(told) or "another model config (sizes or initializers differ)"


def _digest(plan: Plan) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for entry in plan.entries:
        tensor = entry.tensor
        parts = [
            [
                part.name,
                part.shape,
                part.layout,
                part.groups,
                part.start,
                part.extent,
                part.tensor_start,
                part.tensor_step,
                str(initializer),
            ]
            for part, initializer in zip(tensor.parts, entry.initializers, strict=True)
        ]
        digest.update(json.dumps([tensor.name, tensor.shape, entry.dtype, parts]).encode())
    return digest.hexdigest()


def _show(value: object) -> str:
    if isinstance(value, list):
        return " ".join("=".join(map(str, item)) for item in value) or "none"
    return str(value)
