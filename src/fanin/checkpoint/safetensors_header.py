"""Reading the header of a safetensors file that anybody may have written, and trusting none of it.

A header is one flat JSON object: a few strings under `__metadata__`, and for each tensor its dtype,
shape and place in the data behind the header, which the tensors fill without gap or overlap. What
the safetensors library refuses is refused here too, and so are two tensors of one name, of which
it takes the last. Members are decoded one at a time, each no longer than such a member can be, so
that a hostile header costs no more memory than its own text, and no depth of nesting is followed.

Format: https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import Any, NoReturn

__all__ = ["BITS", "MAX_HEADER_BYTES", "parse_header", "read_header"]

MAX_HEADER_BYTES = 100_000_000
MAX_MEMBER = 65536  # characters of what describes one tensor; about 100 are usual
MAX_NUMBER = 2**64 - 1

BITS = {
    "BOOL": 8,
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "U8": 8,
    "I8": 8,
    "F8_E5M2": 8,
    "F8_E4M3": 8,
    "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8,
    "I16": 16,
    "U16": 16,
    "F16": 16,
    "BF16": 16,
    "I32": 32,
    "U32": 32,
    "F32": 32,
    "C64": 64,
    "F64": 64,
    "I64": 64,
    "U64": 64,
}
"""The dtypes of the format, with their bits an element."""

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\n\r]*")
_STRING = r'"(?:[^"\\]|\\.)*+"'
_FLAT = re.compile(rf"\{{(?:[^{{}}\[\]\"]|{_STRING}|\[[^{{}}\[\]\"]*+\])*+\}}", re.DOTALL)
"""An object whose values are numbers, strings and lists of numbers."""


def read_header(path: str | os.PathLike[str], *, complete: bool = True) -> dict[str, Any]:
    """Return the header of a safetensors file, checked.

    Parameters
    ----------
    path : str or os.PathLike
        The file. Nothing but its header is read.
    complete : bool, default True
        Refuse a file that is shorter or longer than its header says.

    Returns
    -------
    dict
        The JSON object. Beside `__metadata__`, a dict of strings if it is there, every value is a
        dict with a `dtype` of `BITS`, a `shape` and `data_offsets`, bytes from the header's end.

    Raises
    ------
    ValueError
        The file is no safetensors file. The message names it, and the tensor where there is one.

    Examples
    --------
    >>> import os, tempfile
    >>> text = b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.safetensors")
    ...     with open(path, "wb") as file:
    ...         _ = file.write(len(text).to_bytes(8, "little") + text + bytes(8))
    ...     read_header(path)["w"]["shape"]
    [2]
    """
    name = os.fspath(path)
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        prefix = file.read(8)
        length = int.from_bytes(prefix, "little")
        if len(prefix) < 8:
            raise ValueError(f"{name} is not a safetensors file: it has {len(prefix)} bytes")
        if length > MAX_HEADER_BYTES:
            raise ValueError(
                f"{name} is not a safetensors file: its header would have {length} bytes, more than"
                f" the {MAX_HEADER_BYTES} allowed"
            )
        if length > size - 8:
            raise ValueError(
                f"{name} is not a safetensors file: its header would have {length} bytes, but the"
                f" file has {size}"
            )
        text = file.read(length)
    try:
        header = parse_header(text)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    end = max((info["data_offsets"][1] for info in tensors(header).values()), default=0)
    if complete and end != size - 8 - length:
        raise ValueError(
            f"{name}: its tensors need {end} bytes, but {size - 8 - length} lie behind the header"
        )
    return header


def parse_header(text: bytes) -> dict[str, Any]:
    """Return the JSON object of a header; ValueError, naming the tensor, if it is not a valid one.

    Examples
    --------
    >>> parse_header(b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[0]}}')
    Traceback (most recent call last):
    ValueError: tensor 'w' has 1 data_offsets, not 2
    """
    try:
        characters = text.decode()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"the safetensors header is not UTF-8: byte {error.start} of it is wrong"
        ) from None
    if not characters.startswith("{"):
        raise ValueError("the safetensors header is not a JSON object")
    header: dict[str, Any] = {}
    at = 0
    for name, start in (members := _Members(characters, 0)):
        if name == "__metadata__":
            value, at = _metadata(characters, start)
        else:
            value, at = _tensor(characters, start, name)
        header[name] = value
        members.at = at
    if _skip(characters, members.at) != len(characters):
        raise _not_json(members.at)
    _check_offsets(header)
    return header


def tensors(header: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the header without its metadata."""
    return {name: info for name, info in header.items() if name != "__metadata__"}


class _Members:
    """The names in an object of the text, each with the place of its value.

    Who iterates sets `at` to the end of the value that it has read.
    """

    def __init__(self, text: str, start: int) -> None:
        self._text = text
        self.at = start + 1

    def __iter__(self) -> Iterator[tuple[str, int]]:
        text, names = self._text, set[str]()
        self.at = _skip(text, self.at)
        if text.startswith("}", self.at):
            self.at += 1
            return
        while True:
            name, end = _string(text, self.at)
            if name in names:
                raise ValueError(f"the safetensors header has {_quote(name)} twice")
            names.add(name)
            end = _skip(text, end)
            if not text.startswith(":", end):
                raise _not_json(end)
            yield name, _skip(text, end + 1)
            end = _skip(text, self.at)
            if text.startswith("}", end):
                self.at = end + 1
                return
            if not text.startswith(",", end):
                raise _not_json(end)
            self.at = _skip(text, end + 1)


def _metadata(text: str, start: int) -> tuple[dict[str, str] | None, int]:
    if text.startswith("null", start):
        return None, start + 4
    if not text.startswith("{", start):
        raise ValueError("__metadata__ of the safetensors header is not an object of strings")
    content: dict[str, str] = {}
    for key, at in (members := _Members(text, start)):
        if not text.startswith('"', at):
            raise ValueError(f"__metadata__ of the safetensors header: {_quote(key)} is no string")
        content[key], members.at = _string(text, at)
    return content, members.at


def _tensor(text: str, start: int, name: str) -> tuple[dict[str, Any], int]:
    member = _FLAT.match(text, start, start + MAX_MEMBER)
    if member is None:
        raise ValueError(
            f"tensor {_quote(name)} is not described by a flat object with a dtype, a shape and"
            " data_offsets"
        )
    try:
        info = json.loads(
            member[0],
            object_pairs_hook=_unique,
            parse_int=_whole,
            parse_float=_no_number,
            parse_constant=_no_number,
        )
        dtype, shape, offsets = (info[key] for key in ("dtype", "shape", "data_offsets"))
    except KeyError as error:
        raise ValueError(f"tensor {_quote(name)} has no {error.args[0]}") from None
    except json.JSONDecodeError as error:
        raise _not_json(start + error.pos) from None
    except ValueError as error:
        raise ValueError(f"tensor {_quote(name)}: {error}") from None
    if not isinstance(dtype, str) or dtype not in BITS:
        raise ValueError(f"tensor {_quote(name)} has the unknown dtype {_quote(dtype)}")
    for key, numbers in (("shape", shape), ("data_offsets", offsets)):
        if not isinstance(numbers, list) or not all(type(number) is int for number in numbers):
            raise ValueError(
                f"tensor {_quote(name)}: {key} is {_quote(numbers)}, not a list of whole numbers"
            )
    if len(offsets) != 2:
        raise ValueError(f"tensor {_quote(name)} has {len(offsets)} data_offsets, not 2")
    return info, member.end()


def _check_offsets(header: dict[str, Any]) -> None:
    """Raise ValueError unless the tensors, by their offsets, lie one behind another."""
    end, before = 0, ""
    ordered = sorted(tensors(header).items(), key=lambda item: item[1]["data_offsets"])
    for name, info in ordered:
        dtype, shape, (begin, stop) = info["dtype"], info["shape"], info["data_offsets"]
        # The library multiplies axis by axis in 64 bits, zeros and all.
        size = 1
        for length in shape:
            size *= length
            if size > MAX_NUMBER:
                raise ValueError(f"tensor {_quote(name)} has the impossible shape {_quote(shape)}")
        bits = size * BITS[dtype]
        if bits > MAX_NUMBER or bits % 8:
            raise ValueError(
                f"tensor {_quote(name)} of dtype {dtype} has the impossible shape {_quote(shape)}"
            )
        if stop - begin != bits // 8:
            raise ValueError(
                f"tensor {_quote(name)} of dtype {dtype} and shape {_quote(shape)} needs"
                f" {bits // 8} bytes, but its data_offsets {info['data_offsets']} span"
                f" {stop - begin}"
            )
        if begin != end:
            problem = "overlaps" if begin < end else "leaves a gap behind"
            what = f"tensor {_quote(before)}" if before else "the header"
            raise ValueError(
                f"tensor {_quote(name)} begins at {begin} and {problem} {what}, which ends at {end}"
            )
        end, before = stop, name


def _string(text: str, start: int) -> tuple[str, int]:
    if not text.startswith('"', start):
        raise _not_json(start)
    try:
        value, end = _DECODER.raw_decode(text, start)
        value.encode()
    except json.JSONDecodeError as error:
        raise _not_json(error.pos) from None
    except UnicodeEncodeError:  # half of a surrogate pair
        raise _not_json(start) from None
    return value, end


def _skip(text: str, start: int) -> int:
    match = _SPACE.match(text, start)
    assert match is not None
    return match.end()


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise ValueError("a key of its description appears twice")
    return content


def _whole(digits: str) -> int:
    if digits.startswith("-") or len(digits) > 20 or int(digits) > MAX_NUMBER:
        raise ValueError(f"{_cut(digits)} is not a number from 0 to 2**64 - 1")
    return int(digits)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{_cut(text)} is not a whole number")


def _not_json(position: int) -> ValueError:
    return ValueError(f"the safetensors header is not JSON: see character {position}")


def _quote(value: object) -> str:
    return _cut(repr(value))


def _cut(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:70]}..."
