"""Signals that explode, or branches that vanish, from the predicted depth."""

from __future__ import annotations

import math
from collections.abc import Iterator

from fanin.diagnose.depth import Depth
from fanin.diagnose.finding import Finding
from fanin.diagnose.groups import Group, having

__all__ = ["check"]

DROWNED = 1000.0
"""Growth of the RMS at which the embedding is below the rounding of a bfloat16 stream, 1/256."""

VANISHED = 1e-3
"""Share of the stream at the end that all branches together must have."""


def check(groups: list[Group], depth: Depth | None) -> Iterator[Finding]:
    """Yield the embedding, if it drowns in what the blocks add, or the branches that vanish."""
    if depth is None:
        return
    ends = having(groups, "attention.out", "mlp.out")
    if depth.growth > DROWNED:
        yield Finding.of(
            "depth",
            [*having(groups, "embedding"), *ends],
            depth.growth,
            f"the residual stream is predicted to grow from an RMS of {depth.stream[0]:.3g} to"
            f" {depth.stream[-1]:.3g}, {depth.growth:,.0f} times, and the embedding to be lost in"
            " it",
            "use a larger embedding or smaller matrices at the ends of the branches",
            warning=any(group.origin != "auto" for group in ends),
        )
    added = math.sqrt(math.fsum(each**2 for each in (*depth.attention, *depth.mlp)))
    if 0.0 < added < VANISHED * depth.stream[-1]:
        yield Finding.of(
            "depth",
            ends,
            added / depth.stream[-1],
            f"all {2 * len(depth.mlp)} branches together add {added / depth.stream[-1]:.2g} of the"
            " residual stream: the blocks do next to nothing",
            "use zeros for the ends of the branches, if that is meant, or larger matrices",
            warning=any(group.origin != "auto" for group in ends),
        )
