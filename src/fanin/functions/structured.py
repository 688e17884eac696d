"""Arrays that are one matrix, or one a batch index: orthogonal, identity, sinusoids, sparse.

Rows are the outputs (`o`), columns all other axes but the batch (`b`), in the order in which they
appear: `shape[0]` by the rest without a layout.
"""

from typing import Any, Unpack

from numpy.typing import NDArray

from fanin.arguments import Shape
from fanin.functions.keywords import LayoutOptions, array_function, sample
from fanin.gains import Gain
from fanin.initializers import Dirac, Sinusoids, Sparse, table
from fanin.initializers.sinusoids import Order


@array_function
def orthogonal(
    shape: Shape | None = None, *, gain: Gain = 1.0, **options: Unpack[LayoutOptions]
) -> NDArray[Any]:
    """Orthonormal rows, times the gain; columns, where there are more rows: Saxe et al. (2014).

    Uniform among all such matrices (Haar), in law the Q of the QR decomposition of a Gaussian
    matrix. Each index of the batch axes is an independent matrix.

    Parameters
    ----------
    shape
    gain : float, str or callable, default 1
        As in `fanin.gain`.
    **options

    Notes
    -----
    An element has mean 0 and standard deviation `gain / sqrt(max(rows, columns))`. Narrow dtypes
    are computed in float32 and rounded once.

    Examples
    --------
    >>> import fanin
    >>> weight = fanin.orthogonal((3, 50), gain=2, seed=0, name="rnn.weight_hh")
    >>> (weight @ weight.T).round(5) + 0  # without -0
    array([[4., 0., 0.],
           [0., 4., 0.],
           [0., 0., 4.]], dtype=float32)
    """
    return sample(table.orthogonal(gain), shape, **options)


@array_function
def delta_orthogonal(
    shape: Shape | None = None, *, gain: Gain = 1.0, **options: Unpack[LayoutOptions]
) -> NDArray[Any]:
    """A convolution of zeros but for an orthogonal matrix in the middle: Xiao et al. (2018).

    It keeps the norm of its input, times the gain. The middle is tap `(k - 1) // 2` of each kernel
    axis.

    Parameters
    ----------
    shape
        With 1 to 3 kernel axes, and no fewer outputs than inputs.
    gain : float, str or callable, default 1
        As in `fanin.gain`.
    **options

    Examples
    --------
    >>> import fanin
    >>> kernel = fanin.delta_orthogonal((8, 4, 3, 3), gain="relu", seed=0, name="conv.weight")
    >>> middle = kernel[:, :, 1, 1]
    >>> float((middle.T @ middle)[0, 0].round(5)), int((kernel != 0).sum())
    (2.0, 32)
    """
    return sample(table.delta_orthogonal(gain), shape, **options)


@array_function
def identity(
    shape: Shape | None = None, *, gain: Gain = 1.0, **options: Unpack[LayoutOptions]
) -> NDArray[Any]:
    """The gain where row and column have the same number, 0 elsewhere: Le et al. (2015).

    For a convolution, use `dirac`.

    Parameters
    ----------
    shape
    gain : float, str or callable, default 1
        As in `fanin.gain`.
    **options

    Examples
    --------
    >>> import fanin
    >>> fanin.identity((2, 3), seed=0)
    array([[1., 0., 0.],
           [0., 1., 0.]], dtype=float32)
    """
    return sample(table.identity(gain), shape, **options)


@array_function
def dirac(
    shape: Shape | None = None, *, groups: int = 1, **options: Unpack[LayoutOptions]
) -> NDArray[Any]:
    """The identity of a convolution: each channel goes through to the output of its number.

    1 at tap `k // 2` of each kernel axis, as in `torch.nn.init.dirac_`; Zagoruyko and Komodakis
    (2017).

    Parameters
    ----------
    shape
        With 1 to 3 kernel axes.
    groups : int, default 1
        Groups of a grouped convolution; each lets its own channels through.
    **options

    Examples
    --------
    >>> import fanin
    >>> fanin.dirac((2, 2, 3), seed=0)
    array([[[0., 1., 0.],
            [0., 0., 0.]],
    <BLANKLINE>
           [[0., 0., 0.],
            [0., 1., 0.]]], dtype=float32)
    """
    return sample(Dirac(groups), shape, **options)


@array_function
def sinusoids(
    shape: Shape | None = None, *, order: Order = "interleaved", **options: Unpack[LayoutOptions]
) -> NDArray[Any]:
    """A table of positions, sines and cosines of the row's number: Vaswani et al. (2017).

    Column pair k of row t is `sin(t w)` and `cos(t w)`, with frequencies w from 1 down to 1e-4.
    Nothing is drawn: the seed and the name change nothing.

    Parameters
    ----------
    shape
        Positions by features.
    order : {"interleaved", "halves"}, default "interleaved"
        Where the pairs lie: side by side, with `w = 10000**(-2 k / columns)`, as in the paper,
        section 3.5; or all sines first and then all cosines, with
        `w = 10000**(-k / (columns / 2 - 1))`, as in Tensor2Tensor and Whisper.
    **options

    Notes
    -----
    Exact to 4e-16 in float64; narrow dtypes are the float32 value rounded once.

    Examples
    --------
    >>> import fanin
    >>> fanin.sinusoids((3, 4), seed=0).round(3)
    array([[ 0.   ,  1.   ,  0.   ,  1.   ],
           [ 0.841,  0.54 ,  0.01 ,  1.   ],
           [ 0.909, -0.416,  0.02 ,  1.   ]], dtype=float32)
    >>> fanin.sinusoids((3, 4), order="halves", seed=0).round(3)
    array([[ 0.   ,  0.   ,  1.   ,  1.   ],
           [ 0.841,  0.   ,  0.54 ,  1.   ],
           [ 0.909,  0.   , -0.416,  1.   ]], dtype=float32)
    """
    return sample(Sinusoids(order), shape, **options)


@array_function
def sparse(
    shape: Shape | None = None,
    *,
    sparsity: float,
    std: float = 0.01,
    **options: Unpack[LayoutOptions],
) -> NDArray[Any]:
    """Normal, with exactly `ceil(sparsity * rows)` zeros in each column: Martens (2010), section 5.

    Parameters
    ----------
    shape
    sparsity : float
        The fraction of each column that is zero, from 0 to 1.
    std : float, default 0.01
        Standard deviation of the values that are not zero.
    **options

    Examples
    --------
    >>> import fanin
    >>> weight = fanin.sparse((10, 4), sparsity=0.8, seed=0, name="w")
    >>> (weight == 0).sum(axis=0)
    array([8, 8, 8, 8])
    """
    return sample(Sparse(sparsity, std), shape, **options)
