"""Headers that anybody may have written: each fault is one clear line, and the library agrees."""

import json
import random
import tracemalloc

import pytest
from safetensors import SafetensorError, safe_open

from fanin.checkpoint.safetensors_header import BITS, parse_header, read_header

GOOD = {
    "__metadata__": {"format": "pt", "größe": "b"},
    "second": {"dtype": "BF16", "shape": [3, 2], "data_offsets": [8, 20]},
    "first": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
    "none": {"dtype": "F32", "shape": [0, 7], "data_offsets": [20, 20]},
    "scalar": {"dtype": "F8_E8M0", "shape": [], "data_offsets": [20, 21]},
}
SIZE = 21


def file_of(path, text, data=SIZE):
    text = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(data))
    return path


def is_good_for_the_library(path):
    try:
        with safe_open(path, "pt"):
            return True
    except SafetensorError:
        return False


def changed(name, **fields):
    return json.dumps({**GOOD, name: {**GOOD[name], **fields}})


def one(text, name="w"):
    return f'{{"{name}":{text}}}'


def test_a_header_as_it_stands(tmp_path):
    path = file_of(tmp_path / "x.safetensors", json.dumps(GOOD, ensure_ascii=False) + "  \n")
    assert read_header(path) == GOOD
    assert is_good_for_the_library(path)
    assert parse_header(b"{ }") == {}
    assert parse_header(b'{"__metadata__":null}') == {"__metadata__": None}


FLAT = "is not described by a flat object"
TWO = '"shape":[2],"data_offsets":[0,8]'
TEXTS = {
    "empty": ("", "is not a JSON object"),
    "list": ("[]", "is not a JSON object"),
    "space before": (" {}", "is not a JSON object"),
    "not UTF-8": (b'{"\xff":1}', "is not UTF-8: byte 2"),
    "overlong UTF-8": (b'{"\xc0\xaf":1}', "is not UTF-8: byte 2"),
    "byte order mark": (b"\xef\xbb\xbf{}", "is not a JSON object"),
    "open": ("{", "is not JSON: see character 1"),
    "wrong bracket": ("{]", "is not JSON: see character 1"),
    "open name": ('{"a', "is not JSON"),
    "control character": ('{"a\n":1}', "is not JSON"),
    "half a pair": ('{"\\ud800":1}', "is not JSON"),
    "no colon": ('{"a" 1}', "is not JSON: see character 5"),
    "no comma": (one(f'{{"dtype":"F32",{TWO}}} "b"'), "is not JSON"),
    "comma at the end": (one(f'{{"dtype":"F32",{TWO}}},'), "is not JSON"),
    "behind it": ('{}"', "is not JSON: see character 2"),
    "zeros behind it": ("{}\0\0", "is not JSON: see character 2"),
    "no object": (one("7"), f"tensor 'w' {FLAT}"),
    "in order": (one('["F32",[2],[0,8]]'), FLAT),
    "nested": (one(f'{{"dtype":"F32","shape":[[2]],{TWO[10:]}}}'), FLAT),
    "a key in pieces": (one(f'{{"dtype" "F32",{TWO}}}'), "is not JSON"),
    "no dtype": (one(f"{{{TWO}}}"), "tensor 'w' has no dtype"),
    "no shape": (one('{"dtype":"F32","data_offsets":[0,8]}'), "tensor 'w' has no shape"),
    "no offsets": (one('{"dtype":"F32","shape":[2]}'), "tensor 'w' has no data_offsets"),
    "dtype twice": (one(f'{{"dtype":"F32","dtype":"F32",{TWO}}}'), "'w': a key .* appears twice"),
    "name twice": (one(f'{{"dtype":"F32",{TWO}}},"w":{{}}'), "has 'w' twice"),
    "metadata twice": ('{"__metadata__":{},"__metadata__":{}}', "has '__metadata__' twice"),
    "metadata key twice": ('{"__metadata__":{"a":"","a":""}}', "has 'a' twice"),
    "metadata is text": ('{"__metadata__":"pt"}', "is not an object of strings"),
    "metadata of numbers": ('{"__metadata__":{"a":1}}', "'a' is no string"),
    "metadata of objects": ('{"__metadata__":{"a":{}}}', "'a' is no string"),
    "foreign dtype": (
        changed("first", dtype="F128"),
        "tensor 'first' has the unknown dtype 'F128'",
    ),
    "dtype in small": (changed("first", dtype="f32"), "unknown dtype 'f32'"),
    "no name of a dtype": (changed("first", dtype=32), "unknown dtype 32"),
    "negative": (changed("first", shape=[-2]), "'first': -2 is not a number from 0"),
    "minus zero": (one('{"dtype":"F32","shape":[-0],"data_offsets":[0,0]}'), "-0 is not a number"),
    "fraction": (changed("first", shape=[2.0]), "2.0 is not a whole number"),
    "infinite": (changed("first", shape=[float("inf")]), "Infinity is not a whole number"),
    "true": (changed("first", shape=[True]), r"shape is \[True\], not a list of whole numbers"),
    "number": (changed("first", shape=2), "shape is 2, not a list of whole numbers"),
    "words": (changed("first", shape=["2"]), FLAT),
    "null": (changed("first", data_offsets=None), "data_offsets is None, not a list"),
    "huge axis": (changed("first", shape=[2**64]), "is not a number from 0 to"),
    "5000 digits": (
        one(f'{{"dtype":"F32","shape":[{"1" * 5000}]}}'),
        r"1111\.\.\. is not a number",
    ),
    "huge": (changed("first", shape=[2**40, 2**40]), "has the impossible shape"),
    "huge in bits": (changed("first", shape=[2**60]), "has the impossible shape"),
    "huge and empty": (changed("none", shape=[2**40, 2**40, 0]), "has the impossible shape"),
    "half a byte": (changed("scalar", dtype="F4"), "dtype F4 has the impossible shape"),
    "one offset": (changed("first", data_offsets=[8]), "has 1 data_offsets, not 2"),
    "too small": (changed("first", shape=[3]), r"needs 12 bytes, .*\[0, 8\] span 8"),
    "backwards": (changed("first", data_offsets=[8, 0]), "needs 8 bytes, .* span -8"),
    "overlap": (
        changed("second", data_offsets=[4, 16]),
        "'second' begins at 4 and overlaps tensor 'first', which ends at 8",
    ),
    "gap": (changed("first", shape=[1], data_offsets=[0, 4]), "leaves a gap behind tensor 'first'"),
    "gap at the start": (one('{"dtype":"U8","shape":[4],"data_offsets":[4,8]}'), "the header"),
    "same place": (changed("second", shape=[4], data_offsets=[0, 8]), "overlaps"),
    "empty in another": (changed("none", data_offsets=[4, 4]), "overlaps"),
    "long": (one(f'{{"x":"{"y" * 70_000}"}}'), FLAT),
}
STRICTER = ("name twice", "metadata key twice", "in order", "long")
"""What the library takes: the last of two, the fields without their names, other fields."""


@pytest.mark.parametrize("case", TEXTS)
def test_headers_that_are_refused(case, tmp_path):
    text, message = TEXTS[case]
    path = file_of(tmp_path / "x.safetensors", text)
    with pytest.raises(ValueError, match=message) as error:
        read_header(path)
    assert str(error.value).startswith(f"{path}: ")
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 300 + len(str(path))
    if case not in STRICTER:
        assert not is_good_for_the_library(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it has 0 bytes"),
        (b"\x08\0\0\0", "it has 4 bytes"),
        (b"\xff" * 8 + b"{}", "more than the 100000000 allowed"),
        (b"version https://git-lfs.github.com/spec/v1\n", "more than the 100000000 allowed"),
        ((100_000_001).to_bytes(8, "little") + b"{}", "more than the 100000000 allowed"),
        ((100_000_000).to_bytes(8, "little") + b"{}", "100000000 bytes, but the file has 10"),
        ((3).to_bytes(8, "little") + b"{}", "would have 3 bytes, but the file has 10"),
    ],
)
def test_files_that_are_none(tmp_path, content, message):
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"is not a safetensors file: .*{message}") as error:
        read_header(path)
    assert str(error.value).startswith(str(path))
    assert not is_good_for_the_library(path)


@pytest.mark.parametrize("data", [0, SIZE - 1, SIZE + 1])
def test_a_file_that_is_cut_or_longer(tmp_path, data):
    path = file_of(tmp_path / "x.safetensors", json.dumps(GOOD), data)
    with pytest.raises(ValueError, match=f"its tensors need 21 bytes, but {data} lie behind"):
        read_header(path)
    assert not is_good_for_the_library(path)
    assert read_header(path, complete=False) == GOOD


@pytest.mark.parametrize(
    "text",
    [
        '{"a":' * 1_000_000,
        "{" + "[" * 1_000_000,
        one("[" * 1_000_000),
        one('{"shape":' + "[" * 1_000_000),
        one('{"shape":[' + "[]," * 1_000_000),
        '{"__metadata__":{' + '"a":"",' * 1_000_000,
        '{"__metadata__":{"a":' + "[" * 1_000_000,
        one("{" + '"a":{},' * 1_000_000),
        one('{"shape":[' + "1," * 1_000_000),
    ],
    ids=range(9),
)
def test_depth_and_length_cost_no_memory(text):
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"JSON|flat|twice|no string"):
        parse_header(text.encode())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * len(text) + 500_000


def test_every_dtype_of_the_library(tmp_path):
    for dtype, bits in BITS.items():
        text = one(f'{{"dtype":"{dtype}","shape":[8],"data_offsets":[0,{bits}]}}')
        path = file_of(tmp_path / "x.safetensors", text, bits)
        assert read_header(path)["w"]["dtype"] == dtype
        assert is_good_for_the_library(path)


PIECES = [b"", b"0", b"1", b"-", b"9" * 20, b'"', b"{", b"}", b"[", b"]", b",", b":", b"\\"]
PIECES += [b"\xff", b" ", b"e", b".5", b"null", b"\\u0041", b"F64", b"\n", b"\0"]


def test_what_the_library_refuses_is_refused(tmp_path):
    """Bytes and numbers of a good header changed, cut and doubled at random."""
    path, text, taken = tmp_path / "x.safetensors", json.dumps(GOOD, ensure_ascii=False), 0
    for seed in range(600):
        draw, mutated = random.Random(seed), bytearray(text.encode())
        for _ in range(draw.randint(1, 3)):
            at = draw.randrange(len(mutated))
            mutated[at : at + draw.randint(0, 3)] = draw.choice(PIECES)
        file_of(path, bytes(mutated))
        try:
            header = read_header(path)
        except ValueError:
            continue
        with safe_open(path, "pt") as file:
            assert set(file.keys()) == header.keys() - {"__metadata__"}
        taken += 1
    assert 5 < taken < 300


def test_shuffled_members_and_spaces(tmp_path):
    items = list(GOOD.items())
    for seed in range(10):
        random.Random(seed).shuffle(items)
        text = json.dumps(dict(items), indent=seed % 3 or None)
        assert read_header(file_of(tmp_path / "x.safetensors", text)) == GOOD
