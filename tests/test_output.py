"""Destinations: every writable float array is filled in place, everything else is refused."""

import array
import ctypes
import types

import ml_dtypes
import numpy as np
import pytest
import torch

import fanin
import reference
from fanin.output import ITEMSIZE, dtype_name, numpy_dtype

SHAPE = (4, 6)
TORCH_DTYPES = {name: getattr(torch, name) for name in ITEMSIZE}


def filled(shape=SHAPE, dtype="float32"):
    """What any destination of that shape must hold."""
    return fanin.normal(shape, seed=1, name="w", dtype=dtype)


def fill(out):
    assert fanin.normal(out=out, seed=1, name="w") is out


def same_bits(a, b):
    return np.array_equal(reference.bits(np.array(a, order="C")), reference.bits(b))


def byte_view(buffer, offset):
    """A float32 matrix that begins at any byte."""
    return np.frombuffer(buffer, np.float32, 24, offset).reshape(SHAPE)


ARRAYS = {
    "contiguous": lambda dtype: np.zeros((4, 6), dtype),
    "fortran": lambda dtype: np.zeros((4, 6), dtype, order="F"),
    "transposed": lambda dtype: np.zeros((6, 4), dtype).T,
    "strided": lambda dtype: np.zeros((8, 18), dtype)[::2, ::3],
    "negative": lambda dtype: np.zeros((4, 6), dtype)[::-1, ::-1],
    "negative strided": lambda dtype: np.zeros((12, 12), dtype)[::-3, ::-2],
    "slice": lambda dtype: np.zeros((10, 10), dtype)[3:7, 2:8],
    "permuted": lambda dtype: np.zeros((6, 3, 4), dtype).transpose(2, 0, 1)[..., 1],
    "field": lambda dtype: np.zeros((4, 6), [("a", "i1"), ("w", dtype), ("b", "i2")])["w"],
    "matrix": lambda dtype: np.zeros((4, 6), dtype).view(np.matrix),
}


@pytest.mark.parametrize("dtype", ITEMSIZE)
@pytest.mark.parametrize("kind", ARRAYS)
def test_arrays(kind, dtype):
    out = ARRAYS[kind](numpy_dtype(dtype))
    fill(out)
    assert same_bits(np.asarray(out), filled(dtype=dtype))


@pytest.mark.parametrize("kind", ["strided", "negative strided", "slice", "permuted", "field"])
def test_memory_between_the_elements_is_untouched(kind):
    out = ARRAYS[kind](np.dtype(np.float32))
    base = out
    while base.base is not None:
        base = base.base
    fill(out)
    out[...] = 0
    assert not base.tobytes().strip(b"\0")


def test_vectors_scalars_and_many_axes():
    for shape in [(), (1,), (7,), (1, 1, 3, 1), (2, 3, 4, 5, 2), (2,) * 12]:
        out = np.zeros(shape[::-1], np.float32).T
        fill(out)
        assert same_bits(out, filled(shape))


def test_large_strided_arrays_by_several_threads():
    out = np.zeros((900, 2000), np.float32).T[::-1]
    fanin.normal(out=out, seed=1, name="w", threads=3)
    assert same_bits(out, filled((2000, 900)))


def test_memory_mapped_files(tmp_path):
    out = np.memmap(tmp_path / "w", np.float32, "w+", shape=SHAPE)
    fill(out)
    out.flush()
    assert same_bits(np.fromfile(tmp_path / "w", np.float32).reshape(SHAPE), filled())


def test_buffers():
    out = array.array("f", [0] * 24)
    fill(out)
    assert out.tolist() == filled((24,)).tolist()
    out = (ctypes.c_double * 24)()
    fill(out)
    assert list(out) == filled((24,), "float64").tolist()
    memory = bytearray(97)
    fill(memoryview(memory)[:96].cast("f", SHAPE))
    assert same_bits(byte_view(memory, 0), filled())


def test_memory_need_not_be_aligned():
    memory = bytearray(100)
    out = byte_view(memory, 1)
    fill(out)
    assert same_bits(out, filled())
    assert memory[0] == 0
    assert not any(memory[97:])


# torch


@pytest.mark.parametrize("dtype", ITEMSIZE)
def test_torch_tensors(dtype):
    for out in (
        torch.zeros(SHAPE, dtype=TORCH_DTYPES[dtype]),
        torch.zeros((6, 4), dtype=TORCH_DTYPES[dtype]).T,
        torch.zeros((8, 18), dtype=TORCH_DTYPES[dtype])[::2, ::3],
    ):
        fill(out)
        expected = torch.from_numpy(reference.bits(filled(dtype=dtype)).copy())
        assert torch.equal(out.contiguous().view(expected.dtype), expected)


def test_torch_scalars_and_parameters():
    out = torch.zeros(())
    fill(out)
    assert out.item() == filled(()).item()
    parameter = torch.nn.Parameter(torch.zeros(SHAPE, dtype=torch.bfloat16))
    fill(parameter)
    assert parameter.requires_grad
    assert parameter.grad_fn is None
    assert same_bits(
        parameter.detach().view(torch.int16).numpy().view(ml_dtypes.bfloat16),
        filled(dtype="bfloat16"),
    )


def test_autograd_sees_that_a_tensor_changed():
    weight = torch.ones(SHAPE, requires_grad=True)
    loss = (weight * weight).sum()
    version = weight._version
    fill(weight)
    assert weight._version == version + 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_a_refused_tensor_is_unchanged():
    weight = torch.ones(SHAPE)
    with pytest.raises(ValueError, match="std must be finite"):
        fanin.normal(out=weight, std=-1, seed=0)
    assert weight._version == 0
    assert bool((weight == 1).all())


def test_inference_tensors():
    with torch.inference_mode():
        out = torch.zeros(SHAPE)
    fill(out)
    assert same_bits(out.numpy(), filled())


def freed():
    out = torch.zeros(SHAPE)
    out.untyped_storage().resize_(0)
    return out


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: torch.empty(SHAPE, device="meta"), "tensor in CPU memory, got one on 'meta'"),
        (
            lambda: torch.zeros(SHAPE).to_sparse(),
            "a dense tensor, got a tensor of the layout sparse",
        ),
        (lambda: torch.zeros(SHAPE, dtype=torch.complex64), "got complex64"),
        (lambda: torch.zeros(SHAPE, dtype=torch.int32), "one of the dtypes float64.*got int32"),
        (lambda: torch.zeros(SHAPE, dtype=torch.bool), "got bool"),
        (lambda: torch.zeros(SHAPE, dtype=torch.complex64).conj().imag, "lazily negated view"),
        (lambda: torch.zeros(1, 6).expand(SHAPE), "overlap in memory"),
        (lambda: torch.zeros(9).unfold(0, 6, 1), "overlap in memory"),
        (freed, "without memory that can be filled: its storage was freed"),
    ],
)
def test_torch_tensors_that_cannot_be_filled(make, message):
    with pytest.raises(ValueError, match=message):
        fanin.normal(out=make(), seed=0)


def test_fake_tensors_have_no_memory():
    with torch._subclasses.fake_tensor.FakeTensorMode():
        out = torch.empty(SHAPE)
    with pytest.raises(ValueError, match="without memory"):
        fanin.normal(out=out, seed=0)


# Refused


def read_only():
    out = np.zeros(SHAPE, np.float32)
    out.flags.writeable = False
    return out


def strided(shape, strides):
    return np.lib.stride_tricks.as_strided(np.zeros(64, np.float32), shape, strides)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (read_only, "out is read-only"),
        (lambda: np.float32(1), "out is read-only"),
        (lambda: memoryview(b"\0" * 96).cast("f"), "out is read-only"),
        (lambda: strided((4, 6), (0, 4)), r"overlap in memory: shape \(4, 6\), strides \(0, 4\)"),
        (lambda: strided((4, 6), (4, 4)), "overlap in memory"),
        (lambda: strided((4, 6), (20, 4)), "overlap in memory"),
        (lambda: strided((4, 6), (4, 8)), "overlap in memory"),
        (lambda: strided((8,), (2,)), "overlap in memory"),
        (lambda: np.zeros(SHAPE, np.int32), "one of the dtypes float64, float32.*got int32"),
        (lambda: np.zeros(SHAPE, bool), "got bool"),
        (lambda: np.zeros(SHAPE, np.complex64), "got complex64"),
        (lambda: np.zeros(SHAPE, object), "got object"),
        (lambda: np.zeros(SHAPE, np.longdouble), "got float128"),
        (lambda: np.zeros(SHAPE, ml_dtypes.float8_e4m3b11fnuz), "got float8_e4m3b11fnuz"),
        (lambda: np.zeros(SHAPE, [("w", "f4")]), "got .*'w'"),
        (lambda: np.zeros(SHAPE, ">f4"), "must have the machine's byte order, got dtype '>f4'"),
        (lambda: bytearray(8), "got uint8"),
    ],
)
def test_arrays_that_cannot_be_filled(make, message):
    with pytest.raises(ValueError, match=message):
        fanin.normal(out=make(), seed=0)


@pytest.mark.parametrize("out", [[0.0, 0.0], "w", 3, 1.5, types.SimpleNamespace(shape=(2,))])
def test_other_objects_are_no_destination(out):
    message = f"out must be a NumPy array, .* got {type(out).__name__}"
    with pytest.raises(TypeError, match=message):
        fanin.normal(out=out, seed=0)


def test_axes_of_size_1_do_not_overlap():
    out = strided((4, 1, 6), (24, 0, 4))
    fill(out)
    assert same_bits(out, filled((4, 1, 6)))


# dtypes


@pytest.mark.parametrize("name", ITEMSIZE)
def test_dtype_names(name):
    for dtype in (name, numpy_dtype(name), numpy_dtype(name).type, TORCH_DTYPES[name]):
        assert dtype_name(dtype) == name
    assert numpy_dtype(name).itemsize == ITEMSIZE[name]


@pytest.mark.parametrize(
    ("dtype", "message"),
    [
        (
            "flaot32",
            "unknown dtype 'flaot32'; did you mean 'float32'.*allowed: float64, float32, fl",
        ),
        ("bf16", "unknown dtype 'bf16'; did you mean 'bfloat16'"),
        ("fp16", "unknown dtype 'fp16'; did you mean 'float16'"),
        ("float8_e4m3", "unknown dtype 'float8_e4m3'; did you mean 'float8_e4m3fn'"),
        ("complex64", "unknown dtype 'complex64'"),
        (np.complex64, "unknown dtype 'complex64'"),
        (int, "unknown dtype 'int64'"),
        (np.dtype(object), "unknown dtype 'object'"),
        (torch.int8, "unknown dtype 'int8'"),
        (torch.complex64, "unknown dtype 'complex64'"),
        (np.dtype(">f4"), "dtype must have the machine's byte order"),
    ],
)
def test_unknown_dtypes(dtype, message):
    with pytest.raises(ValueError, match=message):
        fanin.normal(3, seed=0, dtype=dtype)


@pytest.mark.parametrize("dtype", [3, 1.5, object(), None])
def test_other_objects_are_no_dtype(dtype):
    with pytest.raises(TypeError, match="dtype must be one of float64, float32"):
        dtype_name(dtype)
