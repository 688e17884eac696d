"""A plan: every tensor of a model with its initializers, checked before anything is filled.

The checks are the promise "never zero times, never twice": the parts of each tensor cover it
exactly, each part has an initializer that the dtype can hold, each override matches something that
is stored, and no two matrices share a draw of the generator's cycle.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fanin import _core, schemes
from fanin.initializers import Initializer
from fanin.initializers.elementwise import Elementwise
from fanin.model import PADDING, Model, Part, Tensor
from fanin.output import dtype_name, itemsize, view
from fanin.plan.checks import check_cover, check_draws, without_rule
from fanin.plan.comparison import ADVICE, rms_ratios
from fanin.plan.joined_parts import fill_parts
from fanin.plan.overrides import Override, Overrides, overriding, read_overrides
from fanin.plan.part_texts import initializer_text
from fanin.plan.quantization import SCALED_DTYPES, with_scales
from fanin.plan.tensor_dtypes import DtypeRule, Dtypes, dtype_of, literal, read_dtypes
from fanin.rules import initializer_of
from fanin.streams import check_seed

if TYPE_CHECKING:
    from fanin.diagnose import Finding

__all__ = ["Entry", "Plan", "make_plan"]


@dataclass(frozen=True)
class Entry:
    """A tensor with the dtype it is stored in and an initializer for each of its parts."""

    tensor: Tensor
    dtype: str
    initializers: tuple[Initializer, ...]

    @property
    def num_bytes(self) -> int:
        """Size of the tensor's data."""
        return self.tensor.numel * itemsize(self.dtype)

    @property
    def visible(self) -> list[tuple[Part, Initializer]]:
        """The parts that say what the tensor is: all but a padding row, if there are others."""
        pairs = list(zip(self.tensor.parts, self.initializers, strict=True))
        return [pair for pair in pairs if pair[0].role != PADDING] or pairs

    @property
    def initializer(self) -> str:
        """The initializer as text; where the parts differ, each with its name."""
        return initializer_text(self.visible)

    @property
    def std(self) -> float:
        """The standard deviation, pooled over the parts: the root of their mean variance."""
        pairs = [(part, _std(initializer, part)) for part, initializer in self.visible]
        if len({std for _, std in pairs}) == 1:
            return pairs[0][1]
        total = sum(part.numel for part, _ in pairs)
        return math.sqrt(math.fsum(part.numel / total * std**2 for part, std in pairs))

    def fill(
        self,
        out: Any,
        *,
        seed: int,
        box: tuple[slice, ...] | None = None,
        threads: int | None = None,
    ) -> None:
        """Fill an array in memory, part by part, with the bits that a checkpoint has.

        Parameters
        ----------
        out : array
            NumPy array or torch CPU tensor with the shape of the tensor, or of the box.
        seed : int
            From 0 to 2**64 - 1.
        box : tuple of slice, optional
            Start and stop in the tensor, axis by axis, of what `out` holds: a shard. Default: all.
        threads : int, optional
            Default: the environment's number, or the CPUs there are.
        """
        box = box or tuple(slice(0, size) for size in self.tensor.shape)
        if len(self.tensor.parts) > 1:  # none of which is one piece of memory
            _prepare_memory(out)
        parts, initializers = self.tensor.parts, self.initializers

        def fill(number: int, array: Any, region: tuple[slice, ...]) -> None:
            part = parts[number]
            initializers[number].fill(
                array,
                seed=seed,
                name=part.name,
                layout=part.layout,
                groups=part.groups,
                shape=part.shape,
                region=region,
                threads=threads,
            )

        as_a_whole = [not isinstance(each, Elementwise) for each in initializers]
        fill_parts(out, box, parts, as_a_whole, self.dtype, fill)

    def to_json(self) -> dict[str, Any]:
        """Return the tensor as JSON values; more than one part is listed under `parts`."""
        content: dict[str, Any] = {
            "name": self.tensor.name,
            "shape": list(self.tensor.shape),
            "dtype": self.dtype,
            "role": self.tensor.role,
            "layout": self.tensor.layout,
            "initializer": self.initializer,
            "std": self.std,
        }
        if len(self.tensor.parts) > 1:
            content["parts"] = [
                {
                    "name": part.name,
                    "role": part.role,
                    "start": list(part.tensor_start),
                    "shape": list(part.extent),
                    "initializer": str(initializer),
                    "std": _std(initializer, part),
                }
                for part, initializer in zip(self.tensor.parts, self.initializers, strict=True)
            ]
        return content


@dataclass(frozen=True)
class Plan:
    """What `fanin init` writes: made, and checked, by `make_plan`."""

    model: Model
    scheme: str
    seed: int
    dtype: str
    overrides: tuple[Override, ...]
    entries: tuple[Entry, ...]
    dtypes: tuple[DtypeRule, ...] = ()

    @property
    def num_parameters(self) -> int:
        """Number of parameters, tied ones counted once."""
        return self.model.num_parameters

    @cached_property
    def num_bytes(self) -> int:
        """Size of all tensors' data, without file headers."""
        return sum(entry.num_bytes for entry in self.entries)

    @cached_property
    def learning_rates(self) -> dict[str, float]:
        """Factors of Adam's learning rate by tensor, if the scheme has some (mup)."""
        return schemes.learning_rates(self.scheme, self.model)

    @cached_property
    def notes(self) -> list[str]:
        """What is to be known of the model, and what the scheme asks for beside these weights."""
        notes = [*self.model.notes, *schemes.notes(self.scheme, self.model)]
        by_factor: dict[float, dict[str, None]] = {}
        for entry in self.entries:
            factor = self.learning_rates.get(entry.tensor.name, 1.0)
            by_factor.setdefault(factor, {})[entry.tensor.role] = None
        if self.learning_rates:
            told = [f"{factor:.6g} for {', '.join(roles)}" for factor, roles in by_factor.items()]
            notes.append(f"Adam's learning rate times {'; '.join(told)}")
        return notes

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """What the checks of `fanin.diagnose` find: warnings first, then notes."""
        from fanin import diagnose

        return diagnose.findings(self)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """What is probably wrong with what was chosen.

        Examples
        --------
        >>> from fanin import families
        >>> from fanin.plan import make_plan
        >>> model = families.build({"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4})
        >>> plan = make_plan(model, overrides=[("*.mlp.c_proj.weight", "ones")])
        >>> warning, = plan.warnings
        >>> warning.kind, warning.tensors, warning.count, warning.value
        ('symmetry', ('transformer.h.*.mlp.c_proj.weight',), 2, 1.0)
        >>> make_plan(model).warnings
        ()
        """
        return tuple(each for each in self.findings if each.level == "warning")

    @property
    def _published(self) -> tuple[Finding, ...]:
        """Findings about what the architecture's own code does."""
        return tuple(each for each in self.findings if each.level == "note")

    def to_json(self, against: Plan | None = None) -> dict[str, Any]:
        """Return the plan as JSON values; with notes and learning rates if there are some.

        With another plan of the model, each tensor has its RMS over what it is there; None if it is
        0 there only.
        """
        content: dict[str, Any] = {
            "num_parameters": self.num_parameters,
            "num_bytes": self.num_bytes,
            "tensors": [entry.to_json() for entry in self.entries],
        }
        if self.learning_rates:
            for tensor in content["tensors"]:
                tensor["learning_rate"] = self.learning_rates.get(tensor["name"], 1.0)
        if notes := [*self.notes, *map(str, self._published)]:
            content["notes"] = notes
        if against is not None:
            ratios = rms_ratios(self, against)
            content["against"] = against.scheme
            for tensor in content["tensors"]:
                ratio = ratios[tensor["name"]]
                tensor["rms_ratio"] = ratio if math.isfinite(ratio) else None
        content["warnings"] = [warning.to_json() for warning in self.warnings]
        return content

    def table(self, against: Plan | None = None) -> str:
        """Return the plan as text: a row a tensor, then padding rows and ties, then the totals.

        With another plan of the model, a column has each tensor's RMS over what it is there.
        """
        ratios = {} if against is None else rms_ratios(self, against)
        extra = [] if against is None else [f"/ {against.scheme}"]
        rows = [("tensor", "shape", "dtype", "role", "initializer", "std", *extra)]
        rows += [
            (
                entry.tensor.name,
                " x ".join(map(str, entry.tensor.shape)),
                entry.dtype,
                entry.tensor.role,
                entry.initializer,
                f"{entry.std:.6g}",
                *([f"{ratios[entry.tensor.name]:.4g}"] if ratios else []),
            )
            for entry in self.entries
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        lines.insert(1, "  ".join("-" * width for width in widths))
        lines += [
            f"{part.name} has a padding row, number {part.start[0]}: zeros"
            for entry in self.entries
            for part in entry.tensor.parts
            if part.role == PADDING
        ]
        lines += [f"{alias} is tied to {stored}" for alias, stored in self.model.tied.items()]
        lines += [f"note: {note}" for note in (*self.notes, *self._published)]
        lines.append(
            f"{self.model.architecture}, scheme {self.scheme}, seed {self.seed}:"
            f" {self.num_parameters:,} parameters in {len(self.entries)} tensors,"
            f" {self.num_bytes:,} bytes"
        )
        if against is not None:
            lines.append(f"/ {against.scheme}: RMS over that of scheme {against.scheme}; {ADVICE}")
        return "\n".join(lines)


def make_plan(
    model: Model,
    *,
    scheme: str = "auto",
    seed: int = 0,
    dtype: str | None = None,
    overrides: Overrides = (),
    dtypes: Dtypes = (),
) -> Plan:
    """Return the checked plan of a model.

    Parameters
    ----------
    model : Model
    scheme : str, default "auto"
        A name in `fanin.schemes.SCHEMES`, with options or without: `mup(base_width=256)`.
    seed : int, default 0
        From 0 to 2**64 - 1.
    dtype : str, optional
        Of every tensor that does not need another one. Default: the config's, or float32. With
        the scheme `dummy`, float8 is for linear layers, which have scales (`plan.quantization`).
    overrides : mapping or iterable of (pattern, initializer), optional
        Each pattern is a shell-style glob over names of tensors and of their parts (a fused
        `c_attn.weight` has the parts `c_attn.weight#query` ...). The last that matches decides.
        A padding row stays zero.
    dtypes : mapping or iterable of (pattern, dtype), optional
        Dtypes of tensors of their own, by the same kind of patterns over whole tensors' names.

    Raises
    ------
    ValueError
        An unknown scheme, option or dtype, an option that concerns nothing in the model, a pattern
        that matches nothing or a tied name, a part without a rule, numbers that the dtype cannot
        hold, or two matrices whose draws overlap.

    Examples
    --------
    >>> from fanin import families
    >>> from fanin.plan import make_plan
    >>> positions = ("transformer.wpe.weight", "normal(std=0.01)")
    >>> plan = make_plan(families.load("gpt2"), dtype="bfloat16", overrides=[positions])
    >>> plan.num_parameters, plan.num_bytes
    (124439808, 248879616)
    """
    seed = check_seed(seed)
    dtype = dtype_name(model.dtype if dtype is None else dtype)
    parsed = schemes.read(scheme)
    scheme = str(parsed)
    if parsed.name == "dummy" and dtype in SCALED_DTYPES:
        model = with_scales(model, dtype)
    rules = schemes.rules(scheme, model)
    read = read_overrides(overrides, model)
    dtype_rules = read_dtypes(dtypes, model)
    entries, missing = [], []
    for tensor in model.tensors:
        check_cover(tensor)
        found = [overriding(read, tensor, p) or initializer_of(rules, p) for p in tensor.parts]
        pairs = zip(tensor.parts, found, strict=True)
        missing += [part for part, initializer in pairs if initializer is None]
        own = dtype_of(tensor, dtype_rules, dtype)
        initializers = tuple(literal(initializer, own) for initializer in found if initializer)
        entries.append(Entry(tensor, own, initializers))
    if missing:
        raise ValueError(without_rule(missing, scheme))
    check_draws(entries, seed)
    return Plan(model, scheme, seed, dtype, read, tuple(entries), dtype_rules)


def _prepare_memory(out: Any) -> None:
    """Ask for huge pages if `out` is one piece of memory that nobody has touched yet."""
    array, _ = view(out)
    if array.flags.c_contiguous:
        _core.advise_huge_pages(array)


def _std(initializer: Initializer, part: Part) -> float:
    return initializer.standard_deviation(part.shape, part.layout, part.groups)
