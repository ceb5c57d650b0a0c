"""An array whose blocks the tests compute, and a function for it that CuPy's arrays do not fit."""

import dask.array as da
import numpy as np

NUMBERS = np.array([[4.0, np.nan, 1.0, 7.0], [2.0, 9.0, np.nan, 3.0], [5.0, 6.0, 8.0, 0.0]])


def host_only(block, factor=1):
    """As functions of SciPy, Numba and scikit-learn: they need NumPy's array."""
    return np.asarray(block, dtype=float) * factor


def array():
    return da.from_array(NUMBERS, chunks=(2, 2))
