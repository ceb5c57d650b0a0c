"""Prepare the GPU libraries of a process to read the results of workers."""

from __future__ import annotations

import contextlib
import importlib


def prepare_gpu_backends(*, spilling: str) -> None:
    """Import the GPU libraries, and configure them to read the results of workers.

    Parameters
    ----------
    spilling
        The cluster's `--spilling` option. With ``"cudf"`` the workers send dataframes as spillable buffers, which this
        process must support.
    """
    for name in ("cupy", "cudf", "dask_cudf"):
        with contextlib.suppress(Exception):  # a cell that needs it gets the error itself
            importlib.import_module(name)
    with contextlib.suppress(Exception):
        import cudf

        if spilling == "cudf":
            cudf.set_option("spill", True)  # noqa: FBT003 - the name and the value of an option
