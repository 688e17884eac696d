"""Text that may hold anything, such as the names in a file of others, as one printable line."""

from __future__ import annotations


def one_line(text: str) -> str:
    r"""Return text, cut if long, with escapes for what would break the line or command a terminal.

    Examples
    --------
    >>> print(one_line("layer\n\x1b[31m"))
    layer\n\x1b[31m
    >>> len(one_line("long" * 1000))
    1905
    """
    if len(text) > 2000:
        text = f"{text[:1500]} ... {text[-400:]}"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
