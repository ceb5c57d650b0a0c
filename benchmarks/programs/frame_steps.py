"""The operations on dataframes and series that a random program can have.

Each function returns the text of a step, or the texts for Dask and for pandas; `None` if it does not fit the value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

FRAME_STEPS: list[Any] = []
SERIES_STEPS: list[Any] = []

_DTYPE = {"s": "str", "M": "datetime64[ns]", "C": "category"}
_AGGREGATIONS = (
    "sum",
    "mean",
    "min",
    "max",
    "count",
    "size",
    "std",
    "var",
    "first",
    "last",
    "nunique",
    "prod",
    "median",
)


def _step(
    *lists: list[Any],
    needs_order: bool = False,
    opens_order: bool = False,
    order_of_library: bool = False,
    weight: int = 1,
) -> Callable[[Any], Any]:
    """Add a function to lists of operations.

    Parameters
    ----------
    lists
        Of the operations on one type of values.
    needs_order
        Whether the result depends on the order of rows.
    opens_order
        Whether Dask leaves the order of the result open.
    order_of_library
        Whether the order is that of pandas or cuDF: it is compared, and nothing that needs an order follows.
    weight
        How often it is chosen.
    """

    def add(function: Any) -> Any:
        function.needs_order, function.opens_order = needs_order, opens_order
        function.ends_order = opens_order or order_of_library
        for each in lists:
            each.extend([function] * weight)
        return function

    return add


def _columns(frame: Any, kinds: str) -> list[Any]:
    """The names of columns of some kinds, by the characters of NumPy: also `s` for texts and `C` for categories."""
    return [name for name in dict.fromkeys(frame.columns) if _kind(frame[name]) in kinds]


def _kind(series: Any) -> str:
    dtype = getattr(series, "dtype", None)
    if dtype is None:  # of several columns with one name
        return "?"
    if isinstance(dtype, pd.CategoricalDtype):
        return "C"
    if isinstance(dtype, pd.StringDtype):
        return "s"
    return str(dtype.kind)


def _pick(rng: random.Random, names: list[Any]) -> Any:
    return rng.choice(names) if names else None


def _column(rng: random.Random, frame: Any, kinds: str) -> str | None:
    name = _pick(rng, _columns(frame, kinds))
    return None if name is None else f"v[{name!r}]"


def _scalar(rng: random.Random, kind: str) -> str:
    if kind in "iu":
        return rng.choice(["0", "1", "2", "-3", "5"])
    if kind == "f":
        return rng.choice(["0", "1", "2.5", "-1.5", "0.5", "np.nan"])
    if kind == "M":
        return 'pd.Timestamp("2022-03-01")'
    if kind == "b":
        return rng.choice(["True", "False"])
    return rng.choice(["'a'", "'b'", "'cc'", "''"])


def _condition(rng: random.Random, frame: Any) -> str | None:
    """A condition on the rows of a frame, or of a series."""
    names = _columns(frame, "iufbMsC") if isinstance(frame, pd.DataFrame) else [None]
    if not names:
        return None
    name = rng.choice(names)
    series = frame if name is None else frame[name]
    text, kind = ("v" if name is None else f"v[{name!r}]"), _kind(series)
    if kind == "b":
        return rng.choice([text, f"~{text}", f"{text} == True"])
    if kind in "sC":
        choices = [f"{text} == {_scalar(rng, 's')}", f"{text} != {_scalar(rng, 's')}", f"{text}.isin(['a', 'b'])"]
        return rng.choice([*choices, f"{text}.isna()", f"{text}.notna()"])
    sign = rng.choice([">", ">=", "<", "<=", "==", "!="])
    one = f"{text} {sign} {_scalar(rng, kind)}"
    choices = [one, one, f"~({one})", f"{text}.isna()", f"{text}.notna()"]
    if kind in "iuf":
        choices += [f"{text}.between(0, 3)", f"{text}.isin([1, 2, 2.5])", f"({one}) | ({text} > 3)"]
        choices += [f"({one}) & ({text} < 4)", f"({one}) ^ ({text} < 4)"]
    other = _column(rng, frame, kind) if isinstance(frame, pd.DataFrame) else None
    return rng.choice([*choices, f"{text} {sign} {other}"] if other else choices)


def _keys(rng: random.Random, frame: Any) -> str | None:
    names = _columns(frame, "iubsCM")
    if not names:
        return None
    if len(names) > 1 and rng.random() < 0.4:
        return repr(rng.sample(names, 2))
    return repr(rng.choice(names))


# Frames


@_step(FRAME_STEPS, weight=14)
def select_column(rng: random.Random, v: Any, _w: Any) -> str | None:
    column = _column(rng, v, rng.choice(["s", "M", "C", "iufb", "iufb"]))
    return column and f"v = {column}"


@_step(FRAME_STEPS)
def select_columns(rng: random.Random, v: Any, _w: Any) -> str | None:
    names = list(dict.fromkeys(v.columns))
    return f"v = v[{rng.sample(names, rng.randint(1, len(names)))!r}]" if names else None


@_step(FRAME_STEPS, SERIES_STEPS, weight=3)
def filter_rows(rng: random.Random, v: Any, _w: Any) -> str | None:
    condition = _condition(rng, v)
    return condition and f"v = v[{condition}]"


@_step(FRAME_STEPS)
def locate(rng: random.Random, v: Any, _w: Any) -> str | None:
    condition, name = _condition(rng, v), _pick(rng, list(v.columns))
    columns = rng.choice([":", repr(name), repr([name])])
    if rng.random() < 0.3 and v.index.dtype.kind in "iuf":
        return f"v = v.loc[{rng.randint(0, 5)}:{rng.randint(5, 60)}]"
    return condition and f"v = v.loc[{condition}, {columns}]"


@_step(FRAME_STEPS)
def query(rng: random.Random, v: Any, _w: Any) -> str | None:
    name = _pick(rng, _named_numbers(v))
    sign = rng.choice([">", "<=", "==", "!="])
    tails = ["", "", " or n > 5", " and n > 2", " & n > 2", " | n > 5", " & ~(n > 5 | n < 1)", " and n not in [1, 3]"]
    tail = rng.choice(tails) if "n" in v.columns else ""
    return name and f"v = v.query({f'{name} {sign} {rng.randint(-1, 4)}{tail}'!r})"


@_step(FRAME_STEPS)
def evaluate(rng: random.Random, v: Any, _w: Any) -> str | None:
    one, other = _pick(rng, _named_numbers(v)), _pick(rng, _named_numbers(v))
    operation = rng.choice(["+", "-", "*", "!=", "% 3 ==", "> 1 & 3 >=", "> 1 | 3 <"])
    target = rng.choice(["", "z = "])
    return one and f"v = v.eval({f'{target}{one} {operation} {other}'!r})"


def _named_numbers(v: Any) -> list[Any]:
    """The names of columns of numbers that may stand in a text."""
    return [name for name in _columns(v, "iuf") if isinstance(name, str) and name.isidentifier()]


@_step(FRAME_STEPS, weight=2)
def assign_arithmetic(rng: random.Random, v: Any, _w: Any) -> str | None:
    one, other = _column(rng, v, "iufb"), _column(rng, v, "iufb")
    if one is None:
        return None
    right = rng.choice([other, other, _scalar(rng, "f"), _scalar(rng, "i")])
    return f"v = v.assign(z={one} {rng.choice(['+', '-', '*', '/', '//', '%', '**', '>', '==', '!='])} {right})"


@_step(FRAME_STEPS)
def set_item(rng: random.Random, v: Any, _w: Any) -> str | None:
    condition = _condition(rng, v)
    return condition and f"v = v.copy(); v['flag'] = {condition}"


@_step(FRAME_STEPS)
def assign_reduction(rng: random.Random, v: Any, _w: Any) -> str | None:
    column = _column(rng, v, "iuf")
    return column and f"v = v.assign(z={column} - {column}.{rng.choice(['mean', 'min', 'max', 'sum', 'std'])}())"


@_step(FRAME_STEPS)
def numbers_only(rng: random.Random, v: Any, _w: Any) -> str | None:
    names = _columns(v, "iuf")
    operation = rng.choice(["+ 1", "* 2.5", "- v[{0}]", "/ 3", "> 1", "// 2", "% 3", "!= 1"]).format(repr(names))
    return f"v = v[{names!r}] {operation}" if names else None


@_step(FRAME_STEPS, weight=2)
def function_of_numpy(rng: random.Random, v: Any, _w: Any) -> str | None:
    column = _column(rng, v, "iuf")
    name = rng.choice(
        ["sqrt", "exp", "floor", "sign", "isnan", "isfinite", "square", "log1p", "negative", "abs", "cos", "trunc"]
    )
    return column and f"v = np.{name}({column})"


@_step(FRAME_STEPS)
def where_frame(rng: random.Random, v: Any, _w: Any) -> str | None:
    names = _columns(v, "iuf")
    other = rng.choice(["", ", 0", ", -1.5"])
    return f"v = v[{names!r}].{rng.choice(['where', 'mask'])}(v[{names!r}] > 1{other})" if names else None


@_step(FRAME_STEPS, SERIES_STEPS)
def drop_missing(rng: random.Random, v: Any, _w: Any) -> str:
    options = [""]
    if isinstance(v, pd.DataFrame):
        options += ["how='all'", f"subset=[{_pick(rng, list(v.columns))!r}]", "thresh=2"]
    return f"v = v.dropna({rng.choice(options)})"


@_step(FRAME_STEPS, SERIES_STEPS)
def fill_missing(rng: random.Random, v: Any, _w: Any) -> str | None:
    if isinstance(v, pd.DataFrame):
        names = _columns(v, "iufs")
        values = {name: 7 if _kind(v[name]) != "s" else "none" for name in names}
        return f"v = v.fillna({values!r})"
    return None if _kind(v) not in "iufMs" else f"v = v.fillna({_scalar(rng, _kind(v))})"


@_step(FRAME_STEPS, SERIES_STEPS, needs_order=True)
def fill_forward(rng: random.Random, _v: Any, _w: Any) -> str:
    return f"v = v.{rng.choice(['ffill', 'bfill'])}()"


@_step(FRAME_STEPS)
def is_missing(rng: random.Random, _v: Any, _w: Any) -> str:
    return f"v = v.{rng.choice(['isna', 'notna'])}()"


@_step(FRAME_STEPS)
def rename(rng: random.Random, v: Any, _w: Any) -> str:
    return f"v = v.rename(columns={{{_pick(rng, list(v.columns))!r}: 'renamed'}})"


@_step(FRAME_STEPS)
def drop_columns(rng: random.Random, v: Any, _w: Any) -> str:
    return f"v = v.drop(columns=[{_pick(rng, list(v.columns))!r}])"


@_step(FRAME_STEPS)
def convert(rng: random.Random, v: Any, _w: Any) -> str | None:
    name = _pick(rng, _columns(v, "iub"))
    dtype = rng.choice(["float64", "float32", "int64", "str", "bool", "int8", "category"])
    return None if name is None else f"v = v.astype({{{name!r}: {dtype!r}}})"


@_step(FRAME_STEPS)
def round_and_clip(rng: random.Random, v: Any, _w: Any) -> str | None:
    names = _columns(v, "iuf")
    return (
        f"v = v[{names!r}].{rng.choice(['round(0)', 'round(1)', 'clip(0, 3)', 'clip(0.5)', 'abs()'])}"
        if names
        else None
    )


@_step(FRAME_STEPS, order_of_library=True, weight=5)
def group_and_reduce(rng: random.Random, v: Any, _w: Any) -> str | None:
    keys, column = _keys(rng, v), _pick(rng, _columns(v, "iufb"))
    if keys is None or column is None:
        return None
    options = rng.choice(["", "", ", dropna=False", ", sort=True", ", observed=True", ", observed=False"])
    selected = rng.choice([f"[{column!r}]", f"[[{column!r}]]"])
    return f"v = v.groupby({keys}{options}){selected}.{rng.choice(_AGGREGATIONS)}()"


@_step(FRAME_STEPS, order_of_library=True, weight=5)
def group_and_aggregate(rng: random.Random, v: Any, _w: Any) -> str | None:
    keys, names = _keys(rng, v), _columns(v, "iuf")
    if keys is None or not names:
        return None
    options = rng.choice(["", "", ", dropna=False", ", sort=True", ", observed=True"])
    one, other = rng.choice(_AGGREGATIONS), rng.choice(_AGGREGATIONS)
    first, second = rng.choice(names), rng.choice(names)
    form = rng.choice([
        repr(one),
        repr([one, other]),
        f"{{{first!r}: {one!r}}}",
        f"{{{first!r}: [{one!r}, {other!r}], {second!r}: {other!r}}}",
        f"total=({first!r}, {one!r}), other=({second!r}, {other!r})",
    ])  # fmt: skip
    selected = f"[{first!r}]" if form.startswith(("'", "['")) else ""
    return f"v = v.groupby({keys}{options}){selected}.agg({form})"


@_step(FRAME_STEPS, needs_order=True)
def group_and_accumulate(rng: random.Random, v: Any, _w: Any) -> str | None:
    keys, column = _keys(rng, v), _pick(rng, _columns(v, "iuf"))
    method = rng.choice(["cumsum", "cumcount", "cumprod"])
    return None if keys is None or column is None else f"v = v.groupby({keys})[{column!r}].{method}()"


@_step(FRAME_STEPS, opens_order=True)
def group_and_transform(rng: random.Random, v: Any, _w: Any) -> str | None:
    key, column = _pick(rng, _columns(v, "i")), _pick(rng, _columns(v, "if"))
    if key is None or column is None:
        return None
    return f"v = v.groupby({key!r})[{column!r}].transform({rng.choice(['sum', 'mean', 'max'])!r})"


@_step(FRAME_STEPS, SERIES_STEPS, opens_order=True)
def drop_duplicates(rng: random.Random, v: Any, _w: Any) -> str:
    if isinstance(v, pd.DataFrame) and rng.random() < 0.6:
        return f"v = v[{rng.sample(list(v.columns), 1)!r}].drop_duplicates()"
    return "v = v.drop_duplicates()"


@_step(FRAME_STEPS, opens_order=True, weight=4)
def merge(rng: random.Random, v: Any, w: Any) -> str | None:
    common = [name for name in _columns(v, "iusC") if name in w.columns and _kind(v[name]) == _kind(w[name])]
    how = rng.choice(["inner", "left", "right", "outer", "leftsemi"])
    if how == "leftsemi":
        return f"v = v.merge(w, on={common[:1]!r}, how='left', indicator=True)" if common else None
    if rng.random() < 0.25:
        return f"v = v.merge(w, left_index=True, right_index=True, how={how!r}, suffixes=('_l', '_r'))"
    if rng.random() < 0.25 and "n" in v.columns and "k" in w.columns:
        return f"v = v.merge(w, left_on='n', right_on='k', how={how!r})"
    if not common:
        return None
    keys = rng.sample(common, rng.randint(1, min(2, len(common))))
    suffixes = rng.choice(["", ", suffixes=('', '_2')"])
    return f"v = v.merge(w, on={keys!r}, how={how!r}{suffixes})"


@_step(FRAME_STEPS, opens_order=True)
def join(rng: random.Random, _v: Any, _w: Any) -> str:
    return f"v = v.join(w, how={rng.choice(['inner', 'left', 'outer', 'right'])!r}, lsuffix='_l', rsuffix='_r')"


@_step(FRAME_STEPS, weight=2)
def concatenate(rng: random.Random, _v: Any, _w: Any) -> str:
    return f"v = dd.concat([v, w], join={rng.choice(['outer', 'inner'])!r})"


@_step(FRAME_STEPS)
def concatenate_columns(rng: random.Random, v: Any, _w: Any) -> str | None:
    column = _column(rng, v, "iufbs")
    return column and f"v = dd.concat([v, {column}.rename('again')], axis=1)"


@_step(FRAME_STEPS)
def concatenate_itself(rng: random.Random, v: Any, _w: Any) -> str | None:
    condition = _condition(rng, v)
    return condition and f"v = dd.concat([v, v[{condition}]])"


@_step(FRAME_STEPS, opens_order=True)
def set_index(rng: random.Random, v: Any, _w: Any) -> str | None:
    name = _pick(rng, _columns(v, "iufsM"))
    return None if name is None else f"v = v.set_index({name!r})"


@_step(FRAME_STEPS, opens_order=True, weight=2)
def sort_values(rng: random.Random, v: Any, _w: Any) -> str | None:
    name = _pick(rng, _columns(v, "iufsM"))
    if name is None:
        return None
    options = rng.choice(["", ", ascending=False", ", na_position='first'"])
    return f"v = v.sort_values({name!r}{options})"


@_step(FRAME_STEPS)
def sort_by_unique(_rng: random.Random, v: Any, _w: Any) -> str | None:
    if "n" not in v.columns or not v["n"].is_unique:
        return None
    return "v = v.sort_values('n', ascending=False)"


@_step(FRAME_STEPS)
def reset_index(rng: random.Random, _v: Any, _w: Any) -> tuple[str, str]:
    drop = rng.choice(["", "drop=True"])
    text = f"v = v.reset_index({drop})"
    return text, text


@_step(FRAME_STEPS, SERIES_STEPS, needs_order=True, weight=2)
def accumulate(rng: random.Random, v: Any, _w: Any) -> str | None:
    method = rng.choice(["cumsum()", "cumprod()", "cummin()", "cummax()", "shift(1)", "shift(-2)", "diff()", "diff(2)"])
    if isinstance(v, pd.DataFrame):
        names = _columns(v, "iuf")
        return f"v = v[{names!r}].{method}" if names else None
    return f"v = v.{method}" if _kind(v) in "iuf" else None


@_step(FRAME_STEPS, SERIES_STEPS, needs_order=True, weight=2)
def roll(rng: random.Random, v: Any, _w: Any) -> str | None:
    method = rng.choice(["sum", "mean", "min", "max", "count", "std", "median"])
    options = rng.choice(["2", "3", "3, min_periods=1", "2, center=True"])
    if isinstance(v, pd.DataFrame):
        names = _columns(v, "if")
        return f"v = v[{names!r}].rolling({options}).{method}()" if names else None
    return f"v = v.rolling({options}).{method}()" if _kind(v) in "if" else None


@_step(FRAME_STEPS, needs_order=True)
def head_or_tail(rng: random.Random, _v: Any, _w: Any) -> tuple[str, str]:
    number = rng.choice([1, 3, 5])
    if rng.random() < 0.5:
        return f"v = v.head({number}, npartitions=-1, compute=False)", f"v = v.head({number})"
    return f"v = v.tail({number}, compute=False)", f"v = v.tail({number})"


@_step(FRAME_STEPS, opens_order=True)
def largest(rng: random.Random, v: Any, _w: Any) -> str | None:
    name = _pick(rng, _columns(v, "if"))
    return None if name is None else f"v = v.{rng.choice(['nlargest', 'nsmallest'])}(3, {name!r})[[{name!r}]]"


@_step(FRAME_STEPS)
def describe(_rng: random.Random, v: Any, _w: Any) -> str | None:
    names = _columns(v, "if")
    return f"v = v[{names!r}].describe()" if names else None


@_step(FRAME_STEPS, weight=3)
def reduce_frame(rng: random.Random, v: Any, _w: Any) -> str | None:
    names = _columns(v, "iufb")
    method = rng.choice(["sum", "mean", "min", "max", "count", "std", "var", "prod", "any", "all", "sem"])
    options = rng.choice(["", "", "axis=1", "skipna=False" if method != "count" else ""])
    return f"v = v[{names!r}].{method}({options})" if names else None


@_step(FRAME_STEPS)
def count_unique(_rng: random.Random, v: Any, _w: Any) -> str:
    return f"v = v[{list(v.columns)!r}].nunique()"


@_step(FRAME_STEPS)
def index_of_extreme(rng: random.Random, v: Any, _w: Any) -> str | None:
    names = _columns(v, "if")
    return f"v = v[{names!r}].{rng.choice(['idxmin', 'idxmax'])}()" if names and v.index.is_unique else None


@_step(FRAME_STEPS)
def correlations(rng: random.Random, v: Any, _w: Any) -> str | None:
    names = _columns(v, "f")
    return f"v = v[{names!r}].{rng.choice(['corr', 'cov'])}()" if names else None


@_step(FRAME_STEPS)
def index_of_rows(rng: random.Random, _v: Any, _w: Any) -> str:
    return f"v = v.index.to_series(){rng.choice(['', '.isna()', '.astype(str)'])}"


@_step(FRAME_STEPS)
def partitions_of_user(rng: random.Random, v: Any, _w: Any) -> tuple[str, str] | None:
    column = _pick(rng, _columns(v, "if"))
    if column is None:
        return None
    call = f"part.assign(z=part[{column!r}] * 2)"
    return f"v = v.map_partitions(lambda part: {call})", f"v = (lambda part: {call})(v)"


@_step(FRAME_STEPS)
def apply_to_rows(rng: random.Random, v: Any, _w: Any) -> tuple[str, str] | None:
    column = _pick(rng, _columns(v, "f"))
    if column is None:
        return None
    call = f"lambda row: row[{column!r}] * 2, axis=1"
    return f"v = v[[{column!r}]].apply({call}, meta=(None, 'float64'))", f"v = v[[{column!r}]].apply({call})"


@_step(FRAME_STEPS)
def repartition(rng: random.Random, _v: Any, _w: Any) -> tuple[str, str]:
    return f"v = v.repartition(npartitions={rng.randint(1, 3)})", "v = v"


@_step(FRAME_STEPS)
def to_dummies(rng: random.Random, v: Any, _w: Any) -> tuple[str, str] | None:
    name = _pick(rng, _columns(v, "C"))
    return None if name is None else (f"v = dd.get_dummies(v[{name!r}])", f"v = pd.get_dummies(v[{name!r}])")


@_step(FRAME_STEPS, weight=2)
def through_parquet(rng: random.Random, v: Any, _w: Any) -> tuple[str, str] | None:
    names = [name for name in v.columns if isinstance(name, str)]
    if len(names) < len(v.columns) or not names:
        return None
    chosen = rng.sample(names, rng.randint(1, len(names)))
    key = _pick(rng, [name for name in _columns(v, "if") if name in chosen])
    filters = f", filters=[({key!r}, '>', 1)]" if key is not None and rng.random() < 0.5 else ""
    columns = f", columns={chosen!r}" if rng.random() < 0.6 else ""
    read = f"v.to_parquet(folder + '/p'); v = dd.read_parquet(folder + '/p'{columns}{filters})"
    selected = f"v = v[{chosen!r}]" if columns else "v = v.copy()"
    return read, selected + (f"; v = v[v[{key!r}] > 1]" if filters else "")


@_step(FRAME_STEPS)
def through_csv(_rng: random.Random, v: Any, _w: Any) -> tuple[str, str] | None:
    if not all(isinstance(name, str) for name in v.columns):
        return None
    read = "v.to_csv(folder + '/*.csv', index=False); v = dd.read_csv(folder + '/*.csv')"
    return read, "import io; v = pd.read_csv(io.StringIO(v.to_csv(index=False)))"


# Series


@_step(SERIES_STEPS, weight=3)
def series_arithmetic(rng: random.Random, v: Any, _w: Any) -> str | None:
    if _kind(v) not in "iufb":
        return None
    right = rng.choice([_scalar(rng, "i"), _scalar(rng, "f"), "v", "v.mean()", "(v + 1)"])
    return f"v = v {rng.choice(['+', '-', '*', '/', '//', '%', '**', '>', '<=', '==', '!='])} {right}"


@_step(SERIES_STEPS)
def series_from_left(rng: random.Random, v: Any, _w: Any) -> str | None:
    return (
        f"v = {rng.choice(['2', '0.5', '-3'])} {rng.choice(['-', '/', '//', '%', '**'])} v"
        if _kind(v) in "iuf"
        else None
    )


@_step(SERIES_STEPS)
def series_method_with_fill(rng: random.Random, v: Any, _w: Any) -> str | None:
    method = rng.choice(["add", "sub", "mul", "div", "pow", "rsub", "floordiv", "mod"])
    return f"v = v.{method}(v.shift(1), fill_value=0)" if _kind(v) == "f" else None


@_step(SERIES_STEPS, weight=2)
def series_condition(rng: random.Random, v: Any, _w: Any) -> str | None:
    condition = _condition(rng, v)
    return condition and f"v = {condition}"


@_step(SERIES_STEPS, weight=2)
def series_where(rng: random.Random, v: Any, _w: Any) -> str | None:
    condition = _condition(rng, v)
    other = rng.choice(["", f", {_scalar(rng, _kind(v))}"])
    return condition and f"v = v.{rng.choice(['where', 'mask'])}({condition}{other})"


@_step(SERIES_STEPS, weight=2)
def series_convert(rng: random.Random, v: Any, _w: Any) -> str | None:
    dtype = rng.choice(["float64", "float32", "int64", "int32", "str", "bool", "category"])
    if dtype.startswith("int") and _kind(v) == "f" and not v.between(-100, 100).all():
        dtype = "bool"
    return f"v = v.astype({dtype!r})" if _kind(v) in "iufb" else None


@_step(SERIES_STEPS, weight=2)
def series_numbers(rng: random.Random, v: Any, _w: Any) -> str | None:
    call = rng.choice(
        ["round(0)", "round(1)", "clip(0, 3)", "clip(upper=1)", "abs()", "isin([1, 2.5])", "between(0, 2)"]
    )
    return f"v = v.{call}" if _kind(v) in "iuf" else None


@_step(SERIES_STEPS, weight=6)
def series_text(rng: random.Random, v: Any, _w: Any) -> str | None:
    call = rng.choice([
        "len()", "upper()", "lower()", "title()", "strip()", "contains('a')", "contains('^a', regex=True)",
        "startswith('a')", "endswith('b')", "replace('a', 'z')", "replace('[ab]', 'z', regex=True)", "slice(0, 1)",
        "get(0)", "zfill(3)", "isalpha()", "isnumeric()", "find('b')", "count('a')", "cat(sep='-')", "rjust(4)",
        "split('-').str[0]", "extract('([a-z])')", "match('a')", "fullmatch('a')", "contains('A', case=False)",
        "contains('a', na=False)", "capitalize()", "swapcase()", "lstrip()", "partition('-')", "pad(4, side='both')",
    ])  # fmt: skip
    return f"v = v.str.{call}" if _kind(v) == "s" else None


@_step(SERIES_STEPS, weight=6)
def series_times(rng: random.Random, v: Any, _w: Any) -> str | None:
    call = rng.choice(
        [
            "year",
            "month",
            "day",
            "hour",
            "dayofweek",
            "quarter",
            "is_month_end",
            "dayofyear",
            "date",
            "normalize()",
            "floor('h')",
            "round('D')",
            "strftime('%Y-%m')",
            "day_name()",
            "days_in_month",
            "is_leap_year",
            "second",
            "isocalendar().week",
        ]
    )
    return f"v = v.dt.{call}" if _kind(v) == "M" else None


@_step(SERIES_STEPS, weight=2)
def series_of_times(rng: random.Random, v: Any, _w: Any) -> str | None:
    call = rng.choice(["v - v.min()", "v + pd.Timedelta('1D')", "v - pd.Timestamp('2022-01-01')", "v.astype('int64')"])
    return f"v = {call}" if _kind(v) == "M" else None


@_step(SERIES_STEPS, weight=6)
def series_categories(rng: random.Random, v: Any, _w: Any) -> tuple[str, str] | None:
    calls = ["codes", "as_ordered()", "rename_categories(str.upper)", "add_categories(['new'])", "as_unordered()"]
    calls += ["remove_unused_categories()", "set_categories(['b', 'a'])", "remove_categories(['a'])"]
    call = rng.choice(calls)
    return (f"v = v.cat.as_known().cat.{call}", f"v = v.cat.{call}") if _kind(v) == "C" else None


@_step(SERIES_STEPS, weight=2, opens_order=True)
def value_counts(rng: random.Random, _v: Any, _w: Any) -> str:
    return f"v = v.value_counts({rng.choice(['', '', 'dropna=False', 'normalize=True', 'ascending=True'])})"


@_step(SERIES_STEPS, opens_order=True)
def unique(_rng: random.Random, v: Any, _w: Any) -> tuple[str, str]:
    return "v = v.unique()", f"v = pd.Series(v.unique(), name={v.name!r})"


@_step(SERIES_STEPS, weight=4)
def series_reduction(rng: random.Random, v: Any, _w: Any) -> str | None:
    of_numbers = (
        ["sum", "mean", "std", "var", "prod", "sem", "any", "all", "skew", "kurtosis"] if _kind(v) in "iufb" else []
    )
    of_order = ["min", "max"] if _kind(v) in "iufbMs" else []
    method = rng.choice([*of_numbers, *of_order, "count", "nunique"])
    options = rng.choice(["", "", "skipna=False"]) if method in ("sum", "mean", "min", "max", "std") else ""
    return f"v = v.{method}({options})"


@_step(FRAME_STEPS, weight=12)
def assign_method(rng: random.Random, v: Any, _w: Any) -> str | tuple[str, str] | None:
    kind = rng.choice("sMC")
    column = _column(rng, v, kind)
    if column is None:
        return None
    made = {"s": series_text, "M": series_times, "C": series_categories}[kind](rng, pd.Series(dtype=_DTYPE[kind]), None)
    texts = made if isinstance(made, tuple) else (made, made)
    one, other = (f"v = v.assign(z={text.replace('v = v.', f'{column}.')})" for text in texts)
    return one, other


@_step(SERIES_STEPS)
def series_map(rng: random.Random, v: Any, _w: Any) -> str | None:
    if _kind(v) in "iuf":
        return f"v = v.{rng.choice(['map', 'apply'])}(lambda number: number * 2 + 1)"
    return "v = v.map({'a': 'one', 'b': 'two'})" if _kind(v) == "s" else None


@_step(SERIES_STEPS)
def series_replace(_rng: random.Random, v: Any, _w: Any) -> str | None:
    if _kind(v) in "iuf":
        return "v = v.replace({1: 7, 2: 9})"
    return "v = v.replace('a', 'z')" if _kind(v) == "s" else None


@_step(SERIES_STEPS)
def series_to_frame(rng: random.Random, _v: Any, _w: Any) -> str:
    return f"v = v.{rng.choice(['to_frame()', 'to_frame(name=' + repr('col') + ')', 'reset_index()'])}"


@_step(SERIES_STEPS)
def series_rename(_rng: random.Random, _v: Any, _w: Any) -> str:
    return "v = v.rename('other')"


@_step(SERIES_STEPS)
def series_missing(rng: random.Random, _v: Any, _w: Any) -> str:
    return f"v = v.{rng.choice(['isna', 'notna'])}()"


@_step(SERIES_STEPS, order_of_library=True)
def series_group(rng: random.Random, v: Any, _w: Any) -> str | None:
    return f"v = v.groupby(v > 1).{rng.choice(['sum', 'count', 'max', 'mean'])}()" if _kind(v) in "if" else None


@_step(SERIES_STEPS)
def series_quantile(rng: random.Random, v: Any, _w: Any) -> str | None:
    q = rng.choice(["0.5", "[0.25, 0.75]", "0"])
    return f"v = v.quantile({q})" if _kind(v) in "if" and len(v.dropna()) else None


@_step(SERIES_STEPS)
def series_function(rng: random.Random, v: Any, _w: Any) -> str | None:
    call = rng.choice(
        [
            "sqrt(v)",
            "fmax(v,1)",
            "isnan(v)",
            "not_equal(v,1)",
            "hypot(v,v)",
            "arctan2(v,2)",
            "arctan2(2,v)",
            "fmod(v,3)",
            "sign(v)",
            "maximum(v,0)",
            "floor_divide(v,2)",
            "power(v,2)",
            "copysign(v,-1)",
            "clip(v,0,2)",
            "isfinite(v)",
            "logical_not(v)",
        ]
    )
    return f"v = np.{call}" if _kind(v) in "if" else None
