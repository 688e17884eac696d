"""Loops of a compiled function, read from objdump's listing, and the vectors they spill.

A loop is what a jump backwards repeats; innermost is one that holds no other. Of a kernel's
innermost loops the hot one does the most arithmetic on vectors. A spill there is a vector register
stored to the stack, which objdump writes as an operand `0x40(%rsp)` or `-0x40(%rbp)`, or reloaded
from where the loop stored it. What the loop reads from the stack without ever storing it is a
constant: kernels have more of them than there are registers, and an operand in memory costs the
same on the stack as among the program's constants. (The compiler addresses everything else, such as
the generators' states, through other registers.)
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import NamedTuple

FUNCTION = re.compile(r"^[0-9a-f]+ <(?P<name>.+)>:$")
INSTRUCTION = re.compile(r"^\s*(?P<address>[0-9a-f]+):\s+(?P<name>\S+)\s*(?P<operands>[^#<]*)")
VECTOR = re.compile(r"%[xyz]mm\d")
STACK = re.compile(r"(?P<slot>-?(0x[0-9a-f]+)?\(%r[sb]p\b[^)]*\))")
# Moves of whole vectors, and of parts of them, are no arithmetic.
MOVE = re.compile(r"v?(mov|insert|extract|broadcast|zeroupper)")


class Instruction(NamedTuple):
    address: int
    name: str
    operands: str

    @property
    def is_arithmetic(self) -> bool:
        return bool(VECTOR.search(self.operands)) and not MOVE.match(self.name)

    @property
    def slot(self) -> str | None:
        """The place on the stack that a vector goes to or comes from."""
        match = STACK.search(self.operands)
        return match["slot"] if match and VECTOR.search(self.operands) else None

    @property
    def is_store(self) -> bool:
        """Whether the slot is written: it is the last operand."""
        return self.slot is not None and self.operands.strip().endswith(self.slot)

    @property
    def target(self) -> int | None:
        """Where a jump goes."""
        is_jump = self.name.startswith("j") and re.fullmatch(r"[0-9a-f]+", self.operands.strip())
        return int(self.operands, 16) if is_jump else None


def functions(object_file: Path) -> dict[str, list[Instruction]]:
    """Return the instructions of each function of an object file, by demangled name."""
    listing = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", "--demangle", object_file],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found: dict[str, list[Instruction]] = {}
    current: list[Instruction] = []
    for line in listing.splitlines():
        if match := FUNCTION.match(line):
            current = found.setdefault(match["name"].replace("(anonymous namespace)::", ""), [])
        elif match := INSTRUCTION.match(line):
            current.append(Instruction(int(match["address"], 16), match["name"], match["operands"]))
    return found


def innermost_loops(function: list[Instruction]) -> list[list[Instruction]]:
    """Return the loops that hold no other; of several jumps to one head, the shortest loop."""
    ranges = {
        (jump.target, jump.address)
        for jump in function
        if jump.target is not None and function[0].address <= jump.target <= jump.address
    }
    innermost = [
        (head, end)
        for head, end in sorted(ranges)
        if not any(
            head <= other_head and other_end <= end
            for other_head, other_end in ranges - {(head, end)}
        )
    ]
    return [[i for i in function if head <= i.address <= end] for head, end in innermost]


def hot_loop(function: list[Instruction]) -> list[Instruction]:
    """Return the innermost loop with the most arithmetic on vectors."""
    return max(innermost_loops(function), key=lambda loop: sum(i.is_arithmetic for i in loop))


def spills(function: list[Instruction]) -> list[Instruction]:
    """Return the instructions of the hot loop that spill a vector, or reload one it has spilled."""
    loop = hot_loop(function)
    stored = {i.slot for i in loop if i.is_store}
    return [i for i in loop if i.slot in stored]
