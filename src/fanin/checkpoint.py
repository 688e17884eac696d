"""Writes a plan as a checkpoint: safetensors files, `config.json`, and the index of several files.

The core samples every tensor in small blocks and writes them in place with all threads; no tensor
is ever in memory. (One that cannot be made in blocks is, a band at a time: `banded_tensors`.) Every
file appears only when it is whole and the index comes last, so that no reader takes an unfinished
checkpoint for a finished one, and a second run of the same recipe does what the first one did not.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fanin.banded_tensors import BandedTensor, write_banded
from fanin.checkpoint_files import INDEX, checkpoint_files
from fanin.partial_file import partial_file, remove_stale
from fanin.resume import survey
from fanin.safetensors_layout import DEFAULT_MAX_SHARD_SIZE, Shard
from fanin.streams import position
from fanin.threads import thread_count

if TYPE_CHECKING:
    from fanin import _core
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
    files: tuple[File, ...]
    num_parameters: int
    num_bytes: int  # of all tensors
    recipe: dict[str, Any]
    notes: tuple[str, ...]
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            **vars(self),
            "folder": str(self.folder),
            "files": [vars(file) for file in self.files],
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
    progress : callable, optional
        Called from time to time with the bytes done and the bytes to do.

    Returns
    -------
    Report
        The files, and which of them were kept.

    Raises
    ------
    CheckpointError
        If the folder holds a checkpoint or a config of another recipe, and `overwrite` is false.
    ValueError
        If a tensor cannot be written: its name, or no value of the dtype fits its initializer.
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
    if not os.fspath(output):
        raise ValueError("output is an empty path")
    folder = Path(output)
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "the output is not a folder", str(folder))

    files = checkpoint_files(plan, max_shard_size)
    found = survey(folder, files)
    if found.conflicts and not overwrite:
        raise CheckpointError(
            f"{folder} holds something else: {'; '.join(found.conflicts.values())}. "
            "Choose another folder, or replace it with --overwrite (overwrite=True)"
        )
    missing = [shard for shard in files.shards if shard.filename not in found.whole]
    contents = [_content(shard, plan.seed) for shard in missing]  # checks every initializer

    stale = [folder / name for name in (*found.conflicts, *found.damaged)]
    _check_room(folder, stale, sum(shard.num_bytes for shard in missing))
    if not dry_run:
        folder.mkdir(parents=True, exist_ok=True)
        remove_stale(folder)
        for path in sorted(stale, key=lambda path: path.name != INDEX):  # the index first
            path.unlink()
        _write_shards(folder, contents, threads, progress)
        for name, text in files.texts.items():
            if name not in found.whole:
                with partial_file(folder / name) as descriptor:
                    _write_bytes(descriptor, text)

    return Report(
        folder=folder,
        files=tuple(File(name, size, name in found.whole) for name, size in files.sizes.items()),
        num_parameters=plan.num_parameters,
        num_bytes=plan.num_bytes,
        recipe=files.recipe,
        notes=files.notes,
        seconds=time.perf_counter() - started,
    )


@dataclass(frozen=True)
class _Content:
    """What a shard holds: tensors for the core, with samplers for their parts, and the others."""

    shard: Shard
    sampled: list[tuple[int, tuple[int, ...], list[_core.Part]]]
    banded: list[BandedTensor]


def _content(shard: Shard, seed: int) -> _Content:
    from fanin import _core
    from fanin.initializers.elementwise import ElementwiseFiller

    content = _Content(shard, [], [])
    for entry, offset in zip(shard.entries, shard.offsets, strict=True):
        tensor = entry.tensor
        fillers = [
            initializer.filler(part.shape, part.layout, part.groups, entry.dtype)
            for part, initializer in zip(tensor.parts, entry.initializers, strict=True)
        ]
        positions = [position(seed, part.name) for part in tensor.parts]
        parts = [
            _core.Part(
                filler.sampler,
                place,
                part.shape,
                part.start,
                part.extent,
                part.tensor_start,
                part.tensor_step,
            )
            for part, filler, place in zip(tensor.parts, fillers, positions, strict=True)
            if isinstance(filler, ElementwiseFiller)
        ]
        if len(parts) == len(tensor.parts):
            content.sampled.append((offset, tensor.shape, parts))
        else:
            content.banded.append(
                BandedTensor(offset, entry.dtype, tensor, tuple(fillers), tuple(positions))
            )
    return content


def _check_room(folder: Path, stale: Sequence[Path], needed: int) -> None:
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    system = os.statvfs(existing)
    if system.f_blocks == 0:  # not every file system can tell
        return
    links = [path.lstat() for path in stale]
    freed = sum(512 * link.st_blocks for link in links if link.st_nlink == 1)
    free = system.f_bavail * system.f_frsize + freed
    if needed > free:
        reason = f"not enough space: {needed:,} bytes are needed, {free:,} are free"
        raise OSError(errno.ENOSPC, reason, str(folder))


def _write_shards(
    folder: Path,
    contents: Sequence[_Content],
    threads: int,
    progress: Callable[[int, int], object] | None,
) -> None:
    from fanin import _core

    total = sum(_data_bytes(content.shard) for content in contents)
    before = 0

    def advance(done: int) -> None:
        if progress is not None:
            progress(before + done, total)

    for content in contents:
        with partial_file(folder / content.shard.filename) as descriptor:
            _write_bytes(descriptor, content.shard.header)
            end = before + _data_bytes(content.shard)
            _core.write_tensors(descriptor, content.sampled, threads, advance)
            before = end - sum(banded.num_bytes for banded in content.banded)
            write_banded(descriptor, content.banded, threads, advance)
        before = end


def _data_bytes(shard: Shard) -> int:
    return shard.num_bytes - len(shard.header)


def _write_bytes(descriptor: int, content: bytes) -> None:
    with open(descriptor, "wb", closefd=False) as file:
        file.write(content)
