"""The axes that benchmarks vary, and nothing else: no other file lists sizes, dtypes or functions.

Distributions and functions are text and names here, so that the command line can offer them
without loading NumPy.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fanin.threads import available_cpus

SIZES = (2**10, 2**13, 2**16, 2**20, 2**23, 2**26, 2**28, 2**30)
DEFAULT_SIZES = (2**24,)

DTYPES = ("float32", "bfloat16", "float64", "float16")
DEFAULT_DTYPES = ("float32", "bfloat16", "float64")

DISTRIBUTIONS = {
    "normal": "normal",
    "uniform": "uniform",
    "truncated_normal": "truncated_normal",
    "wide_truncated_normal": "truncated_normal(std=0.02, low=-100, high=100)",
}
"""Each distribution as fanin's initializer text; peers have the same standard deviation and bounds.

The wide one is what `trunc_normal_(weight, std=0.02)` means in torch: bounds of +-2, at 100
standard deviations, which no value reaches. torch rejects nothing there, and is several times as
fast as with bounds at 2 standard deviations.
"""


def default_threads() -> tuple[int, ...]:
    """One thread, and as many as there are CPUs."""
    return tuple(sorted({1, available_cpus()}))


@dataclass(frozen=True)
class Case:
    """One fill: what is drawn, into how many elements, by how many threads."""

    distribution: str
    dtype: str
    size: int
    threads: int


@dataclass(frozen=True)
class Function:
    """A function of `torch.nn.init`, and the one of fanin that means the same."""

    torch: str
    fanin: str
    shape: tuple[int, ...] = (4096, 4096)
    torch_arguments: dict[str, Any] = field(default_factory=dict)
    fanin_arguments: dict[str, Any] = field(default_factory=dict)


FUNCTIONS = {
    function.torch: function
    for function in (
        Function("uniform_", "uniform"),
        Function("normal_", "normal"),
        Function("trunc_normal_", "truncated_normal"),
        Function(
            "constant_", "constant", torch_arguments={"val": 0.5}, fanin_arguments={"value": 0.5}
        ),
        Function("ones_", "ones"),
        Function("zeros_", "zeros"),
        Function("eye_", "identity"),
        Function("dirac_", "dirac", shape=(512, 512, 3, 3)),
        Function("xavier_uniform_", "xavier_uniform"),
        Function("xavier_normal_", "xavier_normal"),
        Function("kaiming_uniform_", "kaiming_uniform"),
        Function("kaiming_normal_", "kaiming_normal"),
        Function("orthogonal_", "orthogonal", shape=(1024, 1024)),
        Function("sparse_", "sparse", (1024, 1024), {"sparsity": 0.1}, {"sparsity": 0.1}),
    )
}
