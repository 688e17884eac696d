"""Identity, dirac, sparse and sinusoids: by layout, in regions, in every dtype; against torch."""

import math

import ml_dtypes
import numpy as np
import pytest
import torch

import fanin
import reference
from fanin.initializers import Dirac, Identity, Sinusoids, Sparse, parse, sparse

CASES = {
    "identity": (Identity(0.7), [((6, 9), "oi"), ((9, 6), "io"), ((2, 5, 4), "boi")]),
    "identity of heads": (Identity(2.0), [((12, 3, 4), "ioo"), ((3, 4, 12), "iio")]),
    "dirac": (Dirac(), [((5, 4, 3), "oik"), ((4, 5, 3, 2), "iokk"), ((3, 3, 4, 6), "kkio")]),
    "dirac in groups": (Dirac(2), [((6, 2, 3, 4), "oikk"), ((6, 2, 3), "iok")]),
    "sparse": (Sparse(0.6, 0.5), [((40, 30), "oi"), ((30, 40), "io"), ((12, 3, 5, 4), "bkio")]),
    "sinusoids": (Sinusoids(), [((700, 96), "oi"), ((9, 5), "oi"), ((5, 3, 4, 2), "oibo")]),
    "sinusoids in halves": (Sinusoids("halves"), [((300, 64), "oi"), ((6, 2, 40), "ibo")]),
    "sparse heads": (Sparse(0.3), [((9, 4, 5), "ioo"), ((7, 6, 3, 3), "oikk"), ((50,), "o")]),
}
EXAMPLES = [(init, *case) for init, cases in CASES.values() for case in cases]


def ids(value):
    return str(value) if not isinstance(value, tuple) else "x".join(map(str, value))


def sample(init, shape, layout, dtype="float32", **options):
    """The matrix, or a region of it."""
    region = options.get("region", (slice(None),) * len(shape))
    extent = [len(range(size)[part]) for size, part in zip(shape, region, strict=True)]
    out = np.full(extent, 7, reference.DTYPES[dtype])
    return init.fill(out, seed=5, name="w", layout=layout, shape=shape, **options)


def as_matrices(array, layout):
    """The array as (batch, rows, columns), as the documentation has it."""
    axes = [[i for i, letter in enumerate(layout) if letter in kind] for kind in ("b", "o", "ik")]
    sizes = [math.prod(array.shape[axis] for axis in group) for group in axes]
    return array.transpose([axis for group in axes for axis in group]).reshape(sizes)


# All of them


@pytest.mark.parametrize(("init", "shape", "layout"), EXAMPLES, ids=ids)
def test_any_region_is_that_part_of_the_whole(init, shape, layout):
    whole = sample(init, shape, layout)
    random = np.random.default_rng(0)
    for threads in (1, 2, 3, 7):
        bounds = [sorted(random.integers(0, size + 1, 2).tolist()) for size in shape]
        region = tuple(slice(low, high) for low, high in bounds)
        part = sample(init, shape, layout, region=region, threads=threads)
        assert part.tobytes() == whole[region].tobytes(), region


@pytest.mark.parametrize(("init", "shape", "layout"), EXAMPLES, ids=ids)
def test_strides_change_nothing(init, shape, layout):
    whole = sample(init, shape, layout)
    memory = np.full([2 * size + 1 for size in shape], 7, np.float32)
    out = memory[tuple(slice(1, None, 2) for _ in shape)].T[::-1]
    out = out[::-1].T
    init.fill(out, seed=5, name="w", layout=layout)
    assert out.tobytes() == whole.tobytes()
    assert (memory == 7).sum() == memory.size - whole.size + (whole == 7).sum()
    tensor = torch.full(shape[::-1], 7, dtype=torch.float32).permute(*range(len(shape))[::-1])
    version = tensor._version
    init.fill(tensor, seed=5, name="w", layout=layout)
    assert tensor.numpy().tobytes() == whole.tobytes()
    assert tensor._version > version


@pytest.mark.parametrize("dtype", reference.DTYPES)
@pytest.mark.parametrize(("init", "shape", "layout"), EXAMPLES, ids=ids)
def test_narrow_dtypes_are_the_float32_value_rounded_once(init, shape, layout, dtype):
    values = sample(init, shape, layout, dtype)
    if dtype == "float64":
        assert ((values != 0).sum() == (sample(init, shape, layout) != 0).sum()).all()
        return
    expected = reference.round_to(sample(init, shape, layout), dtype)
    assert np.array_equal(reference.bits(values), reference.bits(expected))


@pytest.mark.parametrize(("init", "shape", "layout"), EXAMPLES, ids=ids)
def test_standard_deviation_is_that_of_a_random_element(init, shape, layout):
    std = init.standard_deviation(shape, layout)
    values = sample(init, shape, layout, "float64")
    if isinstance(init, Sparse):
        kept = (values != 0).mean()
        assert std == pytest.approx(init.std * math.sqrt(kept), rel=1e-12)
    else:
        assert std == pytest.approx(values.std(), rel=1e-12)


# Identity


@pytest.mark.parametrize("shape", [(4, 4), (3, 7), (7, 3), (1, 5), (5, 1), (0, 3), (3, 0)])
def test_identity_is_that_of_torch(shape):
    assert np.array_equal(
        fanin.identity(shape, seed=0), torch.nn.init.eye_(torch.empty(shape)).numpy()
    )


@pytest.mark.parametrize(
    ("init", "shape", "layout"), [e for e in EXAMPLES if isinstance(e[0], Identity)], ids=ids
)
def test_identity_by_layout(init, shape, layout):
    matrices = as_matrices(sample(init, shape, layout), layout)
    expected = np.eye(*matrices.shape[1:], dtype=np.float32) * np.float32(init.gain)
    assert (matrices == expected).all()


def test_identity_rounds_its_gain_once():
    values = fanin.identity((2, 2), gain=1 + 2**-8 + 2**-30, seed=0, dtype="bfloat16")
    assert values[0, 0] == ml_dtypes.bfloat16(1)  # not up, by way of float32
    assert str(parse("identity(gain=relu)")) == f"identity(gain={math.sqrt(2)!r})"


# Dirac


@pytest.mark.parametrize(
    ("shape", "groups"),
    [
        ((4, 4, 3), 1),
        ((3, 5, 4, 2), 1),
        ((5, 3, 1, 2, 6), 1),
        ((3, 1, 3, 3), 3),
        ((6, 2, 3, 3), 3),
        ((4, 5, 3), 2),
        ((0, 2, 3), 1),
    ],
)
def test_dirac_is_that_of_torch(shape, groups):
    expected = torch.nn.init.dirac_(torch.empty(shape), groups).numpy()
    assert np.array_equal(fanin.dirac(shape, groups=groups, seed=0), expected)
    by_fill = Dirac().fill(np.empty(shape, np.float32), seed=0, groups=groups)
    assert np.array_equal(by_fill, expected)


@pytest.mark.parametrize("groups", [1, 2])
def test_dirac_lets_channels_through_a_transposed_convolution(groups):
    weight = torch.from_numpy(fanin.dirac((6, 6 // groups, 3), layout="iok", groups=groups, seed=0))
    signal = torch.randn(2, 6, 10)
    out = torch.nn.functional.conv_transpose1d(signal, weight, groups=groups, padding=1)
    assert torch.equal(out, signal)


# Sparse


def zeros_by_the_rule(shape, layout, count, values):
    """Where the zeros are, element by element from the generator's draws."""
    batch, rows, columns = as_matrices(np.empty(shape), layout).shape
    position = fanin.position(5, "w")
    zero = np.zeros((batch * columns, rows), bool)
    for column in range(batch * columns):
        ranks = reference.draws(position, values + column * rows, rows) >> np.uint64(8)
        zero[column, np.argsort(ranks, kind="stable")[:count]] = True
    return zero.reshape(batch, columns, rows).transpose(0, 2, 1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("init", "shape", "layout"), [e for e in EXAMPLES if isinstance(e[0], Sparse)], ids=ids
)
def test_sparse_by_the_rule(init, shape, layout, dtype):
    values = sample(init, shape, layout, dtype)
    matrices = as_matrices(values, layout)
    count = math.ceil(init.sparsity * matrices.shape[1])
    draws = values.size + values.size % 2 if dtype == "float64" else (values.size + 1) // 2
    zero = zeros_by_the_rule(shape, layout, count, draws)
    assert np.array_equal(matrices == 0, zero)
    normal = parse(f"normal(std={init.std})")
    kept = as_matrices(sample(normal, shape, layout, dtype), layout)
    assert np.array_equal(matrices[~zero], kept[~zero])
    assert init.filler(shape, layout, 1, dtype).draws == draws + values.size


def test_ties_go_to_the_first_rows(monkeypatch):
    monkeypatch.setattr(sparse, "_UNUSED_BITS", 61)  # ranks from 0 to 7
    values = sample(Sparse(0.4), (50, 20), "oi")
    ranks = [
        reference.draws(fanin.position(5, "w"), 500 + 50 * column, 50) >> np.uint64(61)
        for column in range(20)
    ]
    for column, rank in enumerate(ranks):
        expected = np.sort(np.argsort(rank, kind="stable")[:20])
        assert np.array_equal(np.flatnonzero(values[:, column] == 0), expected)


@pytest.mark.parametrize("sparsity", [0, 1e-9, 0.1, 0.5, 0.9, 0.97, 1])
@pytest.mark.parametrize("shape", [(10, 7), (1, 7), (7, 1), (64, 1000), (0, 3), (3, 0)])
def test_each_column_has_its_zeros(shape, sparsity):
    values = fanin.sparse(shape, sparsity=sparsity, std=1, seed=1)
    assert values.shape == shape
    assert ((values == 0).sum(axis=0) == math.ceil(sparsity * shape[0])).all()


def test_every_row_is_as_likely():
    """Each row of a million columns is zero in its share of them, whatever its neighbour is."""
    zero = fanin.sparse((4, 2**20), sparsity=0.5, seed=2) == 0
    patterns = np.bincount(np.array([8, 4, 2, 1]) @ zero, minlength=16)
    expected = zero.shape[1] / 6  # two of four
    observed = patterns[patterns > 0]
    assert len(observed) == 6
    assert (np.square(observed - expected) / expected).sum() < 41.5  # chi-square, 5 degrees: 1e-7


def test_kept_values_are_normal():
    values = fanin.sparse((1000, 1000), sparsity=0.75, std=0.1, seed=3, dtype="float64")
    kept = values[values != 0] / 0.1
    assert len(kept) == 250_000
    assert abs(kept.mean()) < 5 / 500
    assert abs(kept.std() - 1) < 5 / math.sqrt(2 * len(kept))
    assert fanin.initializers.Sparse(0.75, 0.1).standard_deviation((1000, 1000)) == 0.05


# Errors


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fanin.identity(4, seed=0), r"shape \(4,\) has 1 axes.*pass a layout"),
        (lambda: fanin.identity((4, 4, 3), seed=0), r"identity needs a matrix.*use dirac"),
        (lambda: fanin.identity((4, 4), gain=-1, seed=0), "gain must be finite and at least 0"),
        (lambda: fanin.identity((4, 4), gain=math.nan, seed=0), "gain must be finite.*got nan"),
        (lambda: fanin.identity((4, 4), gain=1e39, seed=0), r"gain = 1e\+39 is too large for fl"),
        (lambda: fanin.dirac((4, 4), seed=0), r"dirac needs a convolution with 1 to 3 kernel axes"),
        (lambda: fanin.dirac((4,) * 6, seed=0), r"1 to 3 kernel axes \(k\), got shape \(4, 4, 4"),
        (lambda: fanin.dirac((4, 4, 3), groups=3, seed=0), "groups must divide the 4 outputs"),
        (lambda: fanin.dirac((4, 4, 3), groups=0, seed=0), "groups must be at least 1, got 0"),
        (lambda: fanin.sparse(4, sparsity=0.5, seed=0), r"shape \(4,\) has 1 axes.*pass a layout"),
        (lambda: fanin.sparse((4, 4), sparsity=1.5, seed=0), "sparsity must be from 0 to 1, got 1"),
        (lambda: fanin.sparse((4, 4), sparsity=math.nan, seed=0), "from 0 to 1, got nan"),
        (lambda: fanin.sparse((4, 4), sparsity=0.5, std=-1, seed=0), "std must be finite and at l"),
        (lambda: fanin.sparse((4, 4), sparsity=0.5, std=1e39, seed=0), "std = .* is too large"),
        (
            lambda: Dirac(2).fill(np.empty((6, 2, 3)), seed=0, groups=3),
            r"groups=3 contradicts dirac\(groups=2\)",
        ),
    ],
)
def test_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_sparse_needs_its_sparsity():
    with pytest.raises(TypeError, match="sparsity"):
        fanin.sparse((4, 4), seed=0)
    with pytest.raises(ValueError, match="missing a required argument: 'sparsity'"):
        parse("sparse")


@pytest.mark.parametrize("init", [Identity(), Dirac(), Sparse(0.5)], ids=str)
def test_errors_leave_out_untouched(init):
    for out in (np.full(5, 7, np.float32), np.full((5, 5, 5), 7, np.int32)):
        with pytest.raises(ValueError, match=r"1 axes|kernel axes|must have one of the dtypes"):
            init.fill(out, seed=0)
        assert (out == 7).all()
