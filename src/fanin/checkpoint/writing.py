"""Writes a plan as a checkpoint: safetensors files, `config.json`, and the index of several files.

Every file appears only when it is whole and the index comes last, so that no reader takes an
unfinished checkpoint for a finished one. A second run of the same recipe samples what is there
again, keeps it if it is right, and does what the first one did not.

Several processes may write one checkpoint without a word to each other: each its own share of the
files, and whoever finds all of them there writes the index. So none may remove what another could
have written a moment ago: a process takes away its own files, and those that are none of this
checkpoint's.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fanin.checkpoint.files import INDEX, CheckpointFiles, checkpoint_files
from fanin.checkpoint.partial_file import partial_file, remove_stale
from fanin.checkpoint.ranks import check_rank, share
from fanin.checkpoint.resume import Found, is_whole, survey
from fanin.checkpoint.safetensors_layout import DEFAULT_MAX_SHARD_SIZE
from fanin.checkpoint.shard_content import FileTooShortError, ShardContent, shard_content
from fanin.threads import thread_count

if TYPE_CHECKING:
    from fanin.plan import Plan


class CheckpointError(ValueError):
    """The output folder holds something that this run may not touch."""


@dataclass(frozen=True)
class File:
    """One file of a checkpoint; `kept` if it was there before, whole."""

    name: str
    num_bytes: int
    kept: bool


@dataclass(frozen=True)
class Report:
    """What a run did (or would do, for a dry run)."""

    folder: Path
    files: tuple[File, ...]  # of this process
    missing: tuple[str, ...]  # files of the checkpoint that were not there in the end
    num_parameters: int
    num_bytes: int  # of all tensors
    recipe: dict[str, Any]
    rank: int
    world_size: int
    notes: tuple[str, ...]
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            **vars(self),
            "folder": str(self.folder),
            "files": [vars(file) for file in self.files],
            "missing": list(self.missing),
            "notes": list(self.notes),
        }


def write(
    plan: Plan,
    output: str | os.PathLike[str],
    *,
    max_shard_size: int | str = DEFAULT_MAX_SHARD_SIZE,
    threads: int | None = None,
    overwrite: bool = False,
    dry_run: bool = False,
    check: bool = True,
    fsync: bool = True,
    rank: int = 0,
    world_size: int = 1,
    progress: Callable[[int, int], object] | None = None,
) -> Report:
    """Write a checkpoint, or finish one that an earlier run of the same recipe left unfinished.

    Parameters
    ----------
    plan : Plan
        The tensors and their initializers.
    output : str or os.PathLike
        Folder, made if it is missing.
    max_shard_size : int or str, default "5GB"
        Most bytes of tensors in one file (a larger tensor has a file of its own). KB is 1000 bytes.
    threads : int, optional
        Default: `FANIN_NUM_THREADS`, `OMP_NUM_THREADS`, or the CPUs that this process may use.
    overwrite : bool, default False
        Remove weights, index and config of another recipe instead of refusing the folder.
    dry_run : bool, default False
        Check everything, write nothing.
    check : bool, default True
        Sample whole files of this recipe again and compare them, and write anew what differs.
        Otherwise a file is kept if its size and header are right.
    fsync : bool, default True
        Have each file on the disk before it gets its name. Otherwise it may be empty after a power
        failure, though not after the end of the process.
    rank, world_size : int, default 0 and 1
        Number of this process, and of all that write this checkpoint. Each writes its share of the
        files; the bytes are those of a single process.
    progress : callable, optional
        Called from time to time with the bytes done and the bytes to do.

    Returns
    -------
    Report
        The files, which of them were kept, and which are still missing.

    Raises
    ------
    CheckpointError
        If the folder holds a checkpoint or a config of another recipe, and `overwrite` is false.
    ValueError
        If a tensor cannot be written: its name, or no value of the dtype fits its initializer; or
        if there is no process of number `rank`.
    OSError
        If the system refuses: no space, no permission. The unfinished file is removed.

    Examples
    --------
    >>> import tempfile
    >>> from fanin import families
    >>> from fanin.checkpoint import write
    >>> from fanin.plan import make_plan
    >>> config = {"model_type": "gpt2", "n_embd": 8, "n_head": 2, "n_layer": 1, "vocab_size": 9}
    >>> plan = make_plan(families.build(config), seed=3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [file.name for file in write(plan, folder).files]
    ['model.safetensors', 'config.json']
    """
    started = time.perf_counter()
    threads = thread_count(threads)
    check_rank(rank, world_size)
    if not os.fspath(output):
        raise ValueError("output is an empty path")
    folder = Path(output)
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "the output is not a folder", str(folder))

    files = checkpoint_files(plan, max_shard_size)
    found = survey(folder, files)
    if not overwrite:
        _refuse(found.conflicts, folder)
    contents = [shard_content(shard, plan.seed) for shard in files.shards]  # all are checked
    own = share(contents, [content.num_bytes for content in contents], rank, world_size)
    notes = [*plan.notes, *files.notes, *_idle(own, contents, world_size)]
    todo = [content for content in own if content.filename not in found.whole]
    to_check = [content for content in own if check and content.filename in found.whole]
    bar = _Bar(sum(content.num_bytes for content in (*to_check, *todo)), progress)
    for content in to_check:
        if reason := _damage(folder, content, threads, bar):
            notes.append(f"{content.filename} is written again: {reason}")
            todo.append(content)
            bar.total += content.num_bytes

    stale = [folder / name for name in _removable(files, found, todo)]
    _check_room(folder, stale, sum(content.shard.num_bytes for content in todo))
    if dry_run:
        there = found.whole | {content.filename for content in own}
        texts = {name: name in found.whole for name in files.texts}
    else:
        folder.mkdir(parents=True, exist_ok=True)
        remove_stale(folder, _spared(contents, own, rank))
        for path in stale:
            path.unlink(missing_ok=True)
        for content in todo:
            path = folder / content.filename
            is_free = partial(_check_free, path, content)
            with partial_file(path, fsync=fsync, check=is_free) as descriptor:
                content.write(descriptor, threads, bar.advance, fsync=fsync)
            bar.finish(content)
        there, texts = _finish(folder, files, own, overwrite, fsync)

    sizes, made = files.sizes, {content.filename for content in todo}
    kept = {content.filename: content.filename not in made for content in own} | texts
    return Report(
        folder=folder,
        files=tuple(File(name, sizes[name], kept[name]) for name in kept),
        missing=tuple(each.filename for each in contents if each.filename not in there),
        num_parameters=plan.num_parameters,
        num_bytes=plan.num_bytes,
        recipe=files.recipe,
        rank=rank,
        world_size=world_size,
        notes=tuple(notes),
        seconds=time.perf_counter() - started,
    )


class _Bar:
    """Bytes done before and within the file at hand, for the caller's progress."""

    def __init__(self, total: int, progress: Callable[[int, int], object] | None) -> None:
        self.total = total
        self._before = 0
        self._progress = progress

    def advance(self, done: int) -> None:
        if self._progress is not None:
            self._progress(self._before + done, self.total)

    def finish(self, content: ShardContent) -> None:
        self._before += content.num_bytes


def _refuse(conflicts: dict[str, str], folder: Path) -> None:
    if conflicts:
        raise CheckpointError(
            f"{folder} holds something else: {'; '.join(conflicts.values())}. "
            "Choose another folder, or replace it with --overwrite (overwrite=True)"
        )


def _idle(own: Sequence[ShardContent], every: Sequence[ShardContent], processes: int) -> list[str]:
    if own or processes == 1:
        return []
    files = "there is 1 file" if len(every) == 1 else f"there are {len(every)} files"
    return [
        f"nothing to write for this process: {files} for {processes} processes;"
        " a smaller max_shard_size makes more"
    ]


def _damage(folder: Path, content: ShardContent, threads: int, bar: _Bar) -> str:
    """Say how a file differs from what is sampled again; empty if it does not."""
    with open(folder / content.filename, "rb") as file:
        try:
            reason = str(content.first_difference(file.fileno(), threads, bar.advance) or "")
        except FileTooShortError as error:
            reason = f"it {error}"
    bar.finish(content)
    return reason


def _removable(files: CheckpointFiles, found: Found, todo: Sequence[ShardContent]) -> list[str]:
    """Names of files to remove, the index first: those to be written, and those of nobody here.

    An index that another process has just written may be among them. It is written again by this
    process then, which ends by looking for it.
    """
    others = {shard.filename for shard in files.shards} - {content.filename for content in todo}
    bad = found.whole & {content.filename for content in todo}
    names = {*found.conflicts, *found.damaged, *bad}
    return sorted(names - others, key=lambda name: (name != INDEX, name))


def _check_free(path: Path, content: ShardContent) -> None:
    """Raise CheckpointError if something else lies there, though this run removed what did."""
    with contextlib.suppress(FileNotFoundError):
        if not is_whole(path, content.shard):
            raise CheckpointError(
                f"{path.parent}: another process has written another {path.name} meanwhile"
            )


def _spared(
    contents: Sequence[ShardContent], own: Sequence[ShardContent], rank: int
) -> Callable[[str], bool]:
    """Tell whose temporary files are another process's business, on file systems without locks."""
    mine = {content.filename for content in own}
    names = {content.filename for content in contents}
    return lambda name: name not in mine and (rank > 0 or name in names)


def _finish(
    folder: Path,
    files: CheckpointFiles,
    own: Sequence[ShardContent],
    overwrite: bool,
    fsync: bool,
) -> tuple[set[str], dict[str, bool]]:
    """Write the config, and the index if all files are there.

    Returns the names of all whole files, and of these two those there are now: kept or not.
    """
    found = survey(folder, files)
    if not overwrite:
        _refuse(found.conflicts, folder)  # others write here, and something else
    for content in own:
        if content.filename not in found.whole:
            raise CheckpointError(
                f"{folder}: another process has removed or replaced {content.filename} meanwhile"
            )
    complete = all(shard.filename in found.whole for shard in files.shards)
    texts = {}
    for name, text in files.texts.items():
        if name == INDEX and not complete:
            continue
        texts[name] = name in found.whole
        if not texts[name]:
            with (
                partial_file(folder / name, fsync=fsync) as descriptor,
                open(descriptor, "wb", closefd=False) as file,
            ):
                file.write(text)
    return found.whole, texts


def _check_room(folder: Path, stale: Sequence[Path], needed: int) -> None:
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    system = os.statvfs(existing)
    if system.f_blocks == 0:  # not every file system can tell
        return
    freed = 0
    for path in stale:
        with contextlib.suppress(FileNotFoundError):  # another process has removed it
            link = path.lstat()
            freed += 512 * link.st_blocks if link.st_nlink == 1 else 0
    free = system.f_bavail * system.f_frsize + freed
    if needed > free:
        reason = f"not enough space: {needed:,} bytes are needed, {free:,} are free"
        raise OSError(errno.ENOSPC, reason, str(folder))
