"""The headers and the index of a checkpoint, against what its plan would have written.

Contents are another matter (`shard_content`): here is what a file says of itself. How the tensors
were cut into files is not in the recipe, so it is taken from the headers; all else must be what
`fanin init` writes, byte for byte.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fanin.checkpoint import recipe
from fanin.checkpoint.files import INDEX
from fanin.checkpoint.resume import WEIGHTS
from fanin.checkpoint.safetensors_header import parse_header, read_header
from fanin.checkpoint.safetensors_layout import Shard, index, shard_of
from fanin.config import MAX_FILE

if TYPE_CHECKING:
    from fanin.plan import Entry, Plan

__all__ = ["StoredFile", "folder_problems", "read_file", "shard_names"]

SINGLE = "model.safetensors"
_NUMBERED = re.compile(r"model-(\d{5})-of-(\d{5})\.safetensors")


@dataclass(frozen=True)
class StoredFile:
    """A file of weights as it is, read as far as its header."""

    path: Path
    num_bytes: int
    header: dict[str, Any]
    problem: str = ""  # why there is no header

    @property
    def name(self) -> str:
        """Name of the file."""
        return self.path.name

    @property
    def tensors(self) -> dict[str, Any]:
        """What the header says of each tensor."""
        return {name: value for name, value in self.header.items() if name != "__metadata__"}

    @property
    def recipe(self) -> dict[str, Any] | None:
        """The recipe in its metadata, if there is one."""
        return recipe.of_header(self.header)

    def shard(self, plan: Plan, theirs: dict[str, Any]) -> Shard:
        """Return the file that `fanin init` would have made of the tensors that it holds."""
        entries = [entry for entry in plan.entries if entry.tensor.name in self.header]
        return shard_of(self.name, entries, recipe.metadata(theirs))

    def difference(self, shard: Shard) -> str:
        """Say how header and size are not those of the shard; empty if they are."""
        entries = {entry.tensor.name: entry for entry in shard.entries}
        if foreign := [name for name in self.tensors if name not in entries]:
            return f"holds {_listed(foreign)}, which the model has not"
        if not shard.entries:
            return "holds no tensor"
        with open(self.path, "rb") as file:
            found = file.read(len(shard.header))
        if found != shard.header:
            return self._header_difference(shard)
        if self.num_bytes != shard.num_bytes:
            return f"has {self.num_bytes:,} bytes, {shard.num_bytes:,} are due"
        return ""

    def _header_difference(self, shard: Shard) -> str:
        expected = parse_header(shard.header[8:])
        for name, value in expected.items():
            there = self.header.get(name)
            if there == value:
                continue
            if name == "__metadata__":
                return "has other metadata than the recipe gives it"
            if there is None:
                return f"lacks {name}"
            for field, due in value.items():
                if there.get(field) != due:
                    return f"says {field} {there.get(field)} of {name}, {due} is due"
        return "has the right header in other bytes: order or spaces differ"


def shard_names(folder: Path) -> list[str]:
    """Names of the files of weights in a folder."""
    names = sorted(path.name for path in folder.iterdir())
    return [name for name in names if name != INDEX and WEIGHTS.fullmatch(name)]


def read_file(path: Path) -> StoredFile:
    """Read a file's header; a bad one is a problem of the file, not an error."""
    num_bytes = path.stat().st_size
    if not path.is_file():  # opening a pipe would wait for its other end
        return StoredFile(path, num_bytes, {}, "is not a file")
    try:
        return StoredFile(path, num_bytes, read_header(path, complete=False))
    except ValueError as error:
        reason = str(error).removeprefix(str(path)).lstrip(": ")
        return StoredFile(path, num_bytes, {}, reason)


def folder_problems(folder: Path, files: Sequence[StoredFile], plan: Plan) -> list[str]:
    """What the files of a folder lack, or have too much, as a whole; the index included."""
    names = [file.name for file in files]
    problems = [f"{name} is missing" for name in _missing_files(names)]
    homes: dict[str, str] = {}
    for file in files:
        for tensor in file.tensors:
            if tensor in homes:
                problems.append(f"{tensor} is in two files, {homes[tensor]} and {file.name}")
            homes[tensor] = file.name
    absent = [entry.tensor.name for entry in plan.entries if entry.tensor.name not in homes]
    if absent and not problems and not any(file.problem for file in files):
        problems.append(f"{_listed(absent)} {'is' if len(absent) == 1 else 'are'} in no file")
    if not problems:
        problems += _index_problems(folder, files, plan)
    return problems


def _index_problems(folder: Path, files: Sequence[StoredFile], plan: Plan) -> list[str]:
    path = folder / INDEX
    if [file.name for file in files] == [SINGLE]:
        return [f"{INDEX} belongs to several files, and there is one"] if path.exists() else []
    if not path.is_file():
        return [f"{INDEX} is missing"]
    if any(file.problem for file in files):
        return []
    by_name = {entry.tensor.name: entry for entry in plan.entries}
    shards = [
        shard_of(file.name, _entries(file.tensors, by_name), {"format": "pt"}) for file in files
    ]
    due = index(shards, plan.num_parameters)
    with path.open("rb") as file:
        text = file.read(max(MAX_FILE, 2 * len(due)))
    if text == due:
        return []
    return [f"{INDEX} {_index_difference(text, files)}"]


def _index_difference(text: bytes, files: Sequence[StoredFile]) -> str:
    try:
        homes = json.loads(text)["weight_map"]
    except (ValueError, RecursionError, KeyError, TypeError):
        homes = None
    if not isinstance(homes, dict):
        return "is not an index"
    true = {tensor: file.name for file in files for tensor in file.tensors}
    for tensor, home in true.items():
        if homes.get(tensor) != home:
            there = f"in {homes[tensor]}" if tensor in homes else "in no file"
            return f"has {tensor} {there}, and it is in {home}"
    if foreign := [tensor for tensor in homes if tensor not in true]:
        return f"has {_listed(foreign)}, which no file holds"
    return "has the right tensors, and other text around them"


def _entries(tensors: Mapping[str, Any], by_name: Mapping[str, Entry]) -> list[Entry]:
    return [by_name[name] for name in tensors if name in by_name]


def _missing_files(names: Iterable[str]) -> list[str]:
    """The others of numbered files."""
    names = set(names)
    totals = {match[2] for name in names if (match := _NUMBERED.fullmatch(name))}
    due = [
        f"model-{number:05d}-of-{total}.safetensors"
        for total in sorted(totals)
        for number in range(1, int(total) + 1)
    ]
    return [name for name in due if name not in names]


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more
