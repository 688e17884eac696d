"""Finding and reading a model's `config.json`.

A config is given as a path, or as the name of a preset: the published files of well-known models
that are shipped with fanin. What its fields mean is the families' business (`fanin.families`).
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from fanin.arguments import unknown

__all__ = ["find", "load", "presets"]

MAX_FILE = 2**24  # bytes; a config.json has a few thousand

_PRESETS = Path(__file__).parent / "presets"


def load(config: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a config: a `config.json`, a folder with one, or the name of a shipped preset.

    Raises
    ------
    ValueError
        There is no such file, folder or preset, or it does not hold one JSON object.

    Examples
    --------
    >>> from fanin.config import load
    >>> load("gpt2")["n_embd"]
    768
    """
    path = find(config)
    try:
        with path.open("rb") as file:
            text = file.read(MAX_FILE + 1)
        if len(text) > MAX_FILE:
            raise ValueError(f"larger than {MAX_FILE} bytes")
        content = json.loads(text.decode("utf-8-sig"))
    except RecursionError:
        raise ValueError(f"{path}: not a config.json: nested too deeply") from None
    except ValueError as error:  # malformed JSON, not UTF-8, a number of 5000 digits
        raise ValueError(f"{path}: not a config.json: {error}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path}: not a config.json: holds {quote(content)}, not an object")
    return content


def find(config: str | os.PathLike[str]) -> Path:
    """Return the path of the JSON file that `config` means; an existing path wins over a preset."""
    given = os.fspath(config)
    if not isinstance(given, str) or not given or "\0" in given:
        raise ValueError(f"config must be a path or the name of a preset, got {config!r}")
    path = Path(given)
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise ValueError(f"{path}: the folder has no config.json")
        return path / "config.json"
    if path.exists():
        return path
    preset = _PRESETS / f"{given.lower()}.json"
    if given.lower() in presets():
        return preset
    if given.endswith(".json") or given.startswith((".", os.sep, "~")):
        raise ValueError(f"{given}: no such file or folder")
    raise ValueError(
        f"{given}: no such file or folder; {unknown('preset', given.split('/')[-1], presets())}"
    )


def presets() -> list[str]:
    """Names of the shipped configs."""
    return sorted(path.stem for path in _PRESETS.glob("*.json"))


def quote(value: object) -> str:
    """Return a value as JSON writes it, cut where it is long."""
    shown = json.dumps(value, default=repr)
    return shown if len(shown) <= 60 else f"{shown[:50]}..."
