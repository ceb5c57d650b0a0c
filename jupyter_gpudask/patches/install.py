"""Puts our backends in the place of Dask's."""

from __future__ import annotations

import threading
from functools import cache

from ..random.generators import install_random_numbers
from ..random.seed import install_seed
from .arrays.block_meta import install_metas
from .arrays.cupy_backend import install_array_backend
from .arrays.elementwise import install_elementwise
from .arrays.numeric import install_division
from .arrays.operand_placement import install_company
from .arrays.quantiles import install_quantiles
from .computation import install_computing
from .creation import install_creation_functions
from .frames.conversions import install_frame_backend
from .frames.groupby import install_grouping
from .frames.idxmin import install_extremes
from .frames.parquet import install_parquet_indexes
from .frames.partial_time_strings import install_time_labels
from .mixed_operands import install_mixing
from .numpy_conversion import install_conversion
from .shuffle import install_shuffling
from .user_functions import install_user_functions

_lock = threading.Lock()


def install_backends() -> None:
    """Mend what Dask's CuPy and cuDF backends leave open; for NumPy and pandas nothing changes, nor a second time.

    Of threads that do it at the same time all return when it is done.
    """
    with _lock:
        _install()


@cache
def _install() -> None:
    install_array_backend()
    install_random_numbers()
    install_seed()
    install_frame_backend()
    install_parquet_indexes()
    install_time_labels()
    install_extremes()
    install_grouping()
    install_conversion()
    install_shuffling()
    install_creation_functions()
    install_company()
    install_metas()
    install_quantiles()
    install_elementwise()
    install_division()
    install_mixing()
    install_user_functions()
    install_computing()
