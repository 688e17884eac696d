"""What a shard holds beside its header: sampled into a file, or compared with one.

The core samples every tensor in small blocks on all threads, and writes each in place or compares
it with what it reads there: no tensor is ever in memory. (One that cannot be made in blocks is, a
band at a time: `banded_tensors`.)
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fanin.checkpoint.banded_tensors import BandedTensor, Box, compare_banded, write_banded
from fanin.checkpoint.difference import Difference, element_index
from fanin.checkpoint.safetensors_layout import Shard
from fanin.streams import position

if TYPE_CHECKING:
    from fanin import _core
    from fanin.plan import Entry

__all__ = ["FileTooShortError", "ShardContent", "banded_tensor", "shard_content"]


class FileTooShortError(ValueError):
    """A file that ends before its last tensor does."""


@dataclass(frozen=True)
class ShardContent:
    """The tensors of a shard, each ready to be made; all initializers are checked."""

    shard: Shard
    entries: list[Entry]  # of the sampled ones
    sampled: list[tuple[int, tuple[int, ...], list[_core.Part]]]
    banded: list[BandedTensor]

    @property
    def filename(self) -> str:
        """Name of the file."""
        return self.shard.filename

    @property
    def num_bytes(self) -> int:
        """Bytes of the tensors."""
        return self.shard.num_bytes - len(self.shard.header)

    def write(
        self, descriptor: int, threads: int, progress: Callable[[int], object], *, fsync: bool
    ) -> None:
        """Write header and tensors; `progress` is called with the bytes of tensors so far.

        The caller will or will not `fsync`; if so, the disk is set to work at once.
        """
        from fanin import _core

        with open(descriptor, "wb", closefd=False) as file:
            file.write(self.shard.header)
        _core.write_tensors(descriptor, self.sampled, threads, fsync, progress)
        before = self._sampled_bytes
        write_banded(descriptor, self.banded, threads, lambda done: progress(before + done))

    def first_difference(
        self, descriptor: int, threads: int, progress: Callable[[int], object]
    ) -> Difference | None:
        """Compare the tensors with a file; the first element, as they lie there, that differs.

        Raises
        ------
        FileTooShortError
            The file ends too early, perhaps since a moment ago.
        """
        from fanin import _core

        try:
            found = _core.compare_tensors(descriptor, self.sampled, threads, progress)
        except OSError as error:
            if error.errno == errno.ENODATA and _size(descriptor) < self.shard.num_bytes:
                raise FileTooShortError(_too_short(descriptor, self.shard.num_bytes)) from None
            raise
        difference, limit = None, self.shard.num_bytes
        if found is not None:
            number, element, there, here = found
            limit = self.sampled[number][0]
            difference = _difference(self.entries[number], element, there, here)
        before = self._sampled_bytes
        for banded in self.banded:
            if banded.offset > limit:
                break
            if difference_there := compare_one(descriptor, banded, threads):
                return difference_there
            before += banded.num_bytes
            progress(before)
        return difference

    @property
    def _sampled_bytes(self) -> int:
        return self.num_bytes - sum(banded.num_bytes for banded in self.banded)


def compare_one(
    descriptor: int, banded: BandedTensor, threads: int, box: Box | None = None
) -> Difference | None:
    """Compare one tensor, or a box of it, with a file, in bands."""
    try:
        found = compare_banded(descriptor, banded, threads, box)
    except EOFError:
        end = banded.offset + banded.num_bytes
        raise FileTooShortError(_too_short(descriptor, end)) from None
    if found is None:
        return None
    element, there, here = found
    index = element_index(element, banded.tensor.shape)
    return Difference(banded.tensor.name, index, banded.dtype, there, here)


def shard_content(shard: Shard, seed: int) -> ShardContent:
    """Make every tensor of a shard ready; ValueError if no value of its dtype fits."""
    from fanin import _core
    from fanin.initializers.elementwise import ElementwiseFiller

    content = ShardContent(shard, [], [], [])
    for entry, offset in zip(shard.entries, shard.offsets, strict=True):
        banded = banded_tensor(entry, offset, seed)
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
            for part, filler, place in zip(
                entry.tensor.parts, banded.fillers, banded.positions, strict=True
            )
            if isinstance(filler, ElementwiseFiller)
        ]
        if len(parts) == len(entry.tensor.parts):
            content.entries.append(entry)
            content.sampled.append((offset, entry.tensor.shape, parts))
        else:
            content.banded.append(banded)
    return content


def banded_tensor(entry: Entry, offset: int, seed: int) -> BandedTensor:
    """Return a tensor with what fills it."""
    fillers = tuple(
        initializer.filler(part.shape, part.layout, part.groups, entry.dtype)
        for part, initializer in zip(entry.tensor.parts, entry.initializers, strict=True)
    )
    positions = tuple(position(seed, part.name) for part in entry.tensor.parts)
    return BandedTensor(offset, entry.dtype, entry.tensor, fillers, positions)


def _difference(entry: Entry, element: int, there: bytes, here: bytes) -> Difference:
    index = element_index(element, entry.tensor.shape)
    return Difference(entry.tensor.name, index, entry.dtype, there, here)


def _size(descriptor: int) -> int:
    return os.fstat(descriptor).st_size


def _too_short(descriptor: int, due: int) -> str:
    return f"has {_size(descriptor):,} bytes, {due:,} are due"
