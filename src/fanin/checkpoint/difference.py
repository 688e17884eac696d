"""An element of a file that is not what the recipe makes, and how it is told.

Bits count, not values: 0.0 and -0.0 differ, a NaN equals itself. So both are shown.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from fanin.output import numpy_dtype

__all__ = ["Difference", "element_index"]


@dataclass(frozen=True)
class Difference:
    """The first element that differs, with the bytes in the file and those that belong there."""

    tensor: str
    index: tuple[int, ...]
    dtype: str
    found: bytes
    expected: bytes

    def __str__(self) -> str:
        """Say where it is, what is there and what is due."""
        place = f"[{', '.join(map(str, self.index))}]" if self.index else ""
        found, expected = (self._value(content) for content in (self.found, self.expected))
        return f"{self.tensor}{place} is {found}, expected {expected}"

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values; the bits as hexadecimal text, most significant digit first."""
        return {
            "tensor": self.tensor,
            "index": list(self.index),
            "found": self._number(self.found),
            "expected": self._number(self.expected),
            "found_bits": self.found[::-1].hex(),
            "expected_bits": self.expected[::-1].hex(),
        }

    def _value(self, content: bytes) -> str:
        import numpy as np

        value = np.frombuffer(content, numpy_dtype(self.dtype))[0]
        return f"{value!s} (bits 0x{content[::-1].hex()})"

    def _number(self, content: bytes) -> float | str:
        import numpy as np

        value = float(np.frombuffer(content, numpy_dtype(self.dtype))[0])
        return value if math.isfinite(value) else str(value)  # JSON has no other numbers


def element_index(element: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the index of an element by its row-major number.

    Examples
    --------
    >>> element_index(7, (2, 5))
    (1, 2)
    """
    index = []
    for size in reversed(shape):
        element, place = divmod(element, size)
        index.append(place)
    return tuple(reversed(index))
