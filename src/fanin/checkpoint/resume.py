"""What a folder holds already: files to keep, files to write again, and files that are not ours.

Nothing is recorded beside the files. A file is whole if it has the size and, byte for byte, the
header that the plan gives it; a file with this recipe that does not fit is damaged and is written
again. Anything else under the name of weights, an index or a config is a conflict, with a reason
that says what differs: mixing two checkpoints in a folder would give a model that loads and is
wrong.
"""

from __future__ import annotations

import contextlib
import errno
import json
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fanin.checkpoint import recipe
from fanin.checkpoint.files import CONFIG, INDEX, CheckpointFiles, config_difference
from fanin.checkpoint.safetensors_header import parse_header, read_header
from fanin.checkpoint.safetensors_layout import Shard
from fanin.config import MAX_FILE

_TRIES = 20  # as another process may remove a file between two looks at it

WEIGHTS = re.compile(r"model.*\.safetensors(\.index\.json)?")
"""Names that readers take for weights or their index."""


@dataclass
class Found:
    """The files in a folder, by name; others are nobody's business."""

    whole: set[str] = field(default_factory=set)
    damaged: set[str] = field(default_factory=set)
    conflicts: dict[str, str] = field(default_factory=dict)  # reasons

    @property
    def ours(self) -> bool:
        """Whether this recipe wrote here before, and nobody else did."""
        return bool(self.whole or self.damaged) and not self.conflicts


def survey(folder: Path, files: CheckpointFiles) -> Found:
    """Compare a folder, which need not exist, with the files that belong there."""
    for _ in range(_TRIES):
        with contextlib.suppress(FileNotFoundError):
            return _survey(folder, files)
    return _survey(folder, files)


def _survey(folder: Path, files: CheckpointFiles) -> Found:
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    names = [name for name in names if name in (CONFIG, INDEX) or WEIGHTS.fullmatch(name)]
    for name in names:
        if (folder / name).is_dir():
            raise IsADirectoryError(errno.EISDIR, "a folder is in the way", str(folder / name))
    found = Found()
    shards = {shard.filename: shard for shard in files.shards}
    unreadable = []
    for name in names:
        if name in (CONFIG, INDEX):
            continue
        shard = shards.get(name)
        if shard is not None and is_whole(folder / name, shard):
            found.whole.add(name)
            continue
        header = _header(folder / name)
        if shard is not None and header is None and _is_file(folder / name):
            unreadable.append(name)
        elif reason := _difference(header, shard, files.recipe):
            found.conflicts[name] = f"{name} {reason}"
        else:
            found.damaged.add(name)
    for name in unreadable:
        # Torn by a crash or a copy, if the rest speaks for it; else somebody's (a Git LFS pointer).
        if found.ours or (folder / name).stat().st_size in (0, shards[name].num_bytes):
            found.damaged.add(name)
        else:
            found.conflicts[name] = f"{name} is not a safetensors file"
    if INDEX in names:
        _survey_index(folder / INDEX, files, found)
    if CONFIG in names:
        _survey_config(folder / CONFIG, files, found)
    return found


def _is_file(path: Path) -> bool:
    """Whether it may be opened (a pipe would wait for its other end); FileNotFoundError if gone."""
    mode = path.lstat().st_mode
    return stat.S_ISREG(mode) or (stat.S_ISLNK(mode) and path.is_file())


def is_whole(path: Path, shard: Shard) -> bool:
    """Whether a file has the right size and header; FileNotFoundError if there is none."""
    if not _is_file(path) or path.stat().st_size != shard.num_bytes:
        return False
    with open(path, "rb") as file:
        return file.read(len(shard.header)) == shard.header


def _header(path: Path) -> dict[str, Any] | None:
    if not _is_file(path):
        return None
    try:
        return read_header(path, complete=False)  # a torn file of ours still says whose it is
    except ValueError:
        return None


def _difference(header: dict[str, Any] | None, shard: Shard | None, ours: dict[str, Any]) -> str:
    theirs = recipe.of_header(header) if header is not None else None
    if theirs is None:
        return "was not written by fanin"
    if difference := recipe.differences(theirs, ours):
        return f"has {difference}"
    if shard is None or header != parse_header(shard.header[8:]):
        return "is cut by another max_shard_size"
    return ""


def _survey_index(path: Path, files: CheckpointFiles, found: Found) -> None:
    expected = files.texts.get(INDEX)
    text = _read(path, len(expected or b"") + 1)
    fits = (
        expected is not None and text == expected
    )  # also that of another recipe for these tensors
    if fits and not found.conflicts:
        found.whole.add(INDEX)
    elif fits or (expected is not None and text is not None and (not text or found.ours)):
        found.damaged.add(INDEX)
    else:
        found.conflicts[INDEX] = f"{INDEX} is of another checkpoint"


def _read(path: Path, limit: int) -> bytes | None:
    """The first bytes of a file, or None if it is none; nobody knows how long others' files are."""
    if not _is_file(path):
        return None
    with path.open("rb") as file:
        return file.read(limit)


def _survey_config(path: Path, files: CheckpointFiles, found: Found) -> None:
    text = _read(path, MAX_FILE + 1)
    try:
        there = json.loads(text or b"")
    except (ValueError, RecursionError):
        there = None
    if there == files.config:
        found.whole.add(CONFIG)
    elif text == b"" or there == files.given_config:
        return  # the given file itself, in place: replaced, but not removed before
    elif not isinstance(there, dict):
        found.conflicts[CONFIG] = f"{CONFIG} is not a JSON object"
    else:
        found.conflicts[CONFIG] = f"{CONFIG} has {config_difference(there, files.config)}"
