"""A bar of bytes on stderr, for what takes long."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from tqdm import tqdm


class ProgressBar:
    """A bar of bytes on stderr if that is a terminal."""

    _bar: tqdm[NoReturn] | None = None

    def __init__(self, *, shown: bool = True) -> None:
        self._shown = shown and sys.stderr is not None and sys.stderr.isatty()

    def __enter__(self) -> ProgressBar:
        return self

    def show(self, done: int, total: int) -> None:
        """Move it to `done` of `total` bytes."""
        if not self._shown:
            return
        if self._bar is None:
            from tqdm import tqdm

            self._bar = tqdm(total=total, unit="B", unit_scale=True, leave=False)
        self._bar.total = total
        self._bar.update(done - self._bar.n)

    def __exit__(self, *exception: object) -> None:
        if self._bar is not None:
            self._bar.close()
