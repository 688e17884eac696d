"""Initial weights of neural networks: at the speed of memory, with the same bits everywhere.

Each name below is imported when it is first used, so that `import fanin` costs nothing: NumPy,
ml_dtypes and the compiled core load with the first name that needs them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fanin import initializers as initializers
    from fanin._core import Xorshift64Star as Xorshift64Star
    from fanin.functions import constant as constant
    from fanin.functions import delta_orthogonal as delta_orthogonal
    from fanin.functions import dirac as dirac
    from fanin.functions import glorot_normal as glorot_normal
    from fanin.functions import glorot_uniform as glorot_uniform
    from fanin.functions import gpt2_residual as gpt2_residual
    from fanin.functions import he_normal as he_normal
    from fanin.functions import he_uniform as he_uniform
    from fanin.functions import identity as identity
    from fanin.functions import kaiming_normal as kaiming_normal
    from fanin.functions import kaiming_uniform as kaiming_uniform
    from fanin.functions import lecun_normal as lecun_normal
    from fanin.functions import lecun_uniform as lecun_uniform
    from fanin.functions import mamba_a_log as mamba_a_log
    from fanin.functions import mamba_dt_bias as mamba_dt_bias
    from fanin.functions import normal as normal
    from fanin.functions import ones as ones
    from fanin.functions import orthogonal as orthogonal
    from fanin.functions import sinusoids as sinusoids
    from fanin.functions import sparse as sparse
    from fanin.functions import torch_linear as torch_linear
    from fanin.functions import truncated_normal as truncated_normal
    from fanin.functions import uniform as uniform
    from fanin.functions import variance_scaling as variance_scaling
    from fanin.functions import xavier_normal as xavier_normal
    from fanin.functions import xavier_uniform as xavier_uniform
    from fanin.functions import zeros as zeros
    from fanin.gains import gain as gain
    from fanin.installation import show_config as show_config
    from fanin.layouts import fans as fans
    from fanin.streams import STREAM_VERSION as STREAM_VERSION
    from fanin.streams import position as position

__version__ = "0.1.0"

# Where each public name lives.
_HOMES = {
    "zeros": "fanin.functions",
    "ones": "fanin.functions",
    "constant": "fanin.functions",
    "uniform": "fanin.functions",
    "normal": "fanin.functions",
    "truncated_normal": "fanin.functions",
    "variance_scaling": "fanin.functions",
    "glorot_uniform": "fanin.functions",
    "glorot_normal": "fanin.functions",
    "xavier_uniform": "fanin.functions",
    "xavier_normal": "fanin.functions",
    "he_uniform": "fanin.functions",
    "he_normal": "fanin.functions",
    "kaiming_uniform": "fanin.functions",
    "kaiming_normal": "fanin.functions",
    "lecun_uniform": "fanin.functions",
    "lecun_normal": "fanin.functions",
    "torch_linear": "fanin.functions",
    "orthogonal": "fanin.functions",
    "delta_orthogonal": "fanin.functions",
    "identity": "fanin.functions",
    "dirac": "fanin.functions",
    "sinusoids": "fanin.functions",
    "sparse": "fanin.functions",
    "gpt2_residual": "fanin.functions",
    "mamba_a_log": "fanin.functions",
    "mamba_dt_bias": "fanin.functions",
    "gain": "fanin.gains",
    "fans": "fanin.layouts",
    "position": "fanin.streams",
    "STREAM_VERSION": "fanin.streams",
    "show_config": "fanin.installation",
    "Xorshift64Star": "fanin._core",
}

__all__ = ["__version__", "initializers", *_HOMES]


def __getattr__(name: str) -> Any:
    if name == "_core":
        return _load_core()
    if name == "initializers":
        return import_module("fanin.initializers")
    if name not in _HOMES:
        raise AttributeError(f"module 'fanin' has no attribute {name!r}")
    home = _load_core() if _HOMES[name] == "fanin._core" else import_module(_HOMES[name])
    value = globals()[name] = getattr(home, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _load_core() -> Any:
    try:
        return import_module("fanin._core")
    except ImportError as error:
        raise ImportError(
            f"fanin's compiled core cannot be loaded ({error}). In a source tree, build and"
            " install it with `pip install .`, and start Python outside of `src`."
        ) from error
