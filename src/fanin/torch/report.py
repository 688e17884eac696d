"""What `initialize_` did: a row for every parameter and buffer, once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fanin.diagnose import Finding

__all__ = ["InitializationError", "Report", "Row"]


class InitializationError(ValueError):
    """A module cannot be initialized as it is: nothing has been written.

    Attributes
    ----------
    never : tuple of str
        Tensors that the model's config describes and the module does not hold.
    twice : tuple of str
        Parameters that share a part of their memory.
    unmatched : tuple of str
        Parameters that no rule covers.
    """

    def __init__(
        self,
        module: str,
        *,
        never: Sequence[str] = (),
        twice: Sequence[str] = (),
        unmatched: Sequence[str] = (),
    ) -> None:
        self.never, self.twice, self.unmatched = tuple(never), tuple(twice), tuple(unmatched)
        told = {
            "never (the config describes them, the module does not hold them)": self.never,
            "twice (they share a part of their memory)": self.twice,
            "unmatched (no rule: pass overrides={pattern: initializer}, or skip)": self.unmatched,
        }
        lines = [f"  {what}: {', '.join(names)}" for what, names in told.items() if names]
        super().__init__("\n".join([f"{module} cannot be initialized:", *lines]))


@dataclass(frozen=True)
class Row:
    """One parameter or buffer.

    Attributes
    ----------
    name : str
        Qualified name, without wrappers.
    kind : {"parameter", "buffer"}
    shape : tuple of int
        The global shape.
    dtype : str
    action : {"filled", "tied", "kept", "recomputed", "left"}
        `kept` was asked for (loaded, `only=`, `skip=`, or there is nothing in it); `left` is a
        buffer that nothing here can compute, which still holds what it held.
    detail : str
        The initializer; the tensor it is tied to; why it was kept.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    dtype: str
    action: str
    detail: str = ""


@dataclass(frozen=True)
class Report:
    """Every parameter and buffer of a module, in its order; prints as a table.

    `warnings` are those of a plan (`Plan.warnings`): what is probably wrong with what was chosen.
    """

    module: str  # its class
    scheme: str
    seed: int
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()  # what the scheme asks for beside the weights
    learning_rates: Mapping[str, float] = field(default_factory=dict)  # mup's factors, by name
    warnings: tuple[Finding, ...] = ()

    def named(self, action: str) -> list[str]:
        """Return the names of the rows with an action."""
        return [row.name for row in self.rows if row.action == action]

    def __str__(self) -> str:
        """Return the rows as text, then warnings, then how many there are of each action."""
        cells = [("name", "kind", "shape", "dtype", "action", "")]
        cells += [
            (row.name, row.kind, " x ".join(map(str, row.shape)), row.dtype, row.action, row.detail)
            for row in self.rows
        ]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]
        lines.insert(1, "  ".join("-" * width for width in widths))
        actions = dict.fromkeys(row.action for row in self.rows)
        lines += [f"warning: {warning}" for warning in self.warnings]
        lines += [f"note: {note}" for note in self.notes]
        counts = ", ".join(f"{len(self.named(action))} {action}" for action in actions)
        lines.append(f"{self.module}, scheme {self.scheme}, seed {self.seed}: {counts or 'empty'}")
        return "\n".join(lines)
