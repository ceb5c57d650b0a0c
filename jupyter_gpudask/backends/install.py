"""Puts our backends in the place of Dask's."""

from dask.array.backends import array_creation_dispatch

from .arrays import CupyBackend, install_array_backend
from .creation import install_creation_functions
from .frames import install_frame_backend
from .random_numbers import install_random_numbers
from .seed import install_seed


def install_backends() -> None:
    """Mend what Dask's CuPy and cuDF backends leave open; for NumPy and pandas nothing changes, nor a second time."""
    if isinstance(array_creation_dispatch._lookup.get("cupy"), CupyBackend):  # noqa: SLF001
        return
    install_array_backend()
    install_random_numbers()
    install_seed()
    install_frame_backend()
    install_creation_functions()
