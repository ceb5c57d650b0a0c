"""The kernel's own CuPy and cuDF, which hold the metadata of collections and the results that come back."""

from __future__ import annotations

import contextlib
import importlib


def prepare_gpu_backends(*, spilling: str) -> None:
    """Import the GPU libraries, and set them up to read what the workers send.

    Parameters
    ----------
    spilling
        The cluster's way: with ``"cudf"`` its frames come as spillable buffers, which this process must know.
    """
    for name in ("cupy", "cudf", "dask_cudf"):
        with contextlib.suppress(Exception):  # a cell that needs it gets the error itself
            importlib.import_module(name)
    with contextlib.suppress(Exception):
        import cudf

        if spilling == "cudf":
            cudf.set_option("spill", True)  # noqa: FBT003 - the name and the value of an option
