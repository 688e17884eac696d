"""`fanin.torch.init` is `torch.nn.init`: names, signatures, laws, seeds, and what it refuses."""

import inspect
import math
import warnings

import numpy as np
import pytest
import scipy.stats
import torch
from torch._subclasses import FakeTensorMode
from torch.nn import init as theirs

import fanin
import fanin.torch
from fanin.output import ITEMSIZE
from fanin.torch import init as ours
from fanin.torch import sampling
from fanin.torch.init.distributions import _warn_of_no_cut

DTYPES = [getattr(torch, name) for name in ITEMSIZE]
RANDOM = {
    "uniform_": (-0.5, 0.25),
    "normal_": (0.5, 0.25),
    "trunc_normal_": (0.0, 0.5, -0.25, 1.0),
    "xavier_uniform_": (2.0,),
    "xavier_normal_": (2.0,),
    "kaiming_uniform_": (0.5, "fan_out"),
    "kaiming_normal_": (0.5, "fan_out"),
    "orthogonal_": (2.0,),
    "sparse_": (0.4,),
}
"""The functions that sample, with arguments."""

FANS = [name for name in RANDOM if "xavier" in name or "kaiming" in name]
FIXED = {"constant_": (0.5,), "ones_": (), "zeros_": (), "eye_": ()}


def call(name, tensor, **options):
    return getattr(fanin.torch, name)(tensor, *(RANDOM | FIXED)[name], **options)


def filled(name, shape, dtype=torch.float32, seed=0):
    torch.manual_seed(seed)
    return call(name, torch.empty(shape, dtype=dtype))


def same_bits(a, b):
    return a.dtype == b.dtype and torch.equal(
        a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8)
    )


# names and signatures


@pytest.mark.parametrize("name", [*theirs.__all__])
def test_signatures(name):
    one, other = (inspect.signature(getattr(init, name)) for init in (ours, theirs))
    assert [(p.name, p.kind, p.default) for p in one.parameters.values()] == [
        (p.name, p.kind, p.default) for p in other.parameters.values()
    ]
    assert getattr(fanin.torch, name) is getattr(ours, name)


@pytest.mark.parametrize("name", [name for name in theirs.__all__ if f"{name}_" in theirs.__all__])
def test_names_without_underscore_are_deprecated(name):
    arguments = (RANDOM | FIXED).get(f"{name}_", ())
    tensor = torch.zeros(3, 3, 3) if name == "dirac" else torch.zeros(3, 3)
    with pytest.warns(FutureWarning, match=f"{name}_"):
        assert getattr(fanin.torch, name)(tensor, *arguments) is tensor
    assert tensor.any()


# memory


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", [*RANDOM, *FIXED])
def test_in_place_in_any_memory_order(name, dtype):
    expected = filled(name, (4, 6), dtype)
    assert not expected.float().isnan().any()
    for tensor in (
        torch.empty(6, 4, dtype=dtype).T,
        torch.empty(8, 18, dtype=dtype)[::2, ::3],
        torch.empty(5, 4, 6, dtype=dtype)[3],
        torch.nn.Parameter(torch.empty(4, 6, dtype=dtype)),
    ):
        address, requires_grad = tensor.data_ptr(), tensor.requires_grad
        version = tensor._version
        torch.manual_seed(0)
        assert call(name, tensor) is tensor
        assert (tensor.data_ptr(), tensor.requires_grad) == (address, requires_grad)
        assert tensor._version > version
        assert tensor.grad_fn is None
        assert same_bits(tensor.detach(), expected)


def test_memory_between_the_elements_is_untouched():
    base = torch.zeros(8, 18)
    call("normal_", base[::2, ::3])
    base[::2, ::3] = 0
    assert not base.any()


@pytest.mark.parametrize("name", RANDOM)
def test_autograd_sees_the_change(name):
    weight = torch.nn.Parameter(torch.ones(3, 3))
    loss = (weight * weight).sum()
    call(name, weight)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize("text", ["normal", "uniform", "he_normal", "orthogonal"])
@pytest.mark.parametrize("block", [1, 5, 24, 100])
def test_other_devices_get_the_same_values(monkeypatch, text, block):
    monkeypatch.setattr(sampling, "_BLOCK", block)
    law = fanin.initializers.parse(text)
    for tensor in (torch.zeros(4, 3, 2), torch.zeros(2, 3, 4).permute(2, 1, 0)):
        assert sampling.sample_by_copies(tensor, law, 7) is tensor
        assert same_bits(tensor, law.fill(torch.empty(4, 3, 2), seed=7))


# seeds


@pytest.mark.parametrize("name", RANDOM)
def test_manual_seed_rules(name):
    first = filled(name, (4, 4), seed=1)
    second = call(name, torch.empty(4, 4))
    assert not torch.equal(first, second)
    assert not torch.equal(first, filled(name, (4, 4), seed=2))
    assert torch.equal(first, filled(name, (4, 4), seed=1))
    state = torch.get_rng_state()
    with torch.random.fork_rng():
        torch.manual_seed(1)
        assert torch.equal(call(name, torch.empty(4, 4)), first)
    assert torch.equal(call(name, torch.empty(4, 4)), second)
    torch.set_rng_state(state)
    assert torch.equal(call(name, torch.empty(4, 4)), second)


@pytest.mark.parametrize("name", RANDOM)
def test_generator(name):
    expected = filled(name, (4, 4), seed=5)
    state = torch.get_rng_state()
    generator = torch.Generator().manual_seed(5)
    assert torch.equal(call(name, torch.empty(4, 4), generator=generator), expected)
    assert torch.equal(torch.get_rng_state(), state)
    assert not torch.equal(call(name, torch.empty(4, 4), generator=generator), expected)


def test_a_call_is_one_draw_whatever_the_size():
    after = set()
    for size in (1, 10, 100_000):
        torch.manual_seed(0)
        fanin.torch.normal_(torch.empty(size))
        after.add(torch.rand(1).item())
    assert len(after) == 1


def test_seeds_have_64_bits():
    torch.manual_seed(0)
    seeds = [sampling.draw_seed() for _ in range(64)]
    assert all(0 <= seed < 2**64 for seed in seeds)
    for bit in range(64):
        assert 0 < sum(seed >> bit & 1 for seed in seeds) < 64


def test_the_stream_is_that_of_fanin():
    torch.manual_seed(3)
    seed = sampling.draw_seed()
    torch.manual_seed(3)
    tensor = fanin.torch.kaiming_normal_(torch.empty(4, 3, 2), nonlinearity="relu")
    assert np.array_equal(tensor.numpy(), fanin.he_normal((4, 3, 2), seed=seed))


# laws


def expected_law(name, shape):
    """The distribution in scipy's words, from the formulas of torch's documentation."""
    arguments = RANDOM[name]
    receptive = math.prod(shape[2:])
    fan_in, fan_out = shape[1] * receptive, shape[0] * receptive
    if name == "uniform_":
        return scipy.stats.uniform(arguments[0], arguments[1] - arguments[0])
    if name == "normal_":
        return scipy.stats.norm(*arguments)
    if name == "trunc_normal_":
        mean, std, a, b = arguments
        return scipy.stats.truncnorm((a - mean) / std, (b - mean) / std, mean, std)
    if name.startswith("xavier"):
        std = arguments[0] * math.sqrt(2 / (fan_in + fan_out))
    else:
        std = math.sqrt(2 / (1 + arguments[0] ** 2)) / math.sqrt(fan_out)
    if name.endswith("normal_"):
        return scipy.stats.norm(0, std)
    return scipy.stats.uniform(-math.sqrt(3) * std, 2 * math.sqrt(3) * std)


@pytest.mark.parametrize("shape", [(200, 100), (40, 10, 5, 10)])
@pytest.mark.parametrize("name", ["uniform_", "normal_", "trunc_normal_", *FANS])
def test_laws(name, shape):
    law = expected_law(name, shape)
    for init in (ours, theirs):
        torch.manual_seed(0)
        sample = getattr(init, name)(torch.empty(shape), *RANDOM[name]).flatten().numpy()
        assert scipy.stats.kstest(sample, law.cdf).pvalue > 1e-3
        assert abs(sample.std() / law.std() - 1) < 0.02


@pytest.mark.parametrize("dtype", DTYPES[:4], ids=str)
@pytest.mark.parametrize("shape", [(20, 30), (30, 20), (16, 3, 2, 5), (1, 7)])
def test_orthogonal(shape, dtype):
    weight = fanin.torch.orthogonal_(torch.empty(shape, dtype=dtype), gain=2)
    matrix = weight.double().flatten(1)
    if matrix.shape[0] > matrix.shape[1]:
        matrix = matrix.T
    accuracy = 1e-6 if dtype.itemsize > 2 else 16 * torch.finfo(dtype).eps
    assert torch.allclose(matrix @ matrix.T, 4 * torch.eye(len(matrix)).double(), atol=accuracy)


@pytest.mark.parametrize("sparsity", [0.0, 0.1, 0.25, 1.0])
def test_sparse_columns(sparsity):
    torch.manual_seed(0)
    tensor = fanin.torch.sparse_(torch.empty(50, 400), sparsity, std=0.5)
    assert ((tensor == 0).sum(dim=0) == math.ceil(sparsity * 50)).all()
    if sparsity < 1:
        values = tensor[tensor != 0].numpy()
        assert scipy.stats.kstest(values, scipy.stats.norm(0, 0.5).cdf).pvalue > 1e-3


def test_numbers_of_other_types():
    for std in (1, np.float32(0.5), np.float64(0.5), torch.tensor(0.5)):
        torch.manual_seed(0)
        a = fanin.torch.normal_(torch.empty(5), std=std)
        torch.manual_seed(0)
        assert torch.equal(a, fanin.torch.normal_(torch.empty(5), std=float(std)))


def test_zero_widths():
    assert (fanin.torch.uniform_(torch.empty(5), 3.0, 3.0) == 3).all()
    assert (fanin.torch.normal_(torch.empty(5), 3.0, 0.0) == 3).all()
    assert (fanin.torch.trunc_normal_(torch.empty(5), 1.0, 0.0) == 1).all()
    assert not fanin.torch.xavier_uniform_(torch.ones(5, 5), gain=0).any()


# truncation


def test_bounds_are_values_and_warn_once_if_they_cut_nothing():
    _warn_of_no_cut.cache_clear()
    torch.manual_seed(0)
    with pytest.warns(UserWarning, match="are values and cut nothing.*multiply them by std"):
        tensor = fanin.torch.trunc_normal_(torch.empty(10_000), std=0.02)
    fanin.torch.trunc_normal_(torch.empty(3), std=0.02)  # warnings are errors: there is none
    torch.manual_seed(0)
    assert torch.equal(tensor, fanin.torch.normal_(torch.empty(10_000), std=0.02))
    assert tensor.abs().max() > 0.05
    fanin.torch.trunc_normal_(torch.empty(3), std=0.02, a=-math.inf, b=math.inf)


@pytest.mark.parametrize("std", [1e-3, 0.01, 0.02])
def test_bounds_far_out_make_no_spikes(std):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for dtype in (torch.float32, torch.bfloat16):
            tensor = filled_truncated(dtype, std=std)
            assert tensor.isfinite().all()
            assert (tensor / std).abs().max() < 8
            assert abs(tensor.std() / std - 1) < 0.01
            assert abs(tensor.mean() / std) < 0.01


def filled_truncated(dtype, **options):
    torch.manual_seed(0)
    return fanin.torch.trunc_normal_(torch.empty(100_000, dtype=dtype), **options).float()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_bounds_are_kept(dtype):
    tensor = filled_truncated(dtype, std=1.0, a=-0.3, b=0.7)
    assert tensor.min() >= -0.3
    assert tensor.max() <= 0.7


# no-ops


@pytest.mark.parametrize("name", [*RANDOM, "ones_", "zeros_"])
def test_meta_tensors(name):
    state = torch.get_rng_state()
    tensor = torch.empty(3, 3, device="meta")
    assert call(name, tensor) is tensor
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("name", RANDOM)
def test_no_elements(name):
    state = torch.get_rng_state()
    tensor = torch.empty(0, 3)
    if name.startswith("kaiming"):
        with pytest.warns(UserWarning, match="zero-element tensors is a no-op") as record:
            assert call(name, tensor) is tensor
        assert record[0].filename == __file__
    else:
        assert call(name, tensor) is tensor
    assert torch.equal(torch.get_rng_state(), state)


# what is torch's


@pytest.mark.parametrize("name", ["uniform_", "normal_", *FANS])
def test_fake_tensors_and_transforms(name):
    with FakeTensorMode():
        fake = torch.empty(3, 3)
        assert call(name, fake).shape == (3, 3)
    mapped = torch.vmap(lambda x: call(name, x.clone()), randomness="different")
    result = mapped(torch.zeros(2, 3, 3))
    assert not torch.equal(result[0], result[1])
    assert result.all()


@pytest.mark.parametrize("name", ["uniform_", "normal_", "kaiming_uniform_"])
def test_functions_that_are_overridden(name):
    class Recorder:
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            return function.__name__

    assert call(name, Recorder()) == name


# errors

BAD_ARGUMENTS = [
    ("normal_", {"std": -1.0}, "std must be finite and at least 0, got -1.0"),
    ("normal_", {"std": math.nan}, "std must be finite and at least 0, got nan"),
    ("normal_", {"std": math.inf}, "std must be finite and at least 0, got inf"),
    ("normal_", {"mean": math.nan}, "mean must be finite, got nan"),
    ("uniform_", {"a": 1.0, "b": 0.0}, "a must not be above b, got a=1.0, b=0.0"),
    ("uniform_", {"b": math.inf}, "b must be finite, got inf"),
    ("trunc_normal_", {"std": -1.0}, "std must be finite and at least 0, got -1.0"),
    ("trunc_normal_", {"a": 1.0, "b": 0.0}, "a must be below b, got a=1.0, b=0.0"),
    ("trunc_normal_", {"a": 50.0, "b": 60.0}, "37"),
    ("xavier_normal_", {"gain": -1.0}, "gain must be finite and at least 0, got -1.0"),
    ("orthogonal_", {"gain": -1}, "gain must be finite and at least 0, got -1.0"),
    ("sparse_", {"sparsity": 1.5}, "sparsity must be from 0 to 1, got 1.5"),
    ("kaiming_normal_", {"mode": "fan_avg"}, "unknown mode 'fan_avg'.*fan_in, fan_out"),
    ("kaiming_normal_", {"nonlinearity": "gelu"}, "Unsupported nonlinearity gelu"),
    ("kaiming_normal_", {"a": "x"}, "negative_slope x not a valid number"),
]


@pytest.mark.parametrize(("name", "arguments", "message"), BAD_ARGUMENTS)
def test_bad_arguments(name, arguments, message):
    for tensor in (torch.full((3, 3), 7.0), torch.empty(3, 3, device="meta")):
        if tensor.is_meta and message == "37":
            continue
        with pytest.raises(ValueError, match=message):
            getattr(fanin.torch, name)(tensor, **arguments)
        assert tensor.is_meta or (tensor == 7).all()


def test_bounds_beyond_the_dtype():
    tensor = torch.full((3,), 7.0, dtype=torch.float16)
    with pytest.raises(
        ValueError, match=r"b must be from -65504.0 to 65504.0 .*float16, got 100000.0"
    ):
        fanin.torch.uniform_(tensor, 0.0, 1e5)
    with pytest.raises(ValueError, match=r"a must be from .*, got -100000.0"):
        fanin.torch.uniform_(tensor, -1e5)
    assert (tensor == 7).all()


def test_a_generator_of_another_type():
    with pytest.raises(TypeError, match=r"generator must be a torch.Generator or None, got 5"):
        fanin.torch.normal_(torch.empty(3), generator=5)


@pytest.mark.parametrize("name", FANS)
@pytest.mark.parametrize("shape", [(), (3,)])
def test_fans_need_two_axes(name, shape):
    with pytest.raises(ValueError, match="tensor must have 2 axes or more"):
        call(name, torch.empty(shape))


@pytest.mark.parametrize("shape", [(), (3,), (3, 3, 3)])
def test_matrices_need_two_axes(shape):
    with pytest.raises(ValueError, match="tensor must have 2 axes, got shape"):
        fanin.torch.sparse_(torch.empty(shape), 0.5)
    if len(shape) < 2:
        with pytest.raises(ValueError, match="tensor must have 2 axes or more, got shape"):
            fanin.torch.orthogonal_(torch.empty(shape))


@pytest.mark.parametrize("name", RANDOM)
def test_placeholders_of_sharded_weights(name):
    tensor = torch.nn.Parameter(torch.empty(0))
    tensor.ds_shape = torch.Size([30, 20])
    with pytest.raises(ValueError, match="placeholder: DeepSpeed has sharded its 600 elements"):
        call(name, tensor)


def test_a_parameter_without_a_shape():
    with pytest.raises(ValueError, match="uninitialized parameter"):
        fanin.torch.normal_(torch.nn.LazyLinear(3).weight)


def inference_tensor():
    with torch.inference_mode():
        return torch.zeros(3, 3)


BAD_TENSORS = {
    "integers": (lambda: torch.zeros(3, 3, dtype=torch.int64), "float64, .*, got int64"),
    "bool": (lambda: torch.zeros(3, 3, dtype=torch.bool), "got bool"),
    "complex": (lambda: torch.zeros(3, 3, dtype=torch.complex64), "got complex64"),
    "expanded": (lambda: torch.zeros(3, 1).expand(3, 3), r"share memory.*strides \(1, 0\)"),
    "overlapping": (lambda: torch.zeros(9).as_strided((3, 3), (1, 2)), "overlap in memory"),
    "inference": (inference_tensor, "inference tensor"),
    "sparse": (lambda: torch.zeros(3, 3).to_sparse(), "dense"),
}


@pytest.mark.parametrize("name", RANDOM)
@pytest.mark.parametrize("kind", BAD_TENSORS)
def test_bad_tensors(name, kind):
    make, message = BAD_TENSORS[kind]
    tensor = make()
    state = torch.get_rng_state()
    with pytest.raises((ValueError, RuntimeError), match=message):
        call(name, tensor)
    assert not tensor.to_dense().any() if kind == "sparse" else not tensor.any()
    if kind in ("integers", "bool", "complex", "expanded", "inference"):
        assert torch.equal(torch.get_rng_state(), state)


def test_inference_mode():
    torch.manual_seed(0)
    expected = fanin.torch.normal_(torch.empty(3, 3))
    ordinary = torch.zeros(3, 3)
    with torch.inference_mode():
        for tensor in (torch.zeros(3, 3), ordinary):
            torch.manual_seed(0)
            assert torch.equal(fanin.torch.normal_(tensor), expected)
    assert ordinary._version == 1


def test_narrow_dtypes_reach_the_tails():
    torch.manual_seed(0)
    sample = fanin.torch.normal_(torch.empty(4_000_000, dtype=torch.bfloat16)).float()
    assert 4.7 < sample.abs().max() < 6.7


def test_one_law_for_all_names():
    """Each alias is of the function that it names, no other."""
    for name in RANDOM.keys() - {"trunc_normal_"}:
        torch.manual_seed(0)
        with pytest.warns(FutureWarning):
            alias = getattr(fanin.torch, name[:-1])(torch.empty(5, 4), *RANDOM[name])
        assert torch.equal(alias, filled(name, (5, 4)))
