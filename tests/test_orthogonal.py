"""Orthogonal matrices: the definition by layout, Haar's law, errors, regions, dtypes.

The law is tested on many small matrices of one batched call. That a fault in the reflectors is seen
by it (a sign that is missing, an order that is wrong) is what test_faults.py plants.
"""

import math

import numpy as np
import pytest
import torch
from scipy import special, stats

import fanin
import reference
from fanin.initializers import DeltaOrthogonal, Orthogonal, parse

SHAPES = [
    ((6, 9), "oi"),
    ((9, 6), "oi"),
    ((7, 7), "oi"),
    ((1, 8), "oi"),
    ((8, 1), "oi"),
    ((1, 1), "oi"),
    ((5,), "o"),
    ((5,), "i"),
    ((140, 150), "io"),
    ((3, 4, 5, 6), "oikk"),
    ((40, 2, 3), "oik"),
    ((3, 2, 4, 50), "kkio"),
    ((12, 3, 4), "ioo"),
    ((30, 3, 4), "ioo"),
    ((4, 6, 5), "boi"),
    ((2, 5, 3, 6), "bobi"),
    ((3, 140, 131), "bio"),
]
ERROR = {"float32": 3e-6, "float64": 1e-14}


def sample(shape, layout=None, dtype="float32", gain=1.0, **options):
    """The matrix, or a region of it, by way of the initializer."""
    region = options.get("region", (slice(None),) * len(shape))
    extent = [len(range(size)[part]) for size, part in zip(shape, region, strict=True)]
    out = np.full(extent, 7, reference.DTYPES[dtype])
    return Orthogonal(gain).fill(out, seed=5, name="w", layout=layout, shape=shape, **options)


def as_matrices(array, layout):
    """The array as (batch, rows, columns): `b` axes, `o` axes, all others."""
    axes = [[i for i, letter in enumerate(layout) if letter in kind] for kind in ("b", "o", "ik")]
    sizes = [math.prod(array.shape[axis] for axis in group) for group in axes]
    return array.transpose([axis for group in axes for axis in group]).reshape(sizes)


def by_definition(shape, layout, dtype):
    """The matrices from the reflectors one by one, in float64, of the same normals."""
    batch, rows, columns = as_matrices(np.empty(shape), layout).shape
    short, long = sorted((rows, columns))
    normals = fanin.normal((batch, short, long), seed=5, name="w", dtype=dtype).astype(np.float64)
    vectors = np.zeros((batch, short, long))
    for matrix, x in zip(vectors, normals, strict=True):
        for k in reversed(range(short)):
            v = np.append(np.zeros(k), x[k, k:])
            sign = math.copysign(1.0, v[k])
            v[k] += sign * math.sqrt(v @ v)
            matrix[k, k] = -sign
            matrix[k:] -= np.outer(matrix[k:] @ v, 2 / (v @ v) * v)
    return vectors if rows <= columns else vectors.transpose(0, 2, 1)


def gram_error(matrix):
    """Largest element of Q Q^T - I along the short side, summed in float64."""
    q = matrix.astype(np.float64)
    q = q if q.shape[0] <= q.shape[1] else q.T
    return np.abs(q @ q.T - np.eye(len(q))).max()


# The definition


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("shape", "layout"), SHAPES, ids=str)
def test_by_definition(shape, layout, dtype):
    matrices = as_matrices(sample(shape, layout, dtype), layout)
    np.testing.assert_allclose(
        matrices, by_definition(shape, layout, dtype), rtol=0, atol=ERROR[dtype]
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("shape", "layout"), SHAPES, ids=str)
def test_vectors_along_the_short_side_are_orthonormal(shape, layout, dtype):
    for matrix in as_matrices(sample(shape, layout, dtype), layout):
        assert gram_error(matrix) < ERROR[dtype] / 4


def test_rows_are_the_first_axis_as_in_torch():
    """Also of a convolution, whose columns are all the rest."""
    values = fanin.orthogonal((3, 4, 5, 6), seed=0)
    assert gram_error(values.reshape(3, 120)) < 1e-6
    assert np.array_equal(values.reshape(3, 120), fanin.orthogonal((3, 120), seed=0))
    theirs = torch.nn.init.orthogonal_(torch.empty(3, 4, 5, 6)).numpy()
    assert gram_error(theirs.reshape(3, 120)) < 1e-6


def test_the_matrices_of_a_batch_are_independent():
    a, b = fanin.orthogonal((2, 64, 64), layout="boi", seed=0).astype(np.float64)
    assert gram_error(a) < 1e-6
    assert gram_error(b) < 1e-6
    assert abs(np.trace(a @ b.T)) < 6  # of a standard normal; 64 if they were equal
    alone = fanin.orthogonal((1, 64, 64), layout="boi", seed=0)[0]
    assert np.array_equal(alone, a.astype(np.float32))


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0), (3, 0, 2), (0, 4, 4)])
def test_no_elements(shape):
    assert fanin.orthogonal(shape, layout="boi"[-len(shape) :], seed=0).shape == shape


def test_the_gain_is_a_factor():
    unit = sample((20, 30), "oi")
    assert np.array_equal(sample((20, 30), "oi", gain=2.0), 2 * unit)
    scaled = fanin.orthogonal((20, 30), gain="relu", seed=5, name="w")
    assert np.array_equal(scaled, unit * np.float32(math.sqrt(2)))
    zero = sample((20, 30), "oi", gain=0.0)
    assert not zero.any()
    assert not np.signbit(zero).any()
    assert Orthogonal(0.0).filler((20, 30), None, 1, "float32").draws == 0


def test_draws_and_standard_deviation():
    for dtype, draws in (("float32", 2 * 15 * 7 // 2), ("bfloat16", 105), ("float64", 210)):
        assert Orthogonal().filler((2, 15, 7), "bio", 1, dtype).draws == draws
    assert Orthogonal(3.0).standard_deviation((2, 16, 7), "bio") == 3 / 4
    assert Orthogonal(3.0).standard_deviation((0, 0)) == 3
    assert DeltaOrthogonal(3.0).standard_deviation((5, 4, 0)) == 3
    values = fanin.orthogonal((500, 1600), seed=0)
    assert values.std() == pytest.approx(1 / 40, rel=1e-3)
    assert str(parse("orthogonal(gain=tanh)")) == f"orthogonal(gain={5 / 3!r})"
    assert parse("orthogonal") == Orthogonal() != DeltaOrthogonal()


# Precision


@pytest.mark.parametrize("shape", [(1024, 1024), (1000, 1300), (1300, 1000)])
def test_error_at_1024(shape):
    ours = gram_error(fanin.orthogonal(shape, seed=0))
    torch.manual_seed(0)
    theirs = gram_error(torch.nn.init.orthogonal_(torch.empty(shape)).numpy())
    assert ours < 1e-6
    assert ours < theirs
    assert gram_error(fanin.orthogonal(shape, seed=0, dtype="float64")) < 1e-14


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("shape", [(64, 1, 5, 5), (140, 130)])
def test_narrow_dtypes_are_the_float32_value_rounded_once(shape, dtype):
    values = fanin.orthogonal(shape, gain="tanh", seed=1, dtype=dtype)
    expected = reference.round_to(fanin.orthogonal(shape, gain="tanh", seed=1), dtype)
    assert np.array_equal(reference.bits(values), reference.bits(expected))


# Regions and strides


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize(("shape", "layout"), SHAPES, ids=str)
def test_any_region_is_that_part_of_the_whole(shape, layout, dtype):
    whole = sample(shape, layout, dtype, gain=1.5)
    random = np.random.default_rng(1)
    for threads in (1, 2, 3, 7):
        bounds = [sorted(random.integers(0, size + 1, 2).tolist()) for size in shape]
        region = tuple(slice(low, high) for low, high in bounds)
        part = sample(shape, layout, dtype, gain=1.5, region=region, threads=threads)
        assert part.tobytes() == whole[region].tobytes(), region


def test_ranks_of_a_sharded_matrix():
    whole = fanin.orthogonal((400, 300), seed=0, name="w")
    for region in (
        np.s_[100:200, 0:300],
        np.s_[0:400, 75:150],
        np.s_[399:400, 0:300],
        np.s_[0:400, 299:300],
        np.s_[123:124, 45:46],
    ):
        part = fanin.orthogonal((400, 300), seed=0, name="w", region=region)
        assert part.tobytes() == whole[region].tobytes(), region


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize(("shape", "layout"), SHAPES, ids=str)
def test_strides_change_nothing(shape, layout, dtype):
    whole = sample(shape, layout, dtype)
    memory = np.full([2 * size + 1 for size in shape[::-1]], 7, whole.dtype)
    out = memory[(slice(1, None, 2),) * len(shape)].T[::-1]
    Orthogonal().fill(out, seed=5, name="w", layout=layout)
    assert out.tobytes() == whole.tobytes()
    assert (memory == 7).sum() == memory.size - whole.size


def test_torch_tensors_are_filled_in_place():
    tensor = torch.full((30, 40), 7, dtype=torch.bfloat16).T
    version = tensor._version
    assert fanin.orthogonal(out=tensor, seed=0, name="w") is tensor
    expected = fanin.orthogonal((40, 30), seed=0, name="w", dtype="bfloat16")
    assert tensor.view(torch.int16).numpy().tobytes() == expected.tobytes()
    assert tensor._version > version


# Haar


def many(count, rows, columns, seed=0):
    """Independent matrices, in float64 for what is computed of them."""
    shape = (count, rows, columns)
    return fanin.orthogonal(shape, layout="boi", seed=seed, name="haar").astype(np.float64)


def check_uniform(values):
    """Kolmogorov and Smirnov's test of values that should be uniform on [0, 1]."""
    assert stats.kstest(values, "uniform").pvalue > 1e-6


def check_mean(values, mean, std):
    """The mean of independent values, to 5 standard errors."""
    assert abs(values.mean() - mean) < 5 * std / math.sqrt(len(values)), values.mean()


@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        *((n, n) for n in range(1, 9)),
        (64, 64),
        (192, 192),
        (3, 5),
        (5, 3),
        (1, 4),
        (4, 1),
        (2, 64),
        (64, 2),
    ],
)
def test_corner_entries(rows, columns):
    """An entry is one coordinate of a point on a sphere: its square is Beta(1/2, (n - 1) / 2)."""
    long = max(rows, columns)
    matrices = many(2**20 // (rows * columns * 8) + 500, rows, columns)
    for i in {0, rows - 1}:
        for j in {0, columns - 1}:
            entries = matrices[:, i, j]
            check_mean(np.sign(entries), 0, 1)
            squares = np.minimum(np.square(entries), 1)  # rounding
            if long == 1:
                np.testing.assert_allclose(squares, 1, rtol=1e-6)
            else:
                check_uniform(special.betainc(0.5, (long - 1) / 2, squares))


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6, 7, 8, 64])
def test_traces_and_determinants(n):
    """E tr Q = 0 and E (tr Q)^2 = 1, and as many rotations as reflections."""
    matrices = many(20_000 if n < 64 else 1000, n, n, seed=1)
    traces = np.trace(matrices, axis1=1, axis2=2)
    check_mean(traces, 0, 1)
    check_mean(np.square(traces), 1, np.square(traces).std())
    signs = np.sign(np.linalg.det(matrices))
    check_mean(signs, 0, 1)
    check_mean(signs * np.sign(matrices[:, -1, -1]), 0, 1)
    # A rotation and a reflection have the same entries.
    check_mean(signs * np.square(matrices[:, -1, -1]), 0, 3**0.5 / n)


def test_powers_have_the_traces_of_normals():
    """tr Q^j is normal with variance j, and mean 1 for even j (Diaconis and Shahshahani 1994)."""
    power = matrices = many(1000, 64, 64, seed=2)
    for j in range(1, 7):
        traces = np.trace(power, axis1=1, axis2=2)
        mean = 1 - j % 2
        check_mean(traces, mean, math.sqrt(j))
        check_mean(np.square(traces - mean), j, j * math.sqrt(2))
        check_uniform(special.ndtr((traces - mean) / math.sqrt(j)))
        power = power @ matrices


def test_angles_in_the_plane_are_uniform():
    matrices = many(50_000, 2, 2, seed=3)
    angle = np.arctan2(matrices[:, 1, 0], matrices[:, 0, 0])
    for side in (1, -1):  # rotations by the angle; reflections about half of it
        check_uniform(angle[np.sign(np.linalg.det(matrices)) == side] / (2 * math.pi) + 0.5)


def test_angles_of_rotations_in_space():
    """The angle of a rotation in three dimensions has the density (1 - cos) / pi on [0, pi]."""
    matrices = many(50_000, 3, 3, seed=4)
    matrices *= np.sign(np.linalg.det(matrices))[:, None, None]  # -Q of a reflection is a rotation
    angle = np.arccos(np.clip((np.trace(matrices, axis1=1, axis2=2) - 1) / 2, -1, 1))
    check_uniform((angle - np.sin(angle)) / math.pi)


def test_spacings_of_eigenvalues():
    """Eigenvalues repel each other on the circle as those of scipy's matrices do."""

    def spacings(matrices):
        angles = np.sort(np.angle(np.linalg.eigvals(matrices)), axis=1)
        upper = angles[:, 34:60]  # within (0, pi), away from the real ones
        return np.diff(upper).ravel() * 64 / (2 * math.pi)

    ours = spacings(many(300, 64, 64, seed=5))
    theirs = spacings(stats.ortho_group.rvs(64, 300, random_state=np.random.default_rng(6)))
    assert stats.ks_2samp(ours, theirs).pvalue > 1e-4
    assert ours.mean() == pytest.approx(1, abs=0.02)
    assert np.mean(ours < 0.1) < 0.01  # a tenth of them, were they not to repel


@pytest.mark.parametrize("shape", [(4, 6), (6, 4), (64, 100)])
def test_a_rotation_of_the_columns_changes_nothing(shape):
    """Any fixed vector is mapped to a uniform direction: the law does not depend on the basis."""
    matrices = many(20_000 if shape[0] < 64 else 1000, *shape, seed=7)
    vectors = matrices if shape[0] <= shape[1] else matrices.transpose(0, 2, 1)
    short, long = vectors.shape[1:]
    direction = np.random.default_rng(8).normal(size=long)
    direction /= np.linalg.norm(direction)
    mixture = np.random.default_rng(9).normal(size=short)
    mixture /= np.linalg.norm(mixture)
    square = np.minimum(np.square(mixture @ vectors @ direction), 1)
    check_uniform(special.betainc(0.5, (long - 1) / 2, square))
    # The part of the direction in the space of the vectors.
    part = np.square(vectors @ direction).sum(axis=1)
    if short < long:
        check_uniform(special.betainc(short / 2, (long - short) / 2, part))


# Delta-orthogonal


@pytest.mark.parametrize(
    ("shape", "layout"),
    [
        ((6, 4, 3), "oik"),
        ((4, 4, 3, 4), "oikk"),
        ((3, 2, 4, 2, 7), "kkiko"),
        ((2, 5, 3, 4), "boik"),
    ],
)
def test_delta_orthogonal(shape, layout):
    init = DeltaOrthogonal(1.5)
    whole = init.fill(np.full(shape, 7, np.float32), seed=0, name="w", layout=layout)
    middle = tuple(
        (size - 1) // 2 if letter == "k" else slice(None)
        for size, letter in zip(shape, layout, strict=True)
    )
    rest = layout.replace("k", "")
    tap = whole[middle]
    assert np.array_equal(
        tap, Orthogonal(1.5).fill(np.empty(tap.shape, np.float32), seed=0, name="w", layout=rest)
    )
    for matrix in as_matrices(tap, rest):
        assert matrix.shape[0] >= matrix.shape[1]
        assert gram_error(matrix / 1.5) < 1e-6
    assert np.count_nonzero(whole) == tap.size
    assert init.standard_deviation(shape, layout) == pytest.approx(
        np.sqrt(np.square(whole.astype(np.float64)).mean()), rel=1e-5
    )
    random = np.random.default_rng(0)
    for _ in range(6):
        bounds = [sorted(random.integers(0, size + 1, 2).tolist()) for size in shape]
        region = tuple(slice(low, high) for low, high in bounds)
        part = np.full(whole[region].shape, 7, np.float32)
        init.fill(part, seed=0, name="w", layout=layout, shape=shape, region=region)
        assert part.tobytes() == whole[region].tobytes()


def test_delta_orthogonal_keeps_the_norm():
    weight = torch.from_numpy(fanin.delta_orthogonal((8, 5, 3, 3), seed=0, dtype="float64"))
    signal = torch.randn(2, 5, 9, 9, dtype=torch.float64)
    out = torch.nn.functional.conv2d(signal, weight, padding=1)
    assert out.norm() == pytest.approx(signal.norm().item(), rel=1e-12)


# Errors


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda o: fanin.orthogonal(5, seed=0), ValueError, r"shape \(5,\) has 1 axes.*pass a lay"),
        (lambda o: fanin.orthogonal(out=o[0], seed=0), ValueError, r"shape \(6,\) has 1 axes"),
        (
            lambda o: fanin.orthogonal((5, 6), dtype="int32", seed=0),
            ValueError,
            "unknown dtype 'int32'.*allowed: float64",
        ),
        (
            lambda o: fanin.orthogonal(out=o.view(np.int32), seed=0),
            ValueError,
            "out must have one of the dtypes float64, .*got int32",
        ),
        (
            lambda o: fanin.orthogonal(out=o.view(np.complex64), seed=0),
            ValueError,
            "got complex64",
        ),
        (
            lambda o: fanin.orthogonal(out=o, gain=math.nan, seed=0),
            ValueError,
            "gain must be finite and at least 0, got nan",
        ),
        (
            lambda o: fanin.orthogonal(out=o, gain=math.inf, seed=0),
            ValueError,
            "gain must be finite and at least 0, got inf",
        ),
        (
            lambda o: fanin.orthogonal(out=o, gain=-1, seed=0),
            ValueError,
            "gain must be finite and at least 0, got -1.0",
        ),
        (
            lambda o: fanin.orthogonal(out=o, gain=1e39, seed=0),
            ValueError,
            r"gain = 1e\+39 is too large for float32",
        ),
        (
            lambda o: fanin.orthogonal(out=o, gain=1e-50, seed=0),
            ValueError,
            "gain = 1e-50 is too small for float32",
        ),
        (
            lambda o: fanin.orthogonal(out=o, gain="rleu", seed=0),
            ValueError,
            "unknown nonlinearity 'rleu'",
        ),
        (lambda o: fanin.orthogonal(out=o, gain=None, seed=0), TypeError, "real number, got None"),
        (lambda o: fanin.orthogonal(out=o, layout="oik", seed=0), ValueError, "names 3 axes"),
        (
            lambda o: fanin.orthogonal(out=o, groups=2, seed=0),
            TypeError,
            "unknown argument of orthogonal 'groups'",
        ),
        (
            lambda o: fanin.delta_orthogonal(out=o, seed=0),
            ValueError,
            r"needs a convolution with 1 to 3 kernel axes \(k\), got shape \(5, 6\) with layout",
        ),
        (
            lambda o: fanin.delta_orthogonal((2,) * 6, seed=0),
            ValueError,
            "1 to 3 kernel axes",
        ),
        (
            lambda o: fanin.delta_orthogonal(out=o[:, :, None], seed=0),
            ValueError,
            r"as many outputs as inputs, or more; got 5 outputs and 6 inputs: shape \(5, 6, 1\)",
        ),
        (
            lambda o: fanin.delta_orthogonal(out=o.T[:, :, None], gain=-2, seed=0),
            ValueError,
            "gain must be finite and at least 0, got -2.0",
        ),
    ],
)
def test_errors_leave_out_untouched(call, error, message):
    out = np.full((5, 6), 7, np.float32)
    with pytest.raises(error, match=message):
        call(out)
    assert (out == 7).all()
