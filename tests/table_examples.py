"""An example of each initializer of the table, for the tests that go through all of them."""

from fanin.initializers import TABLE

NEEDED = {
    "constant": {"value": 2.5},
    "gpt2_residual": {"n_layer": 12},
    "sparse": {"sparsity": 0.5},
}
"""The arguments without a default."""

KERNELS = ("delta_orthogonal", "dirac")
"""Those that need a convolution."""


def example(name):
    """The initializer of the table with its defaults."""
    return TABLE[name](**NEEDED.get(name, {}))


def shape_for(name, rows, columns):
    """A shape that the initializer can fill: of about so many rows and columns."""
    if name == "delta_orthogonal":  # needs no fewer rows
        rows, columns = max(rows, columns), min(rows, columns)
    return (rows, columns, 3) if name in KERNELS else (rows, columns)
