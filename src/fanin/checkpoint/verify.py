"""Is a checkpoint what its recipe makes? Every element is sampled again, and all bits are compared.

The recipe comes from the files' metadata, the model from the `config.json` beside them. A stored
hash would be faster and would prove less: that a file is the one that was written, not that it is
right. Files are read in blocks beside the sampled ones, so that memory is that of writing.
"""

from __future__ import annotations

import errno
import math
import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from operator import mul
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fanin import config as configs
from fanin.checkpoint import recipe
from fanin.checkpoint.banded_tensors import Box
from fanin.checkpoint.difference import Difference
from fanin.checkpoint.files import CONFIG, config_difference, config_to_write
from fanin.checkpoint.shard_content import (
    FileTooShortError,
    banded_tensor,
    compare_one,
    shard_content,
)
from fanin.checkpoint.stored_files import (
    SINGLE,
    StoredFile,
    folder_problems,
    read_file,
    shard_names,
)
from fanin.output import itemsize, region_bounds
from fanin.threads import thread_count

if TYPE_CHECKING:
    from fanin.checkpoint.safetensors_layout import Shard
    from fanin.plan import Entry, Plan

__all__ = ["Report", "VerifiedFile", "VerifyError", "verify"]


class VerifyError(ValueError):
    """There is nothing to compare with: no weights of fanin, no config, or another plan."""


@dataclass(frozen=True)
class VerifiedFile:
    """A file, and what is wrong with it: nothing, its header or size, or an element."""

    name: str
    num_bytes: int
    problem: str = ""
    difference: Difference | None = None


@dataclass(frozen=True)
class Report:
    """What was compared, and what was found."""

    folder: Path
    files: tuple[VerifiedFile, ...]
    tensors: tuple[str, ...]  # those asked for; empty for all
    problems: tuple[str, ...]  # all of them: of the files as a whole first
    recipe: dict[str, Any]
    num_bytes: int  # of the tensors that were compared
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether all is as it should be."""
        return not self.problems

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        files = [
            {**vars(file), "difference": file.difference and file.difference.to_json()}
            for file in self.files
        ]
        return {
            "ok": self.ok,
            **vars(self),
            "folder": str(self.folder),
            "files": files,
            "tensors": list(self.tensors),
            "problems": list(self.problems),
        }


def verify(
    path: str | os.PathLike[str],
    *,
    tensors: Sequence[str] = (),
    threads: int | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Report:
    """Compare a checkpoint, bit for bit, with what its recipe makes.

    Parameters
    ----------
    path : str or os.PathLike
        A folder that `fanin init` wrote, or one of its safetensors files, beside its `config.json`.
    tensors : sequence of str, optional
        Compare the contents of these only: names, each with slices if only a part is meant, such as
        `"lm_head.weight[0:10, :]"`. Default: everything.
    threads : int, optional
        Default: `FANIN_NUM_THREADS`, `OMP_NUM_THREADS`, or the CPUs that this process may use.
    progress : callable, optional
        Called from time to time with the bytes done and the bytes to do.

    Returns
    -------
    Report
        `report.ok`, or `report.problems`. In each file the comparison ends at the first element, in
        the order of the file, that differs.

    Raises
    ------
    VerifyError
        If the files have no recipe of fanin, or `config.json` is absent, or the two do not make the
        plan of the weights: the config was edited, or another version of fanin plans otherwise.
    ValueError
        If a tensor or its slices are none of the checkpoint.
    OSError
        If a file cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> from fanin import families
    >>> from fanin.checkpoint import write
    >>> from fanin.plan import make_plan
    >>> from fanin.checkpoint.verify import verify
    >>> config = {"model_type": "gpt2", "n_embd": 8, "n_head": 2, "n_layer": 1, "vocab_size": 9}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = write(make_plan(families.build(config), seed=3), folder)
    ...     verify(folder).ok, verify(folder, tensors=["transformer.wpe.weight[0:2, :]"]).ok
    (True, True)
    """
    started = time.perf_counter()
    threads = thread_count(threads)
    folder, names = _files_of(path)
    files = [read_file(folder / name) for name in names]
    theirs, plan = _plan(folder, files)
    shards = {file.name: file.shard(plan, theirs) for file in files}
    problems = _config_problems(folder, plan)
    if Path(path) == folder or names == [SINGLE]:
        problems += folder_problems(folder, files, plan)
    told = {file.name: file.problem or file.difference(shards[file.name]) for file in files}
    work = [
        _Work(folder / name, shard, plan.seed) for name, shard in shards.items() if not told[name]
    ]
    if tensors:
        _select(work, shards, plan, tensors)
    total, before = sum(each.num_bytes for each in work), 0

    def advance(done: int) -> None:
        if progress is not None:
            progress(before + done, total)

    differences = {}
    for each in work:
        try:
            difference = each.first_difference(threads, advance)
        except FileTooShortError as error:
            told[each.path.name] = str(error)
        else:
            if difference is not None:
                differences[each.path.name] = difference
                told[each.path.name] = str(difference)
            elif (size := each.path.stat().st_size) != each.shard.num_bytes:
                told[each.path.name] = f"has {size:,} bytes now, {each.shard.num_bytes:,} are due"
        before += each.num_bytes
        advance(0)
    return Report(
        folder=folder,
        files=tuple(
            VerifiedFile(file.name, file.num_bytes, told[file.name], differences.get(file.name))
            for file in files
        ),
        tensors=tuple(tensors),
        problems=(*problems, *(f"{name}: {reason}" for name, reason in told.items() if reason)),
        recipe=theirs,
        num_bytes=total,
        seconds=time.perf_counter() - started,
    )


@dataclass
class _Work:
    """A file whose header is right, and what of it to compare: boxes of tensors, or all of it."""

    path: Path
    shard: Shard
    seed: int
    boxes: list[tuple[int, Box]] | None = None  # number of the tensor in the shard

    @property
    def num_bytes(self) -> int:
        if self.boxes is None:
            return self.shard.num_bytes - len(self.shard.header)
        items = [itemsize(self.shard.entries[number].dtype) for number, _ in self.boxes]
        sizes = [math.prod(extent) for _, (_, extent) in self.boxes]
        return sum(map(mul, items, sizes))

    def first_difference(
        self, threads: int, progress: Callable[[int], object]
    ) -> Difference | None:
        with open(self.path, "rb") as file:
            descriptor = file.fileno()
            if self.boxes is None:
                content = shard_content(self.shard, self.seed)
                return content.first_difference(descriptor, threads, progress)
            for number, box in self.boxes:
                entry, offset = self.shard.entries[number], self.shard.offsets[number]
                tensor = banded_tensor(entry, offset, self.seed)
                if difference := compare_one(descriptor, tensor, threads, box):
                    return difference
            return None


def _files_of(path: str | os.PathLike[str]) -> tuple[Path, list[str]]:
    given = Path(path)
    if given.is_dir():
        names = shard_names(given)
        if not names:
            raise VerifyError(f"{given} has no model*.safetensors")
        return given, names
    if not given.exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(given))
    return given.parent, [given.name]


def _plan(folder: Path, files: Sequence[StoredFile]) -> tuple[dict[str, Any], Plan]:
    """The recipe that all files have, and the plan that it makes again."""
    recipes = {file.name: file.recipe for file in files if file.recipe is not None}
    if not recipes:
        path, problem = folder / files[0].name, files[0].problem
        if problem:
            raise VerifyError(f"{path}: {problem}")
        raise VerifyError(f"{path} was not written by fanin: it has no recipe in its metadata")
    first, theirs = next(iter(recipes.items()))
    for name, other in recipes.items():
        if other != theirs:
            difference = recipe.differences(other, theirs)
            raise VerifyError(f"{folder}: {name} and {first} are of two recipes: {difference}")
    if not (folder / CONFIG).is_file():
        raise VerifyError(f"{folder} has no {CONFIG}, which says what the weights should be")
    try:
        return theirs, recipe.plan_again(theirs, folder / CONFIG)
    except ValueError as error:
        raise VerifyError(f"{folder}: {error}") from None


def _config_problems(folder: Path, plan: Plan) -> list[str]:
    there = configs.load(folder / CONFIG)
    here = config_to_write(there, plan)
    return [f"{CONFIG} has {config_difference(there, here)}"] if there != here else []


def _select(
    work: Sequence[_Work], shards: dict[str, Shard], plan: Plan, tensors: Sequence[str]
) -> None:
    """Set the boxes to compare; those in files with another problem are left to that."""
    places = {
        entry.tensor.name: (name, number)
        for name, shard in shards.items()
        for number, entry in enumerate(shard.entries)
    }
    for each in work:
        each.boxes = []
    for text in tensors:
        entry, box = _box(text, plan)
        if entry.tensor.name not in places:
            raise ValueError(f"{entry.tensor.name} is not in {', '.join(shards)}")
        home, number = places[entry.tensor.name]
        for each in work:
            if each.boxes is not None and each.path.name == home:
                each.boxes.append((number, box))


def _box(text: str, plan: Plan) -> tuple[Entry, Box]:
    """Read `NAME` or `NAME[0:10, :]`."""
    entries = {entry.tensor.name: entry for entry in plan.entries}
    name, region = text, None
    if text not in entries and (match := re.fullmatch(r"(.*)\[([^][]*)\]", text)):
        name, region = match[1], tuple(_slice(part.strip(), text) for part in match[2].split(","))
    if name not in entries:
        near = get_close_matches(name, entries, n=1, cutoff=0.0)
        raise ValueError(f"the model has no tensor {name!r}; the nearest is {near[0]!r}")
    return entries[name], region_bounds(region, entries[name].tensor.shape, f"the slice of {name}")


def _slice(part: str, text: str) -> slice:
    match = re.fullmatch(r"(\d*)\s*(:?)\s*(\d*)", part, re.ASCII)
    if match is None or not (match[1] or match[2]):
        raise ValueError(f"{text!r}: {part!r} is neither an index nor a slice such as 0:10")
    if not match[2]:
        return slice(int(match[1]), int(match[1]) + 1)
    return slice(*(int(number) if number else None for number in (match[1], match[3])))
