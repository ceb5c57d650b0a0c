"""Which docstrings there are, and the examples in them."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ARRAY_MODULES = ("", ".linalg", ".fft", ".random", ".ma", ".overlap", ".lib.stride_tricks", ".gufunc", ".stats")
"""Of `dask.array`; what stands in several of them is taken once."""

CLASSES = (
    "dask.array.Array",
    "dask.array.core.BlockView",
    "dask.array.random.Generator",
    "dask.array.random.RandomState",
    "dask.dataframe.DataFrame",
    "dask.dataframe.Series",
    "dask.dataframe.Index",
    "dask.dataframe.Scalar",
    "dask.dataframe.dask_expr._groupby.GroupBy",
    "dask.dataframe.dask_expr._groupby.SeriesGroupBy",
    "dask.dataframe.dask_expr._rolling.Rolling",
    "dask.dataframe.tseries.resample.Resampler",
    "dask.dataframe.dask_expr._str_accessor.StringAccessor",
    "dask.dataframe.dask_expr._datetime.DatetimeAccessor",
    "dask.dataframe.dask_expr._categorical.CategoricalAccessor",
)

_SHORT = {
    "dask.array": "da",
    "dask.dataframe.dask_expr._groupby": "dd",
    "dask.dataframe.dask_expr._rolling": "dd",
    "dask.dataframe.tseries.resample": "dd",
    "dask.dataframe.dask_expr._str_accessor.StringAccessor": "dd.Series.str",
    "dask.dataframe.dask_expr._datetime.DatetimeAccessor": "dd.Series.dt",
    "dask.dataframe.dask_expr._categorical.CategoricalAccessor": "dd.Series.cat",
    "dask.dataframe": "dd",
}

_COPIED = re.compile(
    r"docstring was copied from (numpy|pandas)\b|The (numpy)\.\S+ docstring follows below|Blocked variant of "
)


@dataclass(frozen=True)
class Docstring:
    """The examples of one docstring."""

    name: str
    """Such as ``da.linalg.qr``."""
    origin: str
    """Whose collections the examples are written for: ``"dask"``, ``"numpy"`` or ``"pandas"``."""
    examples: tuple[str, ...]
    wants: tuple[str, ...]
    """What each shall print."""


def dask_docstrings() -> list[Docstring]:
    """Those of the public functions, classes and methods of dask.array and dask.dataframe; equal examples once."""
    return _without_repeats(_docstring(_short(name), thing) for name, thing in _things_of_dask())


def module_docstrings(package: str) -> list[Docstring]:
    """Those of all functions, classes and methods that a package defines; equal examples once."""
    return _without_repeats(_docstring(name, thing) for name, thing in _things_defined_in(package))


def _things_of_dask() -> Iterator[tuple[str, Any]]:
    for suffix in ARRAY_MODULES:
        name = f"dask.array{suffix}"
        if name == "dask.array.stats" and importlib.util.find_spec("scipy") is None:
            continue
        yield from _public(name, importlib.import_module(name))
    yield from _public("dask.dataframe", importlib.import_module("dask.dataframe"))
    for name in CLASSES:
        module, _, attribute = name.rpartition(".")
        thing = getattr(importlib.import_module(module), attribute)
        yield name, thing
        yield from _members(name, thing)


def is_function_of_dask(place: str, name: str, thing: Any) -> bool:
    """Whether ``place.name`` is a function of Dask's own, and meant for users."""
    is_numpys = thing is getattr(np, name, None)
    if name.startswith("_") or is_numpys or isinstance(thing, type) or not callable(thing):
        return False
    is_helper = place.count(".") > 1 and getattr(thing, "__module__", place) not in (place, None)
    return not is_helper or name in getattr(importlib.import_module(place), "__all__", ())


def _public(place: str, module: Any) -> Iterator[tuple[str, Any]]:
    for name, thing in vars(module).items():
        if is_function_of_dask(place, name, thing):
            yield f"{place}.{name}", thing


def _members(prefix: str, thing: type) -> Iterator[tuple[str, Any]]:
    for name in dir(thing):
        if not name.startswith("_"):
            yield f"{prefix}.{name}", inspect.getattr_static(thing, name)


def _things_defined_in(package: str) -> Iterator[tuple[str, Any]]:
    root = importlib.import_module(package)
    names = [package, *(module.name for module in pkgutil.walk_packages(root.__path__, f"{package}."))]
    for module in names:
        if ".tests" in module:
            continue
        for name, thing in vars(importlib.import_module(module)).items():
            if getattr(thing, "__module__", None) != module or not callable(thing):
                continue
            yield f"{module}.{name}", thing
            if isinstance(thing, type):
                yield from ((f"{module}.{name}.{member}", value) for member, value in vars(thing).items())


def _docstring(name: str, thing: Any) -> Docstring | None:
    text = getattr(thing, "__doc__", None)
    if not isinstance(text, str):
        return None
    try:
        examples = doctest.DocTestParser().get_examples(inspect.cleandoc(text))
    except ValueError:  # not written as doctest wants it
        return None
    sources, wants = (tuple(getattr(example, part) for example in examples) for part in ("source", "want"))
    copied = _COPIED.search(text)
    if copied:
        origin = next(filter(None, copied.groups()), "numpy")
    else:  # some do not say that they were copied
        is_numpys = name.startswith("da.") and f"np.{name.rpartition('.')[2]}(" in "".join(sources)
        origin = "numpy" if is_numpys else "dask"
    return Docstring(name, origin, sources, wants) if examples else None


def _without_repeats(docstrings: Iterable[Docstring | None]) -> list[Docstring]:
    found: dict[tuple[str, ...], Docstring] = {}
    for docstring in docstrings:
        if docstring is not None:
            found.setdefault(docstring.examples, docstring)
    return list(found.values())


def _short(name: str) -> str:
    long = next(prefix for prefix in _SHORT if name.startswith(prefix))
    return _SHORT[long] + name.removeprefix(long)
