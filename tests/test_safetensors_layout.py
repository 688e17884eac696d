"""The files' names, cut and headers, against huggingface_hub's cut and the safetensors library."""

import dataclasses
import json

import pytest
import torch
from huggingface_hub import split_torch_state_dict_into_shards
from safetensors.torch import save

from fanin.checkpoint.safetensors_layout import DTYPE_CODES, index, layout, parse_size
from fanin.output import ITEMSIZE, LITERAL_ITEMSIZE
from tiny_models import CONFIGS, tiny_plan

METADATA = {"format": "pt"}


def _state_dict(plan):
    return {
        entry.tensor.name: torch.zeros(entry.tensor.shape, dtype=getattr(torch, entry.dtype))
        for entry in plan.entries
    }


@pytest.mark.parametrize("dtype", ITEMSIZE)
@pytest.mark.parametrize("name", CONFIGS)
def test_one_file_is_byte_for_byte_that_of_the_safetensors_library(name, dtype):
    plan = tiny_plan(name, dtype=dtype)
    (shard,) = layout(plan.entries, METADATA, "5GB")
    assert shard.filename == "model.safetensors"
    expected = save(_state_dict(plan), METADATA)
    assert shard.header == expected[: len(shard.header)]
    assert shard.num_bytes == len(expected)


def test_dtypes_lie_in_the_order_of_the_library():
    entries = [
        dataclasses.replace(entry, dtype=dtype)
        for entry, dtype in zip(tiny_plan().entries, list(DTYPE_CODES) * 4, strict=False)
    ]
    (shard,) = layout(entries, METADATA, "5GB")
    tensors = {
        entry.tensor.name: torch.zeros(entry.tensor.shape, dtype=getattr(torch, entry.dtype))
        for entry in entries
    }
    assert shard.header == save(tensors, METADATA)[: len(shard.header)]


def test_every_dtype_has_a_code():
    assert DTYPE_CODES.keys() == ITEMSIZE.keys() | LITERAL_ITEMSIZE.keys()


def test_offsets_point_at_the_tensors():
    (shard,) = layout(tiny_plan().entries, METADATA, "5GB")
    header = json.loads(shard.header[8:])
    for entry, offset in zip(shard.entries, shard.offsets, strict=True):
        assert header[entry.tensor.name]["data_offsets"][0] == offset - len(shard.header)
    assert len(shard.header) % 8 == 0


@pytest.mark.parametrize("size", [1, 64, 1000, 3000, 2560, 2561, 10_000, 20_000, 10**9])
@pytest.mark.parametrize("name", CONFIGS)
def test_cut_is_that_of_huggingface_hub(name, size):
    plan = tiny_plan(name)
    shards = layout(plan.entries, METADATA, size)
    expected = split_torch_state_dict_into_shards(_state_dict(plan), max_shard_size=size)
    names = {shard.filename: {entry.tensor.name for entry in shard.entries} for shard in shards}
    assert names == {key: set(value) for key, value in expected.filename_to_tensors.items()}
    content = json.loads(index(shards, plan.num_parameters))
    assert content["weight_map"] == expected.tensor_to_filename
    assert content["metadata"] == {**expected.metadata, "total_parameters": plan.num_parameters}


@pytest.mark.parametrize(
    ("text", "num_bytes"),
    [
        (7, 7),
        ("7", 7),
        ("5KB", 5000),
        ("2.5 mb", 2_500_000),
        ("1GB", 10**9),
        ("3TB", 3 * 10**12),
        ("1KiB", 1024),
        ("1.5MiB", 1_572_864),
        ("9007199254740993B", 2**53 + 1),
    ],
)
def test_sizes(text, num_bytes):
    assert parse_size(text) == num_bytes


@pytest.mark.parametrize(
    "text", ["", "GB", "-1", "1e3", "5 gigabytes", "1.2.3GB", "٣GB", -5, 1e300, "9" * 400 + ".5"]
)
def test_no_size(text):
    with pytest.raises(ValueError, match="is not a number of bytes"):
        parse_size(text)


@pytest.mark.parametrize("text", [0, "0GB", "0.1B"])
def test_size_of_nothing(text):
    with pytest.raises(ValueError, match="is less than a byte"):
        parse_size(text)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "cannot be the name"),
        ("__metadata__", "cannot be the name"),
        ("a\nb", "cannot be the name"),
        ("a\0b", "cannot be the name"),
        ("a\ud800", "cannot be the name"),
        ("/etc/passwd", "leaves the folder"),
        ("../weight", "leaves the folder"),
        ("a/../../b", "leaves the folder"),
        ("..\\weight", "leaves the folder"),
        ("~/weight", "leaves the folder"),
    ],
)
def test_names_that_no_tensor_may_have(name, message):
    entry = tiny_plan().entries[0]
    renamed = dataclasses.replace(entry, tensor=dataclasses.replace(entry.tensor, name=name))
    with pytest.raises(ValueError, match=message):
        layout([renamed], METADATA, "5GB")


def test_names_that_look_odd_and_are_fine():
    entry = tiny_plan().entries[0]
    for name in ("a..b", "block/0/w", "größe", 'a"b', "a b"):
        renamed = dataclasses.replace(entry, tensor=dataclasses.replace(entry.tensor, name=name))
        (shard,) = layout([renamed], METADATA, "5GB")
        assert name in json.loads(shard.header[8:])


def test_two_tensors_of_one_name():
    entry = tiny_plan().entries[0]
    with pytest.raises(ValueError, match=r"two tensors are named 'transformer\.wte\.weight'"):
        layout([entry, entry], METADATA, "5GB")


def test_a_header_longer_than_readers_take():
    with pytest.raises(ValueError, match=r"model\.safetensors has \d+ bytes.*smaller max_shard"):
        layout(tiny_plan().entries, {"format": "x" * 100_000_001}, "5GB")
