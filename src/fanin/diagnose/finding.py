"""What a check of a plan says: of which tensors, by what number, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fanin.diagnose.groups import Group

__all__ = ["Finding"]

_SHOWN = 3
"""Patterns that the text names; `tensors` and JSON have all of them."""


@dataclass(frozen=True)
class Finding:
    """A warning or a note; prints as one line.

    Attributes
    ----------
    kind : str
        Such as `"gain"`, `"fans"`, `"truncation"`, `"first_loss"`; `fanin.diagnose` lists them.
    level : {"warning", "note"}
        A note is about what the published code of an architecture does, which nobody here chose.
    tensors : tuple of str
        Names, with the numbers of blocks and experts as `*`.
    count : int
        How many tensors and parts of tensors these are.
    value : float
        The number that is wrong: a gain, a standard deviation, a loss.
    problem, remedy : str
        In words.
    """

    kind: str
    level: str
    tensors: tuple[str, ...]
    count: int
    value: float
    problem: str
    remedy: str

    @classmethod
    def of(
        cls,
        kind: str,
        groups: Sequence[Group],
        value: float,
        problem: str,
        remedy: str,
        *,
        warning: bool,
    ) -> Finding:
        """Return the finding about groups of tensors."""
        return cls(
            kind=kind,
            level="warning" if warning else "note",
            tensors=tuple(dict.fromkeys(group.pattern for group in groups)),
            count=sum(group.count for group in groups),
            value=value,
            problem=problem,
            remedy=remedy,
        )

    def __str__(self) -> str:
        """Return the tensors, the problem and the remedy."""
        named = ", ".join(self.tensors[:_SHOWN])
        if len(self.tensors) > _SHOWN:
            named += " ..."
        if self.count > 1:
            named += f" ({self.count} tensors)"
        return f"{named}: {self.problem}; {self.remedy}"

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {**vars(self), "tensors": list(self.tensors), "message": str(self)}
