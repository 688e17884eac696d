"""A file that appears only when it is whole.

The bytes go into a temporary file in the same folder; leaving the `with` block normally flushes
it to the disk and renames it, leaving it by any exception (Ctrl-C and a full disk included)
removes it. A process that is killed can do neither: what it leaves behind is recognized by its
name, and by the lock that died with its writer, so that `remove_stale` never takes a file from a
process that is still at work.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

# Begins with a dot and does not end in .safetensors: no reader takes it for a shard.
_TEMPORARY = re.compile(r"\.((?:model|config).*)\.[0-9a-f]{8}\.fanin-partial")


@contextlib.contextmanager
def partial_file(
    path: Path, *, fsync: bool = True, check: Callable[[], object] = lambda: None
) -> Iterator[int]:
    """Open a temporary file for `path`, yield its descriptor, rename it when the block ends well.

    Errors of the system are raised with `path` as their file name. Without `fsync` the name may
    reach the disk before the bytes do, and a power failure leave a file that is not whole. `check`
    is called last before the renaming, and may raise to leave alone what lies under the name.
    """
    temporary, descriptor = _create(path)
    try:
        try:
            yield descriptor
            if fsync:
                os.fsync(descriptor)
            check()
            os.rename(temporary, path)
        except OSError as error:
            raise OSError(error.errno, error.strerror, os.fspath(path)) from error
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)
    if fsync:
        _sync_folder(path.parent)


def remove_stale(folder: Path, spared: Callable[[str], bool] = lambda name: False) -> None:
    """Remove the temporary files whose writer is gone, except those for a name that is `spared`."""
    for path in folder.iterdir():
        temporary = _TEMPORARY.fullmatch(path.name)
        if temporary is None or spared(temporary[1]):
            continue
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
            finally:
                os.close(descriptor)


def _create(path: Path) -> tuple[Path, int]:
    while True:
        temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}.fanin-partial")
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            descriptor = os.open(temporary, flags, 0o666)
        except FileExistsError:
            continue
        except OSError as error:
            raise OSError(error.errno, error.strerror, os.fspath(path)) from error
        # Where a file system has no locks, nobody can lock the file to remove it either.
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_nlink:
            return temporary, descriptor
        os.close(descriptor)  # a cleaner took it between the two calls


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # not every file system can
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
