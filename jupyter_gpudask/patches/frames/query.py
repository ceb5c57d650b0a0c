"""``query`` and ``eval`` of dataframes on GPUs: operators of columns take the place of the text.

cuDF 26.10 compiles the text of a query as Python: in ``x > 1 & y < 2`` it computes ``1 & y``, whereas ``&`` and ``|``
are ``and`` and ``or`` in pandas. It leaves out each row in which a column is missing. The result of its ``eval`` has no
index and no name, and ``a != b`` is an assignment. A text with anything else than the operators here runs on the host.
"""

from __future__ import annotations

import ast
import functools
import io
import math
import operator
import tokenize
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from dask.dataframe.dask_expr._expr import Assign, Eval, Expr, Fillna, Filter, Query, ResetIndex
from dask.dataframe.dispatch import meta_nonempty

from ...fallback.missing import DifferentResultError
from ...inspection.placement import is_type_of_gpu
from ...inspection.results import results_to_host
from .rules import dtypes_of, with_operation

Replace = Callable[[Any], Any]
"""Gives the expression that has pandas' result."""

_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_LOGICAL: dict[type[ast.boolop], Callable[[Any, Any], Any]] = {ast.And: operator.and_, ast.Or: operator.or_}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_LOCAL = "_local_"
"""The prefix of a name in ``local_dict``."""
_AS_IN_PANDAS = {"&": (tokenize.NAME, "and"), "|": (tokenize.NAME, "or"), "@": (tokenize.OP, _LOCAL)}
"""Tokens of Python that are others in a text for pandas."""

_MOST_VALUES = 20
"""The values of a list, as in ``x in [1, 2]``, that are compared one by one."""


class _UnknownTextError(Exception):
    """Raised for a text that is left to pandas."""


def _of_host(frame: Any, what: str) -> Any:
    """A partition of pandas; for one on a GPU an error, which is caught where the text is read on the host."""
    if is_type_of_gpu(type(frame)):
        raise DifferentResultError(f"cuDF reads the text of {what} in another way than pandas")
    return frame


def query(frame: Any, text: str, **kwargs: Any) -> Any:
    """The rows of one partition that a query selects, which is left to pandas."""
    return _of_host(frame, "a query").query(text, **kwargs)


def evaluate(frame: Any, text: str, **kwargs: Any) -> Any:
    """What the text of an ``eval`` gives for one partition, likewise."""
    return _of_host(frame, "eval").eval(text, **kwargs)


QueryAsPandas = with_operation(Query, query, __name__)
EvalAsPandas = with_operation(Eval, evaluate, __name__)


def selected_by_text(expression: Query, replaced: Replace) -> Any:
    """A query as a filter with a condition of columns, or as one that runs on the host."""
    frame = expression.frame
    if list(frame.find_operations(ResetIndex)):  # below which Dask moves a filter, so that the rows are numbered again
        return QueryAsPandas(*expression.operands)
    try:
        [statement] = _statements(expression)
        condition = _Text(frame, expression.expr_kwargs, replaced).boolean(statement)
        _on_pandas(expression)
    except (_UnknownTextError, ArithmeticError, ValueError):
        return QueryAsPandas(*expression.operands)
    return replaced(Filter(frame, condition))


def evaluated_text(expression: Eval, replaced: Replace) -> Any:
    """An ``eval`` as an expression of columns, or as one that runs on the host."""
    frame = expression.frame
    try:
        statements = _statements(expression)
        if any(isinstance(statement, ast.Assign) for statement in statements):
            result = frame
            for statement in statements:
                result = _assign(result, statement, expression.expr_kwargs, replaced)
        else:
            [statement] = statements
            result = _Text(frame, expression.expr_kwargs, replaced).value(statement)
        is_known = isinstance(result, Expr) and _description(result._meta) == _description(_on_pandas(expression))  # noqa: SLF001
    except (_UnknownTextError, ArithmeticError, ValueError):
        is_known = False
    return result if is_known else EvalAsPandas(*expression.operands)


def _assign(frame: Any, statement: ast.AST, options: Mapping[str, Any], replaced: Replace) -> Any:
    """The dataframe with one more column, as by ``z = x + y``."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            return replaced(Assign(frame, name, _Text(frame, options, replaced).value(value)))
    raise _UnknownTextError


def _statements(expression: Any) -> list[Any]:
    """The statements of the text, each an expression or an assignment, one on each line."""
    text, options = expression.operand("_expr"), expression.expr_kwargs
    if not isinstance(text, str) or options.keys() - {"local_dict"}:
        raise _UnknownTextError
    return [_parse(line.strip()) for line in text.splitlines() if line.strip()]


def _parse(line: str) -> Any:
    try:
        tokens = [
            _AS_IN_PANDAS.get(token.string, (token.type, token.string))
            for token in tokenize.generate_tokens(io.StringIO(line).readline)
        ]
        [statement] = ast.parse(tokenize.untokenize(tokens)).body
    except (SyntaxError, tokenize.TokenError, ValueError):
        raise _UnknownTextError from None
    return statement.value if isinstance(statement, ast.Expr) else statement


def _on_pandas(expression: Any) -> Any:
    """What pandas gives for two rows like those of the dataframe."""
    rows = meta_nonempty(results_to_host(expression.frame._meta))  # noqa: SLF001
    method = rows.query if isinstance(expression, Query) else rows.eval
    try:
        return method(expression.operand("_expr"), **expression.expr_kwargs)
    except Exception:  # noqa: BLE001 - whatever it is, the caller gets it from the host
        raise _UnknownTextError from None


def _description(data: Any) -> tuple[int, list[tuple[Any, str]]]:
    """The dimensions of a dataframe or Series, and the name and the dtype of each column."""
    named = {data.name: data.dtype} if data.ndim == 1 else dtypes_of(data)
    return data.ndim, [(name, _name_of_dtype(dtype)) for name, dtype in named.items()]


def _name_of_dtype(dtype: Any) -> str:
    """The dtype, with one name for all of texts, and one for those of booleans."""
    kind = _kind_of_dtype(dtype)
    return kind if kind in ("text", "boolean") else str(dtype)


class _Text:
    """A parsed text as an expression of columns, of which `replaced` is called with each operation."""

    def __init__(self, frame: Any, options: Mapping[str, Any], replaced: Replace) -> None:
        self._frame = frame
        self._locals = options.get("local_dict") or {}
        self._replaced = replaced

    def value(self, node: ast.AST) -> Any:
        """The expression, or the number or string, that a part of the text stands for."""
        match node:
            case ast.Constant(value=value):
                return _constant(value)
            case ast.Name(id=name):
                return self._of_name(name)
        result = self._operation(node)
        return self._replaced(result) if isinstance(result, Expr) else _constant(result)

    def _operation(self, node: ast.AST) -> Any:
        match node:
            case ast.UnaryOp(op=ast.Not() | ast.Invert(), operand=operand):
                return ~self.boolean(operand)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self._number(operand)
            case ast.BoolOp(op=symbol, values=parts):
                return self._join(_LOGICAL[type(symbol)], map(self.boolean, parts))
            case ast.BinOp(left=left, op=symbol, right=right) if type(symbol) in _ARITHMETIC:
                return _ARITHMETIC[type(symbol)](self._number(left), self._number(right))
            case ast.Compare(left=left, ops=symbols, comparators=others):
                pairs = zip([left, *others[:-1]], symbols, others, strict=True)
                return self._join(operator.and_, (self._compare(*pair) for pair in pairs))
        raise _UnknownTextError

    def _join(self, function: Callable[[Any, Any], Any], conditions: Iterable[Any]) -> Any:
        return functools.reduce(lambda left, right: self._replaced(function(left, right)), conditions)

    def boolean(self, node: ast.AST) -> Any:
        """The expression of a condition, which is one of booleans."""
        value = self.value(node)
        if not isinstance(value, Expr) or _kind(value) != "boolean":
            raise _UnknownTextError
        return value

    def _of_name(self, name: str) -> Any:
        if name.startswith(_LOCAL):
            return _constant(self._locals.get(name.removeprefix(_LOCAL)))
        if list(self._frame.columns).count(name) != 1:
            raise _UnknownTextError
        return self._frame[name]

    def _number(self, node: ast.AST) -> Any:
        value = self.value(node)
        if _kind(value) != "number":
            raise _UnknownTextError
        return value

    def _compare(self, left: ast.expr, symbol: ast.cmpop, right: ast.expr) -> Any:
        match symbol, right:
            case ast.In() | ast.Eq(), ast.List(elts=values) | ast.Tuple(elts=values):
                return self._any_of(self.value(left), values)
            case ast.NotIn() | ast.NotEq(), ast.List(elts=values) | ast.Tuple(elts=values):
                return self._replaced(~self._any_of(self.value(left), values))
        if type(symbol) not in _COMPARISONS:
            raise _UnknownTextError
        return self._comparison(_COMPARISONS[type(symbol)], self.value(left), self.value(right))

    def _any_of(self, column: Any, values: list[ast.expr]) -> Any:
        if not 0 < len(values) <= _MOST_VALUES or _kind(column) == "time":
            raise _UnknownTextError
        return self._join(operator.or_, (self._comparison(operator.eq, column, self.value(value)) for value in values))

    def _comparison(self, function: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
        if not isinstance(left, Expr) and not isinstance(right, Expr):
            raise _UnknownTextError
        left, right = _with_time(left, right), _with_time(right, left)
        kinds = {"number" if kind == "boolean" else kind for kind in (_kind(left), _kind(right))}
        compared = self._replaced(function(left, right))
        if kinds == {"text"} and function in (operator.eq, operator.ne):
            return self._replaced(Fillna(compared, function is operator.ne))  # a missing text is not equal to any other
        if kinds not in ({"number"}, {"time"}):
            raise _UnknownTextError
        return compared


def _constant(value: Any) -> Any:
    """A number or string of the text, as a value of Python."""
    if isinstance(value, np.generic):
        value = value.item()
    is_known = type(value) in _OF_CONSTANTS
    if not is_known or (isinstance(value, float) and not math.isfinite(value)):
        raise _UnknownTextError
    if isinstance(value, int) and abs(value) >= 2**63:
        raise _UnknownTextError
    return value


def _with_time(value: Any, other: Any) -> Any:
    """The time that a text stands for, if it is compared with a column of times; any other value as it is."""
    if not isinstance(value, str) or _kind(other) != "time":
        return value
    time = pd.Timestamp(value)
    if pd.isna(time) or time.tz is not None:
        raise _UnknownTextError
    return time


_OF_CONSTANTS = {str: "text", bool: "boolean", int: "number", float: "number", pd.Timestamp: "time"}


def _kind(value: Any) -> str:
    """What a column or constant has: a number, boolean, text or time; operators of others are not those of pandas."""
    if not isinstance(value, Expr):
        return _OF_CONSTANTS[type(value)]
    kind = _kind_of_dtype(value._meta.dtype)  # noqa: SLF001
    if kind is None:
        raise _UnknownTextError
    return kind


def _kind_of_dtype(dtype: Any) -> str | None:
    if isinstance(dtype, pd.StringDtype) or str(dtype) == "object":
        return "text"
    kind = getattr(dtype, "kind", "")
    if kind == "b":  # nullable, too, as of a comparison of texts
        return "boolean"
    return {"i": "number", "u": "number", "f": "number", "M": "time"}.get(kind) if isinstance(dtype, np.dtype) else None
