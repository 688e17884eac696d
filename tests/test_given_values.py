"""Values that are given: any dtype that a file has, any region, and the library reads them."""

import ml_dtypes
import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from fanin.checkpoint import write
from fanin.families.layers import part
from fanin.initializers import parse
from fanin.initializers.values import Values
from fanin.model import VALUES, Model, Tensor
from fanin.output import ITEMSIZE, LITERAL_ITEMSIZE, numpy_dtype
from fanin.plan import make_plan

TABLES = {
    "counter": (np.array(3), "int64"),
    "index": (np.arange(12).reshape(3, 4), "int64"),
    "mask": (np.array([True, False]), "bool"),
    "small": (np.array([-3, 100], np.int8), "int8"),
    "scale": (np.array(1.0), "float8_e8m0fnu"),
    "positions": (np.linspace(-1, 1, 35).reshape(5, 7), None),
}


def model_of(tables, shapes=None):
    tensors = []
    for name, (array, dtype) in tables.items():
        shape = (shapes or {}).get(name, array.shape)
        pieces = (part(name, VALUES, shape, None),)
        tensors.append(Tensor(name, shape, VALUES, None, pieces, dtype=dtype))
    rules = {VALUES: lambda part: Values(tables[part.name][0])}
    return Model("x", "x", "X", {}, tuple(tensors), 1, 1, "relu", auto=rules)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_file_of_every_kind(tmp_path, dtype):
    write(make_plan(model_of(TABLES), scheme="he", dtype=dtype), tmp_path)
    loaded = load_file(tmp_path / "model.safetensors")
    for name, (array, own) in TABLES.items():
        expected = torch.from_numpy(array).to(getattr(torch, own or dtype))
        assert loaded[name].dtype == expected.dtype
        assert torch.equal(loaded[name].float(), expected.float()), name


def test_one_value_for_a_large_tensor(tmp_path):
    model = model_of({"scale": (np.array(1.0), "float32")}, {"scale": (3000, 2000)})
    write(make_plan(model), tmp_path)
    with safe_open(tmp_path / "model.safetensors", "np") as file:
        assert (file.get_tensor("scale") == 1).all()


@pytest.mark.parametrize("dtype", ITEMSIZE)
def test_floats_are_rounded_once_in_any_region(dtype):
    array = np.linspace(-3, 3, 60).reshape(6, 10)
    out = np.empty((3, 10), numpy_dtype(dtype)).T
    region = (slice(0, 6), slice(4, 7))
    Values(array).fill(out[:6], seed=0, shape=(6, 10), region=region)
    assert (out[:6] == array[region].astype(numpy_dtype(dtype))).all()


def test_integers_in_place():
    index = np.arange(6).reshape(2, 3)
    for dtype in ("int64", "int32", "uint8"):
        out = Values(index).fill(torch.zeros(2, 3, dtype=getattr(torch, dtype)), seed=0)
        assert torch.equal(out.long(), torch.from_numpy(index))
    with pytest.raises(ValueError, match="out must have one of the dtypes"):
        parse("ones").fill(np.empty(3, np.int64), seed=0)


def test_equal_by_elements():
    one, other = Values(np.arange(3.0)), Values(np.arange(3.0))
    assert one == other
    assert hash(one) == hash(other)
    assert str(one) == str(other)
    assert one != Values(np.arange(3))
    assert one != Values(np.arange(3.0)[:, None])
    assert one.standard_deviation((3,)) == pytest.approx(np.std([0, 1, 2]))
    assert Values(np.empty(0)).standard_deviation((0,)) == 0
    assert Values(np.array(2, ml_dtypes.bfloat16)).standard_deviation() == 0


def test_what_does_not_fit():
    with pytest.raises(ValueError, match=r"values of shape \(3,\) do not fit \(2, 4\)"):
        Values(np.arange(3.0)).filler((2, 4), None, 1, "float32")
    for dtype in LITERAL_ITEMSIZE.keys() - {"float8_e8m0fnu"}:
        with pytest.raises(ValueError, match=f"values of float64 are not written as {dtype}"):
            Values(np.arange(3.0)).filler((3,), None, 1, dtype)
    with pytest.raises(ValueError, match=r"index: normal\(std=1.0\).*int64|index: .*dtype"):
        make_plan(model_of(TABLES), overrides={"index": "normal"})
