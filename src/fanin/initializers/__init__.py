"""Initializer values: frozen dataclasses that can be compared, printed, parsed and used.

Each named function of `fanin` is a line over one of these. A value is a distribution, a rule that
chooses one from the fans of the weight, or a rule for the matrix as a whole; `fill` samples it into
an array.

Examples
--------
>>> import numpy as np
>>> from fanin import initializers
>>> init = initializers.parse("he_normal(mode=fan_out)")
>>> init
VarianceScaling(scale=2.0, mode='fan_out', distribution='normal')
>>> init.standard_deviation((50, 100))
0.2
>>> init == initializers.parse(str(init))
True
"""

from fanin.initializers.base import Initializer
from fanin.initializers.distributions import Constant, Normal, TruncatedNormal, Uniform
from fanin.initializers.elementwise import Distribution, Elementwise
from fanin.initializers.mamba import MambaALog, MambaDtBias
from fanin.initializers.orthogonal import DeltaOrthogonal, Orthogonal
from fanin.initializers.scaling import TorchLinear, VarianceScaling
from fanin.initializers.sinusoids import Sinusoids
from fanin.initializers.sparse import Sparse
from fanin.initializers.structured import Dirac, Identity, Structured
from fanin.initializers.table import TABLE
from fanin.initializers.text import parse

__all__ = [
    "TABLE",
    "Constant",
    "DeltaOrthogonal",
    "Dirac",
    "Distribution",
    "Elementwise",
    "Identity",
    "Initializer",
    "MambaALog",
    "MambaDtBias",
    "Normal",
    "Orthogonal",
    "Sinusoids",
    "Sparse",
    "Structured",
    "TorchLinear",
    "TruncatedNormal",
    "Uniform",
    "VarianceScaling",
    "parse",
]
