"""Tensors of matrices that are made as a whole: the bits of memory, whatever the bands."""

import os
import tracemalloc

import numpy as np
import pytest
from safetensors.numpy import load_file

from fanin import position
from fanin.checkpoint import banded_tensors, write
from fanin.checkpoint.banded_tensors import BandedTensor, write_banded
from fanin.families.layers import embedding
from fanin.initializers import Initializer, parse
from fanin.model import PADDING, Part, Tensor
from fanin.plan import Entry, joined_parts
from tiny_models import tiny_plan

RULES = {
    "gpt2": [
        ("*.c_attn.weight#key", "sparse(sparsity=0.5)"),
        ("*.c_attn.weight#query", "orthogonal"),
        ("*.c_fc.weight", "identity"),
    ],
    "llama": [
        ("*_proj.weight", "orthogonal(gain=relu)"),
        ("model.layers.0.mlp.*", "sparse(0.7)"),
        ("lm_head.*", "identity(gain=2)"),
    ],
    "bert": [("*.word_embeddings.weight", "orthogonal"), ("*.dense.weight", "sparse(0.25)")],
}


def expected(tensor, fillers, dtype, seed=0):
    """The tensor, each part of it cut out of its whole matrix."""
    out = np.zeros(tensor.shape, dtype)
    for part, filler in zip(tensor.parts, fillers, strict=True):
        matrix = np.empty(part.shape, dtype)
        if matrix.size > 0:
            filler.fill(matrix, position(seed, part.name), (0,) * matrix.ndim, 1)
        here = tuple(slice(a, a + n) for a, n in zip(part.start, part.extent, strict=True))
        there = tuple(
            slice(a, a + step * (n - 1) + 1, step)
            for a, n, step in zip(part.tensor_start, part.extent, part.tensor_step, strict=True)
        )
        out[there] = matrix[here]
    return out


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("band", [2**26, 500, 1])
def test_a_checkpoint_has_the_arrays_of_its_names(name, band, tmp_path, monkeypatch):
    monkeypatch.setattr(banded_tensors, "BAND_BYTES", band)
    plan = tiny_plan(name, dtype="float32", overrides=RULES[name], seed=3)
    seen = []
    write(plan, tmp_path, threads=2, progress=lambda *done: seen.append(done))
    stored = load_file(tmp_path / "model.safetensors")
    for entry in plan.entries:
        fillers = [
            initializer.filler(part.shape, part.layout, 1, entry.dtype)
            for part, initializer in zip(entry.tensor.parts, entry.initializers, strict=True)
        ]
        array = expected(entry.tensor, fillers, np.float32, seed=3)
        assert stored[entry.tensor.name].tobytes() == array.tobytes(), entry.tensor.name
    assert seen == sorted(seen)
    assert seen[-1] == (plan.num_bytes, plan.num_bytes)


def part(name, shape, layout, extent, tensor_start, tensor_step=None, start=None):
    return Part(
        name=name,
        role="mlp",
        shape=shape,
        layout=layout,
        start=start or (0,) * len(shape),
        extent=extent,
        tensor_start=tensor_start,
        tensor_step=tensor_step or (1,) * len(shape),
    )


TENSORS = {
    "rows by turns": (
        (8, 6),
        [
            part("a", (4, 6), "oi", (4, 6), (0, 0), (2, 1)),
            part("b", (4, 6), "oi", (4, 6), (1, 0), (2, 1)),
        ],
    ),
    "columns by turns": (
        (5, 9),
        [
            part(name, (7, 5), "oi", (5, 3), (0, at), (1, 3), start=(1, 2))
            for at, name in enumerate("abc")
        ],
    ),
    "experts": ((4, 6, 5), [part("a", (4, 6, 5), "boi", (4, 6, 5), (0, 0, 0))]),
    "heads": ((6, 2, 5), [part("a", (6, 2, 5), "ioo", (6, 2, 5), (0, 0, 0))]),
    "a scalar of a vector": ((1,), [part("a", (9,), "o", (1,), (0,), start=(4,))]),
    "nothing": ((0, 5), [part("a", (0, 5), "oi", (0, 5), (0, 0))]),
}
FIRST = ["sparse(sparsity=0.4, std=1)", "identity", "orthogonal"]


@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize("band", [1, 40, 64, 10**6])
@pytest.mark.parametrize("name", TENSORS)
def test_parts_lie_anywhere(name, band, first, tmp_path, monkeypatch):
    monkeypatch.setattr(banded_tensors, "BAND_BYTES", band)
    shape, parts = TENSORS[name]
    tensor = Tensor.of("w", shape, tuple(parts))
    rules = [first, *["normal"] * (len(parts) - 1)]
    fillers = [
        parse(rule).filler(p.shape, p.layout, 1, "float32")
        for rule, p in zip(rules, parts, strict=True)
    ]
    positions = tuple(position(0, p.name) for p in parts)
    banded = BandedTensor(64, "float32", tensor, tuple(fillers), positions)
    with open(tmp_path / "file", "wb") as file:
        write_banded(file.fileno(), [banded], 2, lambda done: None)
    content = (tmp_path / "file").read_bytes()[64:]
    assert content == expected(tensor, fillers, np.float32).tobytes()


def test_memory_is_that_of_a_band(tmp_path, monkeypatch):
    monkeypatch.setattr(banded_tensors, "BAND_BYTES", 2**16)
    fields = {"n_embd": 64, "vocab_size": 2**14}
    plan = tiny_plan(fields=fields, overrides=[("*.wte.weight", "identity")], dtype="float32")
    write(plan, tmp_path / "before")
    tracemalloc.start()
    try:
        write(plan, tmp_path / "out")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2**19 < plan.num_bytes / 8


def test_an_interrupted_run_leaves_nothing_and_the_next_one_finishes(tmp_path, monkeypatch):
    monkeypatch.setattr(banded_tensors, "BAND_BYTES", 500)
    plan = tiny_plan("gpt2", overrides=RULES["gpt2"])
    write(plan, tmp_path / "whole", max_shard_size=13_000)

    def interrupt(done, total):
        if done > total / 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(plan, tmp_path / "out", max_shard_size=13_000, progress=interrupt)
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert 1 <= len(names) <= 2
    assert all(name.endswith("-of-00003.safetensors") for name in names)
    report = write(plan, tmp_path / "out", max_shard_size=13_000)
    assert {file.name for file in report.files if file.kept} == names
    for path in (tmp_path / "whole").iterdir():
        assert (tmp_path / "out" / path.name).read_bytes() == path.read_bytes()


def test_a_short_write_goes_on_and_an_error_is_told(tmp_path, monkeypatch):
    plan = tiny_plan("gpt2", overrides=RULES["gpt2"])
    write(plan, tmp_path / "whole")
    pwrite = os.pwrite
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", lambda file, data, at: pwrite(file, data[:7], at))
        write(plan, tmp_path / "out")
    for path in (tmp_path / "whole").iterdir():
        assert (tmp_path / "out" / path.name).read_bytes() == path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OSError, match=r"No space left.*model\.safetensors"):
        write(plan, tmp_path / "full")
    assert not list((tmp_path / "full").iterdir())


@pytest.mark.parametrize("rule", ["sparse(0.5)", "orthogonal", "he_normal"])
def test_a_matrix_rule_for_a_vector_is_refused(rule):
    message = r"h\.0\.ln_1\.weight: .* needs a matrix.*vector of shape \(16,\): choose a pat"
    with pytest.raises(ValueError, match=message):
        tiny_plan("gpt2", overrides=[("*.weight", rule)])


def test_the_plan_knows_draws_and_deviations():
    plan = tiny_plan("gpt2", overrides=[("*.c_fc.weight", "sparse(sparsity=0.5, std=0.1)")])
    (entry,) = [e for e in plan.entries if e.tensor.name == "transformer.h.0.mlp.c_fc.weight"]
    assert entry.initializer == "sparse(sparsity=0.5, std=0.1)"
    assert entry.std == pytest.approx(0.1 * 0.5**0.5)


BANDS = [  # two matrices, a band of three rows of each in turn
    part(name, (24, 5), "oi", (3, 5), (6 * band + first, 0), start=(3 * band, 0))
    for band in range(8)
    for name, first in (("w#key", 0), ("w#value", 3))
]


@pytest.mark.parametrize(
    ("box", "limit", "calls"),
    [
        ((0, 48), 2**26, 2),
        ((0, 48), 2 * 3 * 5 * 4, 8),  # two bands of float32 at a time
        ((0, 48), 1, 16),
        ((7, 40), 2**26, 2),
        ((7, 40), 2 * 3 * 5 * 4, 6),
        ((7, 40), 1, 12),
        ((5, 6), 2**26, 1),
    ],
)
def test_bands_of_a_matrix_are_made_together(box, limit, calls, monkeypatch):
    monkeypatch.setattr(joined_parts, "JOINED_BYTES", limit)
    regions = []
    original = Initializer.fill
    monkeypatch.setattr(
        Initializer,
        "fill",
        lambda self, out, **options: (
            regions.append((options["name"], options["region"])) or original(self, out, **options)
        ),
    )
    rules = (parse("orthogonal"), parse("sparse(0.5)")) * 8
    tensor = Tensor.of("w", (48, 5), tuple(BANDS))
    entry = Entry(tensor, "float32", rules)
    fillers = [rule.filler((24, 5), "oi", 1, "float32") for rule in rules]
    whole = expected(tensor, fillers, np.float32, seed=1)
    out = np.zeros((box[1] - box[0], 5), np.float32)
    entry.fill(out, seed=1, box=(slice(*box), slice(0, 5)))
    assert out.tobytes() == whole[slice(*box)].tobytes()
    assert len(regions) == calls


def test_a_padding_row_is_not_made_with_the_rest_of_its_matrix():
    (table,) = embedding("w", 12, 5, padding=4)
    rules = tuple(parse("zeros" if p.role == PADDING else "orthogonal") for p in table.parts)
    out = np.ones((12, 5), np.float32)
    Entry(table, "float32", rules).fill(out, seed=1)
    fillers = [rule.filler((12, 5), "oi", 1, "float32") for rule in rules]
    assert out.tobytes() == expected(table, fillers, np.float32, seed=1).tobytes()
    assert not out[4].any()
    assert out[5].any()
