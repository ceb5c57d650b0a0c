"""Array expressions, which Dask uses with its setting ``array.query-planning``: their creation, and Dask's faults.

Dask dispatches no function that creates them to a backend. `creation.create_array` moves the arrays of those that are
not here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dask.array import ARRAY_EXPR_ENABLED, Array
from dask.array._array_expr._expr import ArrayExpr
from dask.array.backends import array_creation_dispatch
from dask.array.utils import meta_from_array

from ...inspection.arguments import first_argument
from ...inspection.placement import place_of
from .cupy_backend import create_on_gpu

if TYPE_CHECKING:
    from collections.abc import Callable


def create(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As the function behind ``da.ones``, ``zeros``, ``empty``, ``full`` and `arange`; of CuPy blocks in a GPU cell."""
    __tracebackhide__ = True
    if array_creation_dispatch.backend != "cupy":
        return original(*args, **kwargs)
    return create_on_gpu(original, *args, **kwargs)


def elemwise(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As `dask.array.elemwise`; refuses a mask for arrays on GPUs, which Dask ignores.

    Raises
    ------
    NotImplementedError
        The operation has a mask.
    """
    __tracebackhide__ = True
    if kwargs.get("where", True) is not True and "gpu" in map(place_of, args):
        raise NotImplementedError("Dask's array expressions ignore where=.")
    return original(*args, **kwargs)


def new_array(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As the function of dask_cudf that makes an array with CuPy blocks, for expressions of arrays, too.

    Raises
    ------
    NotImplementedError
        The expression is one of a dataframe, of which Dask makes no array expression.
    """
    __tracebackhide__ = True
    expression = first_argument(original, args, kwargs)
    if isinstance(expression, ArrayExpr):
        return Array(expression)  # type: ignore[call-arg]
    if ARRAY_EXPR_ENABLED:
        fix = "Use np.asarray(df.x), or set array.query-planning to False before Dask is imported."
        raise NotImplementedError(f"Dask makes no array expression of a dataframe. {fix}")
    return original(*args, **kwargs)


def outer(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As `ufunc.outer`; refused for arrays on GPUs: Dask gives all results of one function the same name.

    Raises
    ------
    NotImplementedError
        One of the arrays is on GPUs.
    """
    __tracebackhide__ = True
    if "gpu" in map(place_of, [*args[1:], *kwargs.values()]):
        raise NotImplementedError("Dask's array expressions give all outer products of a function the same name.")
    return original(*args, **kwargs)


def meta_of_overlap(_: Any) -> property:
    """The metadata of overlapping blocks: those of the blocks themselves, and not always of NumPy."""
    return property(lambda expression: meta_from_array(expression.array._meta))  # noqa: SLF001
