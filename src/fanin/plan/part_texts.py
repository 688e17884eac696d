"""The initializers of a tensor's parts in one line, however many parts there are.

Where parts differ, each kind of them is named (`query`, or `gate` of all experts), and before them
those that differ from the others of their kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from fanin.initializers import Initializer
from fanin.model import Part

__all__ = ["initializer_text"]


SHOWN = 4
"""Parts that are named one by one, at most."""


def initializer_text(pairs: Sequence[tuple[Part, Initializer]]) -> str:
    """Return the initializers of some parts as text.

    Examples
    --------
    >>> from fanin.families.experts import expert_stack
    >>> from fanin.initializers import parse
    >>> parts = expert_stack("w", (3, 8, 4), ("mlp.gate", "mlp.in"), "boi", outputs=1).parts
    >>> ones, zeros = parse("ones"), parse("zeros")
    >>> initializer_text(list(zip(parts, [ones] * 6)))
    'ones'
    >>> initializer_text(list(zip(parts, [ones, zeros] * 3)))
    'gate=ones, up=zeros'
    >>> initializer_text(list(zip(parts, [ones, zeros] * 2 + [zeros] * 2)))
    '2.gate=zeros, gate=ones, up=zeros'
    """
    texts = [(part, str(initializer)) for part, initializer in pairs]
    if len({text for _, text in texts}) <= 1:
        return texts[0][1] if texts else "no elements"
    kinds: dict[str, Counter[str]] = {}
    for part, text in texts:
        kinds.setdefault(_kind(part), Counter())[text] += 1
    usual = {kind: times.most_common(1)[0][0] for kind, times in kinds.items()}
    single = dict.fromkeys(
        f"{_label(part)}={text}" for part, text in texts if text != usual[_kind(part)]
    )
    shown = list(single)[:SHOWN]
    if len(single) > SHOWN:
        shown.append(f"{len(single) - SHOWN} more")
    return ", ".join([*shown, *(f"{kind}={text}" for kind, text in usual.items())])


def _label(part: Part) -> str:
    """What tells a part from the others: `query` of `c_attn.weight#query`, or its own name."""
    return part.name.rpartition("#")[2]


def _kind(part: Part) -> str:
    """What it is: `query`, `gate` of `gate_up_proj#7.gate`; else the role."""
    label = _label(part)
    return label.rpartition(".")[2] if label != part.name else part.role
