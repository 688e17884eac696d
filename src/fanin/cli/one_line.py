"""Text that may hold anything, such as the names in a file of others, as one printable line."""

from __future__ import annotations


def one_line(text: str) -> str:
    r"""Return text with escapes for what would break the line or command the terminal.

    Examples
    --------
    >>> print(one_line("layer\n\x1b[31m"))
    layer\n\x1b[31m
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
