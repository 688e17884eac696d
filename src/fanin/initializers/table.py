"""The one table of initializers: every name, and the value it stands for.

The named functions, the text form, the documentation and the tests are made from `TABLE`. To add an
initializer, write its value class (or a line over one that is there), add it here, and give it a
function of the same name and arguments in `fanin.functions`.

| name | paper | rule |
|---|---|---|
| glorot, xavier | Glorot and Bengio (2010), eq. 12 and 16 | `gain**2 * 2 / (fan_in + fan_out)` |
| he, kaiming | He et al. (2015), eq. 10 and 14 | `gain**2 / fan`, gain of relu |
| lecun | LeCun et al. (1998), eq. 16 | `1 / fan_in` |
| orthogonal | Saxe et al. (2014), section 3.1 | rows or columns orthonormal, times the gain |
| delta_orthogonal | Xiao et al. (2018), section 2.4 | such a matrix in the middle of a kernel |
| sinusoids | Vaswani et al. (2017), section 3.5 | sines and cosines of the row's number |
| sparse | Martens (2010), section 5 | normal, a fixed number of zeros in each column |
| gpt2_residual | Radford et al. (2019), section 2.3 | `(std / sqrt(branches * n_layer))**2` |
| mamba_a_log | Gu and Dao (2023), section 3.6 | ln(1), ln(2) ... along the last axis |
| mamba_dt_bias | Gu and Dao (2023), section 3.6 | inverse softplus of log-uniform steps |
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

from fanin import _core
from fanin.arguments import flag, integer, nonnegative
from fanin.gains import Gain, gain
from fanin.initializers.base import Initializer
from fanin.initializers.distributions import Constant, Normal, TruncatedNormal, Uniform
from fanin.initializers.mamba import MambaALog, MambaDtBias
from fanin.initializers.orthogonal import DeltaOrthogonal, Orthogonal
from fanin.initializers.scaling import DistributionName, Mode, TorchLinear, VarianceScaling
from fanin.initializers.sinusoids import Sinusoids
from fanin.initializers.sparse import Sparse
from fanin.initializers.structured import Dirac, Identity


def zeros() -> Constant:
    return Constant(0.0)


def ones() -> Constant:
    return Constant(1.0)


def glorot_uniform(gain: Gain = 1.0) -> VarianceScaling:
    return _scaled(gain, "fan_avg", "uniform")


def glorot_normal(gain: Gain = 1.0, truncated: bool = False) -> VarianceScaling:
    return _scaled(gain, "fan_avg", _normal(truncated))


def he_uniform(gain: Gain = "relu", mode: Mode = "fan_in") -> VarianceScaling:
    return _scaled(gain, mode, "uniform")


def he_normal(
    gain: Gain = "relu", mode: Mode = "fan_in", truncated: bool = False
) -> VarianceScaling:
    return _scaled(gain, mode, _normal(truncated))


def lecun_uniform() -> VarianceScaling:
    return VarianceScaling(1.0, "fan_in", "uniform")


def lecun_normal(truncated: bool = False) -> VarianceScaling:
    return VarianceScaling(1.0, "fan_in", _normal(truncated))


def orthogonal(gain: Gain = 1.0) -> Orthogonal:
    return Orthogonal(_gain(gain))


def delta_orthogonal(gain: Gain = 1.0) -> DeltaOrthogonal:
    return DeltaOrthogonal(_gain(gain))


def identity(gain: Gain = 1.0) -> Identity:
    return Identity(_gain(gain))


def gpt2_residual(n_layer: int, std: float = 0.02, branches: int = 2) -> Normal:
    additions = integer("branches", branches, low=1) * integer("n_layer", n_layer, low=1)
    with _core.IeeeEnvironment():
        return Normal(0.0, nonnegative("std", std) / math.sqrt(additions))


TABLE: dict[str, Callable[..., Initializer]] = {
    "zeros": zeros,
    "ones": ones,
    "constant": Constant,
    "uniform": Uniform,
    "normal": Normal,
    "truncated_normal": TruncatedNormal,
    "variance_scaling": VarianceScaling,
    "glorot_uniform": glorot_uniform,
    "glorot_normal": glorot_normal,
    "xavier_uniform": glorot_uniform,
    "xavier_normal": glorot_normal,
    "he_uniform": he_uniform,
    "he_normal": he_normal,
    "kaiming_uniform": he_uniform,
    "kaiming_normal": he_normal,
    "lecun_uniform": lecun_uniform,
    "lecun_normal": lecun_normal,
    "torch_linear": TorchLinear,
    "orthogonal": orthogonal,
    "delta_orthogonal": delta_orthogonal,
    "identity": identity,
    "dirac": Dirac,
    "sinusoids": Sinusoids,
    "sparse": Sparse,
    "gpt2_residual": gpt2_residual,
    "mamba_a_log": MambaALog,
    "mamba_dt_bias": MambaDtBias,
}
"""Name of each function, and what makes its initializer value from the same arguments."""


def _normal(truncated: bool) -> DistributionName:
    return "truncated_normal" if flag("truncated", truncated) else "normal"


def _gain(factor: Gain) -> float:
    return gain(factor)


def _scaled(factor: Gain, mode: Mode, distribution: DistributionName) -> VarianceScaling:
    return VarianceScaling(_scale(gain(factor)), mode, distribution)


@lru_cache(maxsize=256)
def _scale(gain: float) -> float:
    """The shortest decimal whose square root is the gain: 2.0 for relu.

    Nothing is lost by keeping the square: in IEEE arithmetic `sqrt(gain * gain) == gain`.
    """
    with _core.IeeeEnvironment():
        square = gain * gain
        for digits in range(1, 17):
            scale = float(f"{square:.{digits}g}")
            if math.sqrt(scale) == gain:
                return scale
        if math.sqrt(square) != gain:
            raise ValueError(f"gain must be 0 or from 1e-150 to 1e150, got {gain!r}")
        return square
