"""The named functions: arrays of initial weights, one line over an initializer value each.

Every function takes the shape first and everything else by keyword; the keywords that all share are
in `fanin.functions.keywords`.
"""

from fanin.functions.distributions import (
    constant,
    gpt2_residual,
    normal,
    ones,
    truncated_normal,
    uniform,
    zeros,
)
from fanin.functions.scaling import (
    glorot_normal,
    glorot_uniform,
    he_normal,
    he_uniform,
    kaiming_normal,
    kaiming_uniform,
    lecun_normal,
    lecun_uniform,
    torch_linear,
    variance_scaling,
    xavier_normal,
    xavier_uniform,
)
from fanin.functions.state_space import mamba_a_log, mamba_dt_bias
from fanin.functions.structured import (
    delta_orthogonal,
    dirac,
    identity,
    orthogonal,
    sinusoids,
    sparse,
)

__all__ = [
    "constant",
    "delta_orthogonal",
    "dirac",
    "glorot_normal",
    "glorot_uniform",
    "gpt2_residual",
    "he_normal",
    "he_uniform",
    "identity",
    "kaiming_normal",
    "kaiming_uniform",
    "lecun_normal",
    "lecun_uniform",
    "mamba_a_log",
    "mamba_dt_bias",
    "normal",
    "ones",
    "orthogonal",
    "sinusoids",
    "sparse",
    "torch_linear",
    "truncated_normal",
    "uniform",
    "variance_scaling",
    "xavier_normal",
    "xavier_uniform",
    "zeros",
]
