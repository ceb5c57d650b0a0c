"""From examples that were written for NumPy and pandas to examples for Dask, by these rules and no others.

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
import importlib
from typing import TYPE_CHECKING, Any

import dask.array as da

from .collect import is_function_of_dask

if TYPE_CHECKING:
    from .collect import Docstring

_PLACES = {
    "numpy": "dask.array",
    "numpy.fft": "dask.array.fft",
    "numpy.linalg": "dask.array.linalg",
    "numpy.ma": "dask.array.ma",
    "numpy.random": "dask.array.random",
    "numpy.lib.stride_tricks": "dask.array.lib.stride_tricks",
    "pandas": "dask.dataframe",
}
_SHORT = {"dask.array": "da", "dask.dataframe": "dd"}
_TAKES_NO_ARRAY_FIRST = {
    *("array", "asarray", "asanyarray", "zeros", "ones", "empty", "full", "arange", "linspace", "indices"),
    *("concatenate", "stack", "hstack", "vstack", "dstack", "block", "meshgrid", "einsum", "select", "choose"),
}
_FRAMES = ("pandas.DataFrame", "pandas.Series", "pandas.DataFrame.from_dict", "pandas.DataFrame.from_records")


def translated(docstring: Docstring) -> list[str]:
    """The examples as they are run."""
    examples = [_kept_here(example) for example in docstring.examples]
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
    long = next(prefix for prefix in _SHORT if module.__name__.startswith(prefix))
    return f"{_SHORT[long]}{module.__name__.removeprefix(long)}.{name}"


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
