"""A recipe's rules as a TOML file: overrides and dtypes, and the scheme they go with.

    scheme = "gpt2(qk_scale=0.5)"            # seed and dtype may stand here, too

    [rules]                                  # PATTERN = INITIALIZER; the last that matches decides
    "*.c_proj.weight" = "normal(std=0.01)"

    [dtypes]                                 # PATTERN = DTYPE
    "*norm*" = "float32"

An error names the file and the line, and quotes it. Python's reader of TOML tells no lines, so each
line that is an assignment by itself is read once more; a value that spans lines has none to tell.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from fanin import schemes
from fanin.arguments import unknown
from fanin.config import MAX_FILE
from fanin.initializers import Initializer, parse
from fanin.output import dtype_name
from fanin.plan.overrides import LocatedPattern
from fanin.streams import check_seed

__all__ = ["RulesFile", "read_rules_file"]

Key = tuple[str, ...]


@dataclass(frozen=True)
class RulesFile:
    """What a file says; None or nothing where it does not."""

    scheme: str | None = None
    seed: int | None = None
    dtype: str | None = None
    overrides: tuple[tuple[str, Initializer], ...] = ()
    dtypes: tuple[tuple[str, str], ...] = ()


def read_rules_file(path: str | os.PathLike[str]) -> RulesFile:
    """Read a file of rules.

    Parameters
    ----------
    path : str or path
        A TOML file with the tables `rules` (patterns to initializers) and `dtypes` (patterns to
        dtypes), and the keys `scheme`, `seed` and `dtype`; all are optional.

    Returns
    -------
    RulesFile
        Its `overrides` and `dtypes` are those that `make_plan` takes. A pattern that matches
        nothing in the model is an error there, which tells the line as well.

    Raises
    ------
    ValueError
        Not TOML, a key or a table that is not one of these, a value that is not allowed. The
        message is one line, with the name of the file, the number of the line and its text.
    OSError
        The file cannot be read.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp(), "rules.toml")
    >>> _ = file.write_text('[rules]\\n"*.wpe.weight" = "normal(std=0.01)"\\n')
    >>> read_rules_file(file).overrides
    (('*.wpe.weight', Normal(mean=0.0, std=0.01)),)
    """
    return _Reader(Path(path)).read()


class _Reader:
    """One file while it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            content = file.read(MAX_FILE + 1)
        if len(content) > MAX_FILE:
            raise ValueError(f"{path}: larger than {MAX_FILE} bytes")
        try:
            self.text = content.decode("utf-8-sig").replace("\r\n", "\n")
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}: not UTF-8: {error}") from None
        self.lines = self.text.split("\n")
        self.places: dict[Key, int] = {}  # number of the line, from 1

    def read(self) -> RulesFile:
        try:
            content = tomllib.loads(self.text)
        except tomllib.TOMLDecodeError as error:
            self._refuse_syntax(str(error))
        except (RecursionError, ValueError) as error:  # nested too deeply, a date that is none
            raise ValueError(f"{self.path}: not TOML: {error}") from None
        self.places = _assignments(self.lines)
        for key in content:
            if key not in ("scheme", "seed", "dtype", "rules", "dtypes"):
                self._refuse_key(key, content[key])
        return RulesFile(
            scheme=self._value(content, "scheme", lambda value: str(schemes.read(value))),
            seed=self._value(content, "seed", check_seed),
            dtype=self._value(content, "dtype", dtype_name),
            overrides=tuple(self._table(content, "rules", parse, "an initializer")),
            dtypes=tuple(self._table(content, "dtypes", dtype_name, "a dtype")),
        )

    def _value(self, content: dict[str, Any], key: str, reader: Callable[[Any], Any]) -> Any:
        if key not in content:
            return None
        try:
            return reader(content[key])
        except (TypeError, ValueError) as error:
            self._refuse((key,), str(error))

    def _table(
        self, content: dict[str, Any], name: str, reader: Callable[[Any], Any], what: str
    ) -> list[tuple[str, Any]]:
        table = content.get(name, {})
        if not isinstance(table, dict):
            self._refuse((name,), f"{name} must be a table: [{name}] on a line of its own")
        pairs: list[tuple[str, Any]] = []
        for pattern, value in table.items():
            if isinstance(value, dict):  # dots without quotes make tables
                path = (pattern, *_first_path(value))
                self._refuse((name, *path), f'put the pattern in quotes: "{".".join(path)}" = ...')
            if not isinstance(value, str):
                self._refuse((name, pattern), f"the value must be {what} in quotes, got {value!r}")
            try:
                pairs.append((LocatedPattern(pattern, self._where((name, pattern))), reader(value)))
            except (TypeError, ValueError) as error:
                self._refuse((name, pattern), str(error))
        return pairs

    def _refuse_key(self, key: str, value: Any) -> NoReturn:
        path = (key, *_first_path(value)) if isinstance(value, dict) else (key,)
        kind = "table" if isinstance(value, dict) else "key"
        allowed = ("rules", "dtypes") if kind == "table" else ("scheme", "seed", "dtype")
        hint = "" if kind == "table" else "; a pattern stands below a line [rules] or [dtypes]"
        where = path if path in self.places else (key,)
        self._refuse(where, unknown(kind, key, allowed) + hint)

    def _refuse_syntax(self, error: str) -> NoReturn:
        place = re.search(r" \(at line (\d+), column \d+\)$", error)
        number = int(place.group(1)) if place else _last(self.lines)
        message = error[: place.start()] if place else error.removesuffix(" (at end of document)")
        line = self.lines[number - 1].strip()
        hint = ""
        if re.match(r"[^\"'#\[\s]*[*?]", line):
            hint = '; put the pattern in quotes: "*.weight" = "zeros"'
        elif "overwrite" in message or "twice" in message:
            hint = "; a key is given twice"
        raise ValueError(f"{self.path}, line {number}: {_cut(line)}: not TOML: {message}{hint}")

    def _refuse(self, key: Key, message: str) -> NoReturn:
        raise ValueError(f"{self._where(key)}: {message}")

    def _where(self, key: Key) -> str:
        number = self.places.get(key)
        if number is None:
            return str(self.path)
        return f"{self.path}, line {number}: {_cut(self.lines[number - 1].strip())}"


def _assignments(lines: list[str]) -> dict[Key, int]:
    """The line of each key that is assigned, and each table that is opened, on a line by itself."""
    found: dict[Key, int] = {}
    table: Key = ()
    for number, line in enumerate(lines, 1):
        try:
            content = tomllib.loads(line)
        except (ValueError, RecursionError):
            continue
        if not content:
            continue
        path = _first_path(content)
        if line.lstrip().startswith("["):
            table = path
            found.setdefault(path, number)
        else:
            found.setdefault((*table, *path), number)
    return found


def _first_path(content: Any) -> Key:
    """The keys down to the first value that is no table."""
    path: list[str] = []
    while isinstance(content, dict) and content:
        key, content = next(iter(content.items()))
        path.append(key)
    return tuple(path)


def _last(lines: list[str]) -> int:
    """The last line with something on it."""
    return next((n for n in range(len(lines), 0, -1) if lines[n - 1].strip()), 1)


def _cut(line: str) -> str:
    return line if len(line) <= 100 else f"{line[:90]}..."
