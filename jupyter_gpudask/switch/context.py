"""A context manager that sets `array.backend` and `dataframe.backend` in the current context."""

from __future__ import annotations

import importlib.util
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import dask.array

from ..device_errors import broken_context, uses_cuda
from ..errors import BackendUnavailableError, BrokenContextError
from ..inspection.placement import GPU_BACKENDS
from ..installation import pip_install
from ..overlay.config_overlay import Overlay
from ..patches.apply import patches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..overlay.cell_record import CellRecord

_MODULES = {"cupy": ("cupy",), "cudf": ("cudf", "dask_cudf"), "numpy": (), "pandas": ()}


@contextmanager
def switched_to(array: str, dataframe: str, record: CellRecord | None = None) -> Iterator[None]:
    """Create new arrays with `array` and new dataframes with `dataframe` inside the ``with`` block.

    Code outside of the block does not see the switch. It ends everywhere at once, also in threads and tasks that were
    started inside, and may be left from another context than the one in which it was entered.

    Parameters
    ----------
    array
        ``"cupy"`` or ``"numpy"``.
    dataframe
        ``"cudf"`` or ``"pandas"``.
    record
        Result options of the cell, and the collections that it computed on the CPU.

    Raises
    ------
    BackendUnavailableError
        This process cannot use one of them; nothing was switched.
    BrokenContextError
        The CUDA context of this process is broken; nothing was switched.
    PatchError
        A patch does not fit the installed version of Dask; nothing was switched.
    """
    check_backends(array, dataframe)
    if {array, dataframe} & GPU_BACKENDS:
        check_context()
    patches.apply("kernel", on_cpu=(array, dataframe) == ("numpy", "pandas"))
    overlay = Overlay({"array": array, "dataframe": dataframe}, record)
    try:
        overlay.enter()
        yield
    finally:
        overlay.leave()


def check_context() -> None:
    """Check that this process can use its GPU.

    Raises
    ------
    BrokenContextError
        An earlier error has broken its CUDA context.
    """
    if uses_cuda() and (words := broken_context(wait=False)):
        raise BrokenContextError("context-of-kernel", error=words.rstrip(". "))


def check_arrays() -> None:
    """Check that Dask's arrays have graphs.

    Raises
    ------
    BackendUnavailableError
        They are expressions: `dask.array` was imported with ``array.query-planning``.
    """
    if dask.array.ARRAY_EXPR_ENABLED:
        raise BackendUnavailableError("query-planning")


def check_backends(array: str, dataframe: str) -> None:
    """Check that both backends can be used in this process.

    Raises
    ------
    BackendUnavailableError
        Dask's arrays are expressions, a package is missing, or cudf.pandas has replaced pandas.
    """
    check_arrays()
    missing = [
        module
        for backend in (array, dataframe)
        for module in _MODULES[backend]
        if importlib.util.find_spec(module) is None
    ]
    if missing:
        raise BackendUnavailableError("backend-missing", modules=" and ".join(missing), install=pip_install("cu13"))
    if dataframe == "cudf" and getattr(sys.modules.get("cudf.pandas"), "LOADED", False):
        raise BackendUnavailableError("cudf-pandas")
