"""The checks of a plan: parts cover their tensor exactly, and no two matrices share a draw.

Cover: every part lies inside its tensor, no two of them share an element, and together they have
as many elements as the tensor. Draws: a matrix is an interval of the generator's cycle, which
starts at the hash of its name; sorted by start, each must end before the next one begins. Two of
them overlap by chance (about matrices x draws / 2**64), and another seed then helps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, NamedTuple

from fanin.model import UNKNOWN, Part, Tensor, numberless
from fanin.streams import PERIOD, position

if TYPE_CHECKING:
    from fanin.initializers import Initializer
    from fanin.plan import Entry

__all__ = ["check_cover", "check_draws", "without_rule"]

MAX_BYTES = 2**63 - 1


class Place(NamedTuple):
    """Where a part lies, and in what matrix: all that the cover depends on."""

    shape: tuple[int, ...]
    start: tuple[int, ...]
    extent: tuple[int, ...]
    tensor_start: tuple[int, ...]
    tensor_step: tuple[int, ...]

    def axes(self) -> list[range]:
        """Indices in the tensor that the part takes, axis by axis."""
        lattice = zip(self.tensor_start, self.tensor_step, self.extent, strict=True)
        return [range(first, first + step * size, step) for first, step, size in lattice]


def check_cover(tensor: Tensor) -> None:
    """Raise ValueError unless each element of the tensor belongs to exactly one part."""
    places = tuple(
        Place(part.shape, part.start, part.extent, part.tensor_start, part.tensor_step)
        for part in tensor.parts
    )
    if problem := _cover_problem(tensor.shape, places):
        raise ValueError(f"{tensor.name}: {problem}")


def without_rule(parts: Sequence[Part], scheme: str) -> str:
    """Return the error that names all parts for which a scheme has no rule, by role."""
    named: dict[tuple[str, str], int] = {}
    for part in parts:
        key = (part.role, part.name if len(parts) == 1 else numberless(part.name))
        named[key] = named.get(key, 0) + 1
    told = [
        f"{name}{f' ({count} of them)' if count > 1 else ''}: "
        + (_NOTHING if role == UNKNOWN else f"scheme {scheme!r} has no rule for {role!r}")
        for (role, name), count in named.items()
    ]
    return "; ".join(told) + "; set one, as in --set 'PATTERN=INITIALIZER'"


_NOTHING = "nothing says what it starts from"


def check_draws(entries: Sequence[Entry], seed: int) -> None:
    """Raise ValueError if a dtype cannot hold an initializer, or two matrices share a draw."""
    owners: dict[str, str] = {}
    draws: dict[str, int] = {}
    for entry in entries:
        tensor = entry.tensor
        if entry.num_bytes > MAX_BYTES:
            raise ValueError(f"{tensor.name}: shape {tensor.shape} is larger than 2**63 bytes")
        for part, initializer in zip(tensor.parts, entry.initializers, strict=True):
            if owners.setdefault(part.name, tensor.name) != tensor.name:
                raise ValueError(
                    f"{owners[part.name]} and {tensor.name} share the name {part.name!r}"
                )
            needed = _draws(part, initializer, entry.dtype)
            draws[part.name] = max(draws.get(part.name, 0), needed)
    starts = sorted((position(seed, name), name) for name, needed in draws.items() if needed)
    again = [(start + PERIOD, name) for start, name in starts[:1]]  # the first, one turn later
    for (start, name), (following, other) in pairwise(starts + again):
        if start + draws[name] > following:
            raise ValueError(
                f"seed {seed} gives {name} and {other} overlapping draws: choose another seed"
            )


def _draws(part: Part, initializer: Initializer, dtype: str) -> int:
    if part.layout is None and initializer.uses_layout:
        what = "is a vector" if len(part.shape) == 1 else "is a table without fans"
        raise ValueError(
            f"{part.name}: {initializer} needs a matrix, but this {what} of shape"
            f" {part.shape}: choose a pattern that leaves it out, or another initializer"
        )
    try:
        return initializer.filler(part.shape, part.layout, part.groups, dtype).draws
    except ValueError as error:
        raise ValueError(f"{part.name}: {initializer}: {error}") from None


@lru_cache(maxsize=4096)
def _cover_problem(tensor_shape: tuple[int, ...], places: tuple[Place, ...]) -> str | None:
    for place in places:
        if {len(axes) for axes in place} != {len(tensor_shape)}:
            return f"{place} does not have as many axes as {tensor_shape}"
        if not all(map(_inside, place.start, place.extent, place.shape)):
            return f"{place} reaches outside its matrix"
        spans = (
            step * (n - 1) + 1 for step, n in zip(place.tensor_step, place.extent, strict=True)
        )
        if min(place.tensor_step, default=1) < 1 or not all(
            map(_inside, place.tensor_start, spans, tensor_shape)
        ):
            return f"{place} reaches outside the tensor, of shape {tensor_shape}"
    if (pair := _sharing(places)) is not None:
        return f"{pair[0]} and {pair[1]} share elements"
    covered, size = sum(math.prod(place.extent) for place in places), math.prod(tensor_shape)
    return None if covered == size else f"its parts cover {covered} of its {size} elements"


def _sharing(places: Sequence[Place]) -> tuple[Place, Place] | None:
    """Two places with an element in common, or None.

    Places that lie apart on an axis are not compared: a stack of experts, or the bands of many
    heads, fall into small groups, and only inside of a group all pairs are.
    """
    waiting = [list(places)]
    while waiting:
        group = waiting.pop()
        if len(group) < 2:
            continue
        splits = (_apart(group, axis) for axis in range(len(group[0].extent)))
        if (groups := next((split for split in splits if len(split) > 1), None)) is not None:
            waiting += groups
            continue
        for one, other in combinations(group, 2):
            if not any(map(_disjoint, one.axes(), other.axes())):
                return one, other
    return None


def _apart(places: list[Place], axis: int) -> list[list[Place]]:
    """Cut places where nothing on an axis reaches from those before to those after."""
    groups: list[list[Place]] = []
    reach = -1
    for place in sorted(places, key=lambda place: place.tensor_start[axis]):
        if place.tensor_start[axis] > reach:
            groups.append([])
        groups[-1].append(place)
        reach = max(reach, place.axes()[axis][-1])
    return groups


def _inside(start: int, size: int, end: int) -> bool:
    return 0 <= start < start + size <= end


def _disjoint(one: range, other: range) -> bool:
    """True if two ascending ranges have no number in common (Chinese remainder theorem)."""
    common = math.gcd(one.step, other.step)
    gap = other.start - one.start
    if gap % common:
        return True
    period = one.step // common * other.step
    steps = gap // common * pow(one.step // common, -1, other.step // common)
    meeting = one.start + one.step * steps
    low, high = max(one.start, other.start), min(one[-1], other[-1])
    return low + (meeting - low) % period > high
