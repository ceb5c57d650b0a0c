"""Whether two runs of an example agree, by `STRICT_RULES` of ``%%gpudask --compare``.

- Arrays: the same shape and dtype. Numbers: the same, floating ones within 1e-6 of their size and 1e-9 (of single
  precision: 1e-3 and 1e-5).
- Dataframes: the same columns and index, and dtypes of the same kind and, for numbers, the same width. Strings are one
  kind, whatever holds them, and so are times of every unit; a column with missing values may have floats or objects,
  and missing values equal each other.
- The order of rows counts, unless the example calls something that leaves it open (`OPEN_ORDER`).
- Of random numbers or uninitialised memory: dtypes and numbers of dimensions.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jupyter_gpudask.magics.compare.rules import STRICT_RULES
from jupyter_gpudask.magics.compare.values import compare

from .execute import bound_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .values import Value

UNDETERMINED = {
    *("random", "rng", "RandomState", "default_rng", "sample", "random_split", "timeseries", "choice", "permutation"),
    *("svd_compressed", "add_dummy_padding", "empty_like", "tempfile"),
}
"""Names in an example whose values are not determined; and `UNDETERMINED_CALLS`, where they are called."""

UNDETERMINED_CALLS = {"empty", "id"}

OPEN_ORDER = {"merge", "join", "drop_duplicates", "unique", "value_counts", "shuffle", "mode"}
"""Methods after which the order of the rows, or of equal ones, is not defined."""


def undetermined(sources: Sequence[str]) -> list[bool]:
    """For each example of a docstring, whether its values come from random numbers or uninitialised memory."""
    return _spread(sources, lambda names, calls: bool(names & UNDETERMINED or calls & UNDETERMINED_CALLS))


def of_open_order(sources: Sequence[str]) -> list[bool]:
    """For each example of a docstring, whether the order of rows in its values is open."""
    return _spread(sources, lambda names, _calls: bool(names & OPEN_ORDER))


def _spread(sources: Sequence[str], begins: Any) -> list[bool]:
    """For each example, whether something `begins` in it, or in an earlier one whose names it uses."""
    touched: set[str] = set()
    found = []
    for source in sources:
        try:
            tree = ast.parse(source)
        except SyntaxError:
            found.append(False)
            continue
        nodes = list(ast.walk(tree))
        names = {node.id for node in nodes if isinstance(node, ast.Name)}
        names |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        calls = {getattr(n.func, "attr", getattr(n.func, "id", "")) for n in nodes if isinstance(n, ast.Call)}
        is_touched = begins(names, calls) or bool(names & touched)
        if is_touched:
            touched |= set(bound_names(tree))
            touched |= {_owner(node) for node in nodes if isinstance(node, ast.Call)} - {
                "np",
                "pd",
                "da",
                "dd",
                "dask",
                "",
            }
        found.append(is_touched)
    return found


def _owner(call: ast.Call) -> str:
    """The name whose method is called, which the call may change."""
    return getattr(getattr(call.func, "value", None), "id", "")


def difference(one: Value | None, other: Value | None, *, values: bool = True, order: bool = True) -> str | None:
    """What is different between two values; `None` if they agree.

    Parameters
    ----------
    one, other
        The values of the first and the second run.
    values
        Whether they are determined; if not, only dtypes and numbers of dimensions are compared.
    order
        Whether the order of rows is determined.
    """
    if one is None or other is None:
        return None if one is other else "a value in one run only"
    if isinstance(one.data, list) and isinstance(other.data, list):
        if len(one.data) != len(other.data):
            return f"{len(one.data)} and {len(other.data)} parts" if values else None
        pairs = zip(one.data, other.data, strict=True)
        return next(filter(None, (difference(a, b, values=values, order=order) for a, b in pairs)), None)
    known = one.shape_known and other.shape_known
    rules = replace(STRICT_RULES, row_order="fixed" if order else "open", compare_shapes=known)
    comparison = compare(one.data, other.data, rules if values else rules.without_values())
    return None if comparison.agrees else comparison.text
