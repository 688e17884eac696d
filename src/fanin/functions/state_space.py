"""Arrays for the parameters of state-space layers (Mamba) that are no weights."""

from typing import Any, Unpack

from numpy.typing import NDArray

from fanin.arguments import Shape
from fanin.functions.keywords import ArrayOptions, array_function, sample
from fanin.initializers import MambaALog, MambaDtBias


@array_function
def mamba_a_log(shape: Shape | None = None, **options: Unpack[ArrayOptions]) -> NDArray[Any]:
    """ln(1), ln(2), ln(3) ... along the last axis: Mamba's `A_log`, Gu and Dao (2023), section 3.6.

    The decay of each state is a whole number (S4D-real, Gu et al. 2022). Every row is the same.

    Parameters
    ----------
    shape
        (channels, states) in Mamba, (heads,) in Mamba-2.
    **options

    Examples
    --------
    >>> import fanin
    >>> fanin.mamba_a_log((2, 3), seed=0)
    array([[0.       , 0.6931472, 1.0986123],
           [0.       , 0.6931472, 1.0986123]], dtype=float32)
    """
    return sample(MambaALog(), shape, **options)


@array_function
def mamba_dt_bias(
    shape: Shape | None = None,
    *,
    low: float = 0.001,
    high: float = 0.1,
    floor: float = 1e-4,
    **options: Unpack[ArrayOptions],
) -> NDArray[Any]:
    """Bias of Mamba's time steps: softplus of it is log-uniform. Gu and Dao (2023), section 3.6.

    Parameters
    ----------
    shape
        (channels,) in Mamba, (heads,) in Mamba-2.
    low, high : float
        The ends of the time steps, from 1e-30 to 1e30.
    floor : float
        Shorter steps are made this long: from 0 to 1e30.
    **options

    Examples
    --------
    >>> import fanin
    >>> import numpy as np
    >>> bias = fanin.mamba_dt_bias(1000, seed=0, name="dt_proj.bias")
    >>> steps = np.log1p(np.exp(bias.astype(float)))
    >>> np.quantile(steps, [0, 0.5, 1]).round(3).tolist()
    [0.001, 0.011, 0.099]
    """
    return sample(MambaDtBias(low, high, floor), shape, **options)
