"""The docstrings with examples, and the examples as they are run: those for NumPy and pandas become examples for Dask.

Examples of a docstring that Dask copied from NumPy or pandas use those libraries, not Dask. In them

1. ``np.f(...)`` becomes ``da.f(...)`` where dask.array has a function of that name, ``np.fft.f(...)`` becomes
   ``da.fft.f(...)``, and so on, whatever NumPy was imported as;
2. the first argument of such a function, where it is written out as a list of numbers, becomes ``da.array([...])``,
   unless the function creates arrays or joins a list of them; that of a ufunc also where it is one number; and
   Python's own ``sum``, ``min`` and ``max`` of one array become Dask's;
3. ``pd.DataFrame(...)`` and ``pd.Series(...)`` become ``dd.from_pandas(pd.DataFrame(...), npartitions=2)``, and in the
   docstrings of `dask.dataframe.Index` ``pd.Index(...)`` becomes the index of such a frame; what stands between the
   parentheses is left alone;
4. ``pd.f(...)`` becomes ``dd.f(...)`` where dask.dataframe has a function of that name.

Examples that Dask wrote itself are left as they are. In all of them ``/path/to/`` becomes ``path/to/``, so that nothing
is written outside the folder that an example runs in; and what names an address in a network (``://``) or measures time
(``timeit``) is not run.
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import importlib
import inspect
import pkgutil
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

ARRAY_MODULES = ("", ".linalg", ".fft", ".random", ".ma", ".overlap", ".lib.stride_tricks", ".gufunc", ".stats")
"""Of `dask.array`; what stands in several of them is taken once."""

CLASSES = {
    "dask.array": ("Array", "core.BlockView", "random.Generator", "random.RandomState"),
    "dask.dataframe": ("DataFrame", "Series", "Index", "Scalar"),
    "dask.dataframe.dask_expr._groupby": ("GroupBy", "SeriesGroupBy"),
    "dask.dataframe.dask_expr._rolling": ("Rolling",),
    "dask.dataframe.tseries.resample": ("Resampler",),
    "dask.dataframe.dask_expr": (
        *("_str_accessor.StringAccessor", "_datetime.DatetimeAccessor", "_categorical.CategoricalAccessor"),
    ),
}
"""By the place whose name becomes ``da`` or ``dd`` in those of docstrings."""

_ACCESSORS = {
    "dd._str_accessor.StringAccessor": "dd.Series.str",
    "dd._datetime.DatetimeAccessor": "dd.Series.dt",
    "dd._categorical.CategoricalAccessor": "dd.Series.cat",
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
    return _without_repeats(_docstring(name, thing) for name, thing in _things_of_dask())


def module_docstrings(package: str) -> list[Docstring]:
    """Those of all functions, classes and methods that a package defines; equal examples once."""
    return _without_repeats(_docstring(name, thing) for name, thing in _things_defined_in(package))


def _things_of_dask() -> Iterator[tuple[str, Any]]:
    for name in (*(f"dask.array{suffix}" for suffix in ARRAY_MODULES), "dask.dataframe"):
        if name == "dask.array.stats" and importlib.util.find_spec("scipy") is None:
            continue
        short = name.replace("dask.array", "da").replace("dask.dataframe", "dd")
        for member, thing in vars(importlib.import_module(name)).items():
            if is_function_of_dask(name, member, thing):
                yield f"{short}.{member}", thing
    for place, names in CLASSES.items():
        for name in names:
            short = f"{'da' if place == 'dask.array' else 'dd'}.{name}"
            thing, short = pkgutil.resolve_name(f"{place}.{name}"), _ACCESSORS.get(short, short)
            yield short, thing
            for member in dir(thing):
                if not member.startswith("_"):
                    yield f"{short}.{member}", inspect.getattr_static(thing, member)


def is_function_of_dask(place: str, name: str, thing: Any) -> bool:
    """Whether ``place.name`` is a function of Dask's own, and meant for users."""
    is_numpys = thing is getattr(np, name, None)
    if name.startswith("_") or is_numpys or isinstance(thing, type) or not callable(thing):
        return False
    is_helper = place.count(".") > 1 and getattr(thing, "__module__", place) not in (place, None)
    return not is_helper or name in getattr(importlib.import_module(place), "__all__", ())


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


_PLACES = {
    "numpy": "dask.array",
    "numpy.fft": "dask.array.fft",
    "numpy.linalg": "dask.array.linalg",
    "numpy.ma": "dask.array.ma",
    "numpy.random": "dask.array.random",
    "numpy.lib.stride_tricks": "dask.array.lib.stride_tricks",
    "pandas": "dask.dataframe",
}
_SHORT_OF_MODULES = {"dask.array": "da", "dask.dataframe": "dd"}
_TAKES_NO_ARRAY_FIRST = {
    *("array", "asarray", "asanyarray", "zeros", "ones", "empty", "full", "arange", "linspace", "indices"),
    *("concatenate", "stack", "hstack", "vstack", "dstack", "block", "meshgrid", "einsum", "select", "choose"),
}
_FRAMES = ("pandas.DataFrame", "pandas.Series", "pandas.DataFrame.from_dict", "pandas.DataFrame.from_records")


def as_printed(docstring: Docstring) -> list[str]:
    """The examples as the docstring has them."""
    return [_kept_here(example) for example in docstring.examples]


def translated(docstring: Docstring) -> list[str]:
    """The examples as they are run with Dask."""
    examples = as_printed(docstring)
    if docstring.origin == "dask":
        return examples
    translator = _Translator(docstring.origin, index_too=docstring.name.startswith("dd.Index."))
    return [translator.translate(example) for example in examples]


def _kept_here(example: str) -> str:
    if "://" in example:
        return "raise OSError('it needs a network')"
    if "timeit" in example:
        return "raise OSError('it measures time')"
    return example.replace("'/path/to/", "'path/to/")


class _Translator(ast.NodeTransformer):
    def __init__(self, origin: str, *, index_too: bool) -> None:
        self.origin = origin
        self.index_too = index_too
        self.names = {"np": "numpy", "pd": "pandas"}

    def translate(self, source: str) -> str:
        try:
            tree = ast.parse(source)
        except SyntaxError:  # it stays what it is: an example that fails
            return source
        return ast.unparse(self.visit(tree))

    def visit_Import(self, node: ast.Import) -> Any:
        for alias in node.names:
            if alias.asname:
                self.names[alias.asname] = alias.name
        return node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> Any:
        for alias in node.names:
            self.names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        return node

    def visit_Call(self, node: ast.Call) -> Any:
        path = self._path(node.func)
        if path in _FRAMES:
            return _expression("dd.from_pandas(FRAME, npartitions=2)", FRAME=node)
        if self.index_too and path == "pandas.Index":
            return _expression("dd.from_pandas(INDEX.to_frame(), npartitions=2).index", INDEX=node)
        dasks = _of_dask(path)
        self.generic_visit(node)
        if dasks:
            node.func = _expression(dasks)
        name = path.rpartition(".")[2]
        takes_array = path.startswith("numpy") and "random" not in path and node.args
        if dasks and takes_array and name not in _TAKES_NO_ARRAY_FIRST:
            node.args[0] = _array_of_numbers(node.args[0], one_too=isinstance(getattr(da, name, None), da.ufunc.ufunc))
        builtin = getattr(node.func, "id", "")
        if self.origin == "numpy" and builtin in ("sum", "min", "max") and len(node.args) == 1:
            node.func = _expression(f"da.{builtin}")
        return node

    def _path(self, node: ast.expr) -> str:
        """The full name that ``np.fft.fft`` stands for; empty where it is no such thing."""
        if isinstance(node, ast.Name):
            return self.names.get(node.id, "")
        parent = self._path(node.value) if isinstance(node, ast.Attribute) else ""
        return f"{parent}.{node.attr}" if parent else ""


def _of_dask(path: str) -> str | None:
    place, _, name = path.rpartition(".")
    if place not in _PLACES:
        return None
    module = importlib.import_module(_PLACES[place])
    if not is_function_of_dask(module.__name__, name, getattr(module, name, None)):
        return None
    long = next(prefix for prefix in _SHORT_OF_MODULES if module.__name__.startswith(prefix))
    return f"{_SHORT_OF_MODULES[long]}{module.__name__.removeprefix(long)}.{name}"


def _array_of_numbers(node: ast.expr, *, one_too: bool) -> ast.expr:
    is_written_out = isinstance(node, ast.List) or one_too
    is_numbers = is_written_out and all(_is_of_numbers(part) for part in ast.walk(node))
    return _expression("da.array(NUMBERS)", NUMBERS=node) if is_numbers else node


def _is_of_numbers(part: ast.AST) -> bool:
    """Whether it may stand in numbers that are written out, such as ``[1, -2.5, 2 * np.pi, 3j]``."""
    if isinstance(part, ast.Constant):
        return not isinstance(part.value, str | bytes)
    if isinstance(part, ast.Attribute):
        return part.attr in ("e", "pi", "inf", "nan")
    if isinstance(part, ast.Name):
        return part.id == "np"
    return isinstance(part, ast.List | ast.UnaryOp | ast.BinOp | ast.operator | ast.unaryop | ast.expr_context)


def _expression(template: str, **parts: ast.expr) -> Any:
    class Fill(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> Any:
            return parts.get(node.id, node)

    return Fill().visit(ast.parse(template, mode="eval").body)


_ROWS = 21

_COLLECTIONS = """
x = da.from_array(np.random.default_rng(0).normal(size=(200, 30)), chunks=(50, 30))
df = ddf = dd.from_pandas(frame, npartitions=4)
series, a, b = df.x, df.partitions[:2], df.partitions[2:]
"""


def scope_of(name: str, *, with_collections: bool) -> dict[str, Any]:
    """The names that the examples of the docstring `name` begin with; the function goes by its own last name, too.

    With `with_collections`, they may use an array ``x`` and a frame ``df`` that they do not make.
    """
    # A user's module, to code that looks at who calls it.
    scope: dict[str, Any] = {"__name__": "__main__", "dask": dask, "np": np, "pd": pd, "da": da, "dd": dd}
    for long, short in (("dask.array", "da"), ("dask.dataframe", "dd")):
        if name.partition(".")[0] == short:
            name = long + name.removeprefix(short)
    if not name.startswith("dask."):
        scope["cudf"], scope["dask_cudf"] = (importlib.import_module(library) for library in ("cudf", "dask_cudf"))
    with contextlib.suppress(AttributeError):  # the classes of accessors go by other names
        scope.setdefault(name.rpartition(".")[2], pkgutil.resolve_name(name))
    if with_collections:
        exec(_COLLECTIONS, scope | {"frame": _frame()}, scope)  # noqa: S102 - made as a user makes them
    return scope


def write_files(folder: Path) -> None:
    """Write the files that examples read."""
    frame = _frame().rename(columns={"x": "a", "y": "b"})
    for name in ("myfiles.0.csv", "myfiles.1.csv", "largefile.csv", "sample.csv", "0.csv", "1.csv", "2.csv"):
        frame.to_csv(folder / name, index=False)
    for name in ("myfile.json", "myfile.1.json", "myfile.2.json"):
        frame.to_json(folder / name, orient="records", lines=True)


def _frame() -> pd.DataFrame:
    numbers = np.arange(_ROWS)
    return pd.DataFrame(
        {"x": numbers * 8 % _ROWS, "y": numbers / 4, "name": [f"name {number % 5}" for number in numbers]}
    )
