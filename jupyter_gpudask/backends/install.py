"""Puts our backends in the place of Dask's."""

from __future__ import annotations

import threading
from functools import cache

from .arrays import install_array_backend
from .company import install_company
from .computing import install_computing
from .conversion import install_conversion
from .creation import install_creation_functions
from .division import install_division
from .elementwise import install_elementwise
from .extremes import install_extremes
from .frames import install_frame_backend
from .grouping import install_grouping
from .metas import install_metas
from .mixing import install_mixing
from .parquet import install_parquet_indexes
from .quantiles import install_quantiles
from .random_numbers import install_random_numbers
from .seed import install_seed
from .shuffling import install_shuffling
from .time_labels import install_time_labels
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
