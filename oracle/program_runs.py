"""Runs random programs in this process, and says whether the runs agree, and what the difference is if they do not."""

from __future__ import annotations

import re
import shutil
import tempfile
import warnings
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from processes import NOT_RUN
from programs import names
from sides import Side, on_side
from strict_rules import AS_HOST, STRICT_RULES

from jupyter_gpudask.magics.compare_values import compare

if TYPE_CHECKING:
    from collections.abc import Mapping

    from programs import Program

Way = Literal["host", "dask", "switch", "optimized"]
"""NumPy and pandas; Dask; Dask under the switch; the same with the cluster's optimization of graphs of arrays."""


@dataclass
class Outcome:
    """What came of one run."""

    value: Any = None
    """The result, on the host."""
    error: str = ""
    """The class and the first line of its error; empty if there was none."""
    facts: dict[str, Any] = field(default_factory=dict)
    """What Dask knew of the collection before it was computed, by name."""
    on_cpu: dict[str, int] = field(default_factory=dict)
    """Blocks that ran on the CPU for want of a function of CuPy or cuDF, by operation."""


def side_of(way: Way, array: str, dataframe: str) -> Side:
    """The side of a way with the backends of the switch."""
    if way in ("host", "dask"):
        return Side()
    return Side("switch", array, dataframe, graphs="gpu" if way == "optimized" else "")


def run(program: Program, way: Way, array: str, dataframe: str) -> Outcome:
    """Run a program in one way."""
    space = names() | {"folder": tempfile.mkdtemp()}
    outcome = Outcome()
    try:
        with (
            warnings.catch_warnings(),
            np.errstate(all="ignore"),
            on_side(side_of(way, array, dataframe)) as outcome.on_cpu,
        ):
            warnings.simplefilter("ignore")
            if way != "host":
                import dask.array as da
                import dask.dataframe as dd

                space |= {"da": da, "dd": dd}
            exec(compile(program.body(on_host=way == "host"), "<program>", "exec"), space)  # noqa: S102
            value = space["v"]
            outcome.facts = _facts(value)
            outcome.value = value.compute() if hasattr(value, "compute") else value
    except Exception as error:  # noqa: BLE001 - whatever a program raises is its result
        outcome.value, outcome.facts = None, {}
        outcome.error = f"{type(error).__name__}: {error}".partition("\n")[0][:300]
    finally:
        shutil.rmtree(space["folder"], ignore_errors=True)
    return outcome


def _facts(value: Any) -> dict[str, Any]:
    """What must be the same before anything is computed."""
    if hasattr(value, "chunks"):
        return {"shape": repr(value.shape), "dtype": str(value.dtype), "chunks": repr(value.chunks)}
    if hasattr(value, "npartitions"):
        columns = [str(name) for name in getattr(value, "columns", [])]
        return {"columns": columns, "name": str(getattr(value, "name", "")), "class": type(value).__name__}
    return {}


AGREES = "agrees"
KNOWN = "documented"
VALUE = "another value"
TYPE = "another type or dtype"
LABELS = "other names or columns"
ORDER = "another order"
FACTS = "other metadata"
FAILS = "fails"
NO_ERROR = "no error"
LOST = "process lost"

FINDINGS = (VALUE, TYPE, LABELS, ORDER, FACTS, FAILS, NO_ERROR, LOST)
"""The outcomes that need an explanation."""


_OF_EMPTY = "a merge of categories with partitions without rows has a result, as in pandas"
_OF_NULLABLE = "std of columns of which one is nullable has a result, as in pandas"
_WITHOUT_ROWS = "columns without rows may have another dtype"
_OF_ONE = "an array of one element is assigned to an element"
_OF_DASK = "only Dask on the CPU fails"
_OF_AGG = "only Dask on the CPU fails, which has no column of bins by several functions in its metadata"
_ERRORS = {
    _OF_EMPTY: ("dtype of categories must be the same",),
    _OF_NULLABLE: ("not 'NAType'",),
    _OF_ONE: ("could not be broadcast to indexing result",),
    _OF_DASK: (
        "AssertionError: ;",
        "Failed to generate metadata",
        "Mismatched dtypes found",
        "Divisions calculation failed",
        "Must specify axis=0 or 1",
        "Cannot cast DatetimeArray to dtype timedelta64",
        "'<' not supported between instances of 'int' and",
        "Mismatched divisions between multiple Blockwise dependencies",
        "Cannot interpret 'Float32Dtype()' as a data type",
        "boolean value of NA is ambiguous",
        "Expected iterable of tuples of (name, dtype), got",
        "cannot reindex on an axis with duplicate labels",
        "could not convert string to float",
        "Series.dropna() got an unexpected keyword argument 'subset'",
    ),
    _OF_AGG: ("KeyError: ",),
}
"""The errors of Dask on the CPU that these have as their cause; any other one is a finding."""
_OF_MERGE = "numbers of a merge of which none is missing may be integers"
_OF_NAMES = "rows of concat whose indexes have different names have none"
_OF_BOOLEANS = "booleans of a merge or join with missing rows may be objects where none is missing"
_OF_TEXT = "numbers with a fraction in text files are rounded twice"
_OF_ROWS = "statistics of rows with booleans are numbers"
_OF_SMALL = "cumsum of small integers, and of float32, keeps their dtype"
_OF_META = "rows of apply have the dtype of meta"
_OF_KEYS = "keys of a merge of integers of two sizes have the dtype of the metadata"
_OF_BINS = "bins without rows have 0 or 1, as in pandas; in Dask on the CPU some are missing"
_OF_LEFT_BINS = "bins without rows have 0 or 1, as in pandas, which dropna leaves and describe counts"
_OF_ORDERED = "combine_first has the columns in the order of the metadata where a partition has no rows"
_OF_SORTED = "pivot_table has the columns in the order of the categories, as in pandas"
_OF_PRODUCTS = "products of booleans and small integers have their dtype, whatever the chunks are"
_OF_TINY = "CuPy takes float32 numbers near 0 for 0"
_OF_PARTS = "split texts that are all missing may have another dtype"
_OF_LABELS = "labels of a merge are counted in each partition"
_OF_QUANTILES = "describe estimates from the quantiles of the partitions"
_OF_SHUFFLED = "quantile estimates from the quantiles of the partitions"
_OF_DIGITS = "powers and functions such as sin have other last digits"
_OF_SELECTED = "labels of a merge, which are selected, are counted in each partition"
_OF_FIRST = "the first of the text files that are written of a merge has other rows"
_OF_INTEGERS = "functions of NumPy keep integers of Arrow"
_OF_NAMED = "a column with the name of a key of a merge has the dtype of the metadata"
_OF_EXTREMES = "the extremes of integers are integers where a partition has no rows"
_OF_ZEROS = "0.0 and -0.0 of a dtype of Arrow are one value"
_OF_OTHER_PARTS = "an aggregation of the user has the partial results of other partitions"
_OF_TIMES = "combine_first makes no times or texts of numbers where a partition has no rows of the other dataframe"
_OF_EXTRACTED = "the index of extracted texts of no rows keeps its name"
_OF_ROUNDED = "what is made of q or u of a decomposition depends on its last digits, also in NumPy"
_NOTES = {
    _OF_TINY: "-inf$",
    _OF_PARTS: "of dtype float64 on the CPU, string on the GPUs",
    _OF_LABELS: r"^column (\(')?(index|i)\b.*: \d+ of",
    _OF_TIMES: r"Timestamp\('19(69|70)-|'(-?[\d.]+)' and (np\.float64\()?\2",
    _OF_EXTRACTED: r"^columns \['index'(, .*)\] on the CPU, \['\w+'\1\] on the GPUs$",
    _OF_QUANTILES: r"of 8 elements differ, the first at \[[456]\]",
    _OF_SELECTED: r"^[\d,]+ rows on the CPU, [\d,]+ on the GPUs",
    _OF_FIRST: "Mismatched dtypes found",
    _OF_INTEGERS: r"of dtype float64 on the CPU, u?int\d+ on the GPUs",
    _OF_NAMED: r"^column \w+_[xy2]: of dtype int64 on the CPU, object on the GPUs",
    _OF_EXTREMES: "of dtype float64 on the CPU, int64 on the GPUs",
    _OF_ZEROS: r"^[\d,]+ rows on the CPU, [\d,]+ on the GPUs|: \d+ and \d+$",
    _OF_MERGE: r"of dtype float64 on the CPU, int\d+ on the GPUs",
    _OF_NAMES: r"^columns \['\w+'(, .*)\] on the CPU, \['index'\1\] on the GPUs$",
    _OF_BOOLEANS: "of dtype bool on the CPU, object on the GPUs",
    _OF_TEXT: r"\d\.\d+",
    _OF_ROWS: "of dtype object on the CPU",
    _OF_SMALL: r"of dtype (u?int64 on the CPU, u?int\d+|float64 on the CPU, float32) on the GPUs",
    _OF_META: "of dtype (float32|string) on the CPU, float64 on the GPUs",
    _OF_KEYS: r"of dtype int64 on the CPU, int\d+ on the GPUs",
    _OF_LEFT_BINS: r"^[\d,]+ rows on the CPU, [\d,]+ on the GPUs|of 8 elements differ",
    _OF_PRODUCTS: r"^dtype: u?int64 and |of dtype u?int64 on the CPU",
    _OF_SORTED: r"^columns \[.*\] on the CPU, \[.*\] on the GPUs$",
    _OF_ORDERED: r"^columns \[.*\] on the CPU, \[.*\] on the GPUs$",
    _OF_BINS: r"(nan\)|<NA>) and np\.(float64\([01]\.0|int64\([01])\)$"
    "|of dtype [Ff]loat64 on the CPU, [Uu]?[Ii]nt64 on the GPUs",
}
"""What the note of a difference has that has these as its cause."""

DOCUMENTED = (
    ((NO_ERROR,), r"astype\(\W*\w*\W*\s*'?u?int", "astype of NaN to integers has missing values"),
    ((TYPE,), r"get_dummies", "the columns of get_dummies have the dtype of the categories"),
    ((TYPE, VALUE), r"merge\(", "the keys of a merge of categories with other categories are strings"),
    ((TYPE,), r"merge\(", _OF_MERGE),
    ((TYPE,), r"(join|merge)\(.*(left|outer|right)", _OF_BOOLEANS),
    ((VALUE,), r"read_csv\(", _OF_TEXT),
    ((LABELS,), r"dd\.concat\(", _OF_NAMES),
    ((VALUE,), r"isdigit\(", "isdigit of a fraction is false, as in Python"),
    ((LABELS, FACTS), r"dd\.concat\(", "concat of categories has all columns, as in pandas"),
    ((NO_ERROR, VALUE), r"linalg\.(solve|inv|cholesky)", "CuPy does not check singular matrices"),
    ((ORDER,), r"groupby\(", "Dask on the CPU sorts groups in each input partition only"),
    ((NO_ERROR,), r"merge\(", _OF_EMPTY),
    ((NO_ERROR,), r"\]\.(std|sem|var)\(", _OF_NULLABLE),
    ((FAILS,), r"\.columns = \[\[", "a MultiIndex as columns is refused by cuDF"),
    ((TYPE,), "", _WITHOUT_ROWS),
    ((TYPE,), r"merge\(", _OF_KEYS),
    ((TYPE,), r"merge\(w, left_on=", _OF_NAMED),
    ((TYPE,), r"(drop_duplicates|merge|unique)\([\s\S]*\bv(\['\w+'\])?\.(max|min)\(\)", _OF_EXTREMES),
    ((VALUE,), r"groupby\(|\.(mode|nunique)\(", _OF_ZEROS),
    ((VALUE,), r"da\.linalg\.(qr|svd)\(.*\); v = (q|\(u)[\s\S]*(v\[v |da\.cbrt)", _OF_ROUNDED),
    ((TYPE,), r"axis=1", _OF_ROWS),
    ((TYPE,), r"apply\(.*axis=1, meta=", _OF_META),
    ((TYPE,), r"\.cum(sum|prod)\(", _OF_SMALL),
    ((VALUE, TYPE), r"\.resample\(", _OF_BINS),
    ((VALUE,), r"\.resample\([\s\S]*\.(dropna|describe)\(", _OF_LEFT_BINS),
    ((LABELS,), r"combine_first\(", _OF_ORDERED),
    ((LABELS,), r"pivot_table\(", _OF_SORTED),
    ((FACTS, TYPE), r"@|da\.(dot|einsum|matmul|outer|tensordot|vdot)\(", _OF_PRODUCTS),
    ((VALUE,), r"da\.spacing\(", _OF_TINY),
    ((TYPE,), r"\.str\.r?split\(", _OF_PARTS),
    ((VALUE,), r"(merge|unique)\([\s\S]*(reset_index|join)\(", _OF_LABELS),
    ((VALUE,), r"merge\([\s\S]*\.loc\[\d+:\d+\]", _OF_SELECTED),
    ((VALUE,), r"(drop_duplicates|median|merge|unique|v\.join)\([\s\S]*describe\(", _OF_QUANTILES),
    ((VALUE,), r"groupby\(.*\.(bfill|ffill|median|shift|transform)\([\s\S]*\.quantile\(", _OF_SHUFFLED),
    ((FAILS,), r"merge\([\s\S]*read_csv\(", _OF_FIRST),
    ((VALUE,), r"combine_first\(", _OF_TIMES),
    ((VALUE,), r"(combine_first|drop_duplicates|merge|unique)\([\s\S]*dd\.Aggregation\(.*'\+'", _OF_OTHER_PARTS),
    ((LABELS,), r"\.str\.extract\(", _OF_EXTRACTED),
    ((TYPE,), r"np\.(ceil|conj|floor|sign|square|trunc)\(", _OF_INTEGERS),
    ((NO_ERROR,), r"v\[(0|-1)\] = ", _OF_ONE),
    ((NO_ERROR,), "", _OF_DASK),
    ((NO_ERROR,), r"\.resample\(.*\.agg\(\[", _OF_AGG),
)
"""Differences that docs/what-runs-where.md lists: their outcomes, a pattern of the text of a step, and the reason."""


def _lists(note: str) -> list[list[str]]:
    return [re.findall(r"'[^']*'", names) for names in re.findall(r"\[.*?\]", note)]


_ZEROS = re.compile(r"-0\.0\b.*'(double|float)\[pyarrow\]'")


def documented(
    program: Program,
    outcome: str,
    note: str,
    *,
    on_gpu: bool,
    rows: int | None = None,
    unlike_host: bool = False,
    host_fails: bool = False,
) -> str:
    """The reason of a difference of a result with so many rows that is documented for GPUs; empty if none is.

    - `unlike_host`: whether Dask on the CPU has another result than NumPy or pandas.
    - `host_fails`: whether NumPy or pandas fail.
    """
    if "No module named 'cupyx'" in note:
        return "the stand-in for CuPy has no cupyx"
    text = "\n".join(step.text for step in program.steps)
    has_same_names = len({tuple(sorted(names)) for names in _lists(note)}) == 1
    for outcomes, pattern, reason in DOCUMENTED if on_gpu else ():
        if outcome not in outcomes or not re.search(pattern, text):
            continue
        if "categories" in reason and not re.search("category|categories|categorical", note + program.setup):
            continue
        if outcome == NO_ERROR and not any(error in note for error in _ERRORS.get(reason, ("",))):
            continue
        is_so = {
            _WITHOUT_ROWS: rows == 0,
            _OF_EXTRACTED: rows == 0,
            _OF_ROUNDED: unlike_host,
            _OF_DASK: not host_fails,
            _OF_ORDERED: has_same_names,
            _OF_SORTED: has_same_names,
            _OF_ZEROS: bool(_ZEROS.search(program.setup)),
        }
        if is_so.get(reason, True) and re.search(_NOTES.get(reason, ""), note):
            return reason
    return ""


_INEXACT = re.compile(r"\*\*|\b(\w*power|\w*fftn?|sin|cos|arctan2?|tanh|exp2?|log1p|log|logaddexp|cbrt|hypot|sinc)\(")


_NEXT = """
if v.dtype.kind in "fc":
    v = {real} + 1j * {imag} if v.dtype.kind == "c" else {real}"""


def are_last_digits(program: Program, plain: Any, found: Any) -> bool:
    """Whether each element is that of NumPy with another last digit of powers, and of functions such as `sin`.

    CUDA's ``pow(3, 1)`` is 2.9999999999999996, than which 3 is greater.
    """
    if program.kind != "array" or not any(_INEXACT.search(step.text) for step in program.steps):
        return False
    values = [plain]
    for end in ("np.nextafter(v.{part}, -np.inf)", "np.nextafter(v.{part}, np.inf)", "np.round(v.{part}, 12)"):
        changed_result = _NEXT.format(real=end.format(part="real"), imag=end.format(part="imag"))
        changed = tuple(
            replace(step, on_host=step.host_text + changed_result) if _INEXACT.search(step.text) else step
            for step in program.steps
        )
        values.append(run(replace(program, steps=changed), "host", "numpy", "pandas").value)
    alike = [np.asarray(value) for value in values if value is not None and np.shape(value) == np.shape(found)]
    found = np.asarray(found)
    digits = {"rtol": 4 * float(np.finfo(found.dtype).eps) if found.dtype == np.float16 else 1e-6, "atol": 1e-9}
    return bool(np.any([np.isclose(value, found, equal_nan=True, **digits) for value in alike], axis=0).all())


@dataclass
class Row:
    """What came of a program."""

    seed: int
    kind: str
    outcome: str
    """`AGREES`, one of `FINDINGS`, `KNOWN`, `AS_HOST` or `NOT_RUN`."""
    note: str = ""
    """What differs."""
    last: str = ""
    """The last operation of the program."""
    way: str = "switch"
    """``"optimized"`` if only the optimized graph gives another result."""
    host: str = ""
    """How NumPy or pandas decide: ``"as Dask"``, ``"as the switch"``, ``"neither"``, or empty."""
    fails: bool = False
    """Whether the program fails in Dask on the CPU."""
    unlike_host: bool = False
    """Whether Dask on the CPU has another result than NumPy or pandas."""
    source: str = ""
    """The program, made smaller if there is a difference."""
    on_cpu: dict[str, int] = field(default_factory=dict)
    """As of the run under the switch."""

    @property
    def key(self) -> int:
        """Its seed."""
        return self.seed

    @property
    def group(self) -> tuple[str, str, str]:
        return self.outcome, self.last, self.way


def judge(program: Program, outcomes: Mapping[str, Outcome | None], *, on_gpu: bool) -> Row:
    """Compare the runs of a program; a run that is missing was lost with its process."""
    row = Row(program.seed, program.kind, AGREES, last=program.last)
    host, plain, switched = (outcomes.get(way) for way in ("host", "dask", "switch"))
    if plain is None:
        row.outcome, row.note = NOT_RUN, "Dask on the CPU lost its process"
        return row
    row.fails = bool(plain.error)
    if host is not None and not host.error and not plain.error:
        row.unlike_host = bool(_differ(program, host, plain, facts=False)[0])
    for way in ("switch", "optimized"):
        if way not in outcomes:
            continue
        other = outcomes[way]
        if other is None:
            row.outcome, row.note, row.way = LOST, "the process ended, or took too long", way
            return row
        outcome, note = _differ(program, plain, other)
        if not outcome:
            continue
        row.outcome, row.note, row.way, row.on_cpu = outcome, note, way, other.on_cpu
        row.host = _decided_by(program, host, plain, other)
        values, host_fails = (plain.value, other.value), host is not None and bool(host.error)
        options = {"on_gpu": on_gpu, "unlike_host": row.unlike_host, "host_fails": host_fails}
        reason = _reason(program, outcome, note, *values, **options)
        if reason:
            row.outcome, row.note = KNOWN, f"{reason}: {note}"
        elif row.host == "as the switch" and outcome != FACTS:
            row.outcome, row.note = AS_HOST, f"{outcome}: {note}"
        return row
    if switched is not None:
        row.on_cpu = switched.on_cpu
    return row


def _reason(program: Program, outcome: str, note: str, plain: Any, found: Any, *, on_gpu: bool, **of_host: bool) -> str:
    if on_gpu and outcome == VALUE and are_last_digits(program, plain, found):
        return _OF_DIGITS
    rows = len(plain) if isinstance(plain, pd.DataFrame | pd.Series | pd.Index) else None
    return documented(program, outcome, note, on_gpu=on_gpu, rows=rows, **of_host)


def _decided_by(program: Program, host: Outcome | None, plain: Outcome, run: Outcome) -> str:
    if host is None:
        return ""
    is_grouped = "groupby(" in program.body()
    if (
        bool(host.error) == bool(run.error)
        and not _differ(program, host, run, facts=False, has_open_order=is_grouped)[0]
    ):
        return "as the switch"
    if bool(host.error) == bool(plain.error) and not _differ(program, host, plain, facts=False)[0]:
        return "as Dask"
    return "neither"


def _differ(
    program: Program, one: Outcome, other: Outcome, *, facts: bool = True, has_open_order: bool = False
) -> tuple[str, str]:
    """The kind of the difference, and what it is; empty if two runs agree.

    `has_open_order`: whether rows may be in any order, as in programs that say so.
    """
    if one.error or other.error:
        if one.error and other.error:
            return "", ""
        return (FAILS, other.error) if other.error else (NO_ERROR, f"{one.error}; now {other.value!r:.80}")
    announced = _announced(one, other) if facts else None
    if announced is not None:
        one = replace(one, value=one.value.astype(announced))
    rules = replace(STRICT_RULES, has_open_order=has_open_order or program.opens_order)
    comparison = compare(_plain(one.value), _plain(other.value), rules)
    if comparison.agrees is False:
        return _kind(comparison.text), comparison.text
    found = _of_labels(one.value, other.value)
    if found:
        return LABELS, found
    for name in one.facts if facts else ():
        if one.facts[name] != other.facts.get(name):
            return FACTS, f"{name}: {one.facts[name]} and {other.facts.get(name)}"[:300]
    return "", ""


def _announced(one: Outcome, other: Outcome) -> str | None:
    """The dtype that Dask announced, if the second run has it and the first one, on the CPU, has another."""
    announced = one.facts.get("dtype")
    dtypes = [str(getattr(run.value, "dtype", None)) for run in (one, other)]
    return announced if announced == dtypes[1] != dtypes[0] else None


def _plain(value: Any) -> Any:
    if value is pd.NA or value is pd.NaT:
        return np.nan
    return tuple(map(_plain, value)) if isinstance(value, tuple) else value


def _kind(text: str) -> str:
    if "another order" in text:
        return ORDER
    if text.startswith(("columns [", "labels [")):
        return LABELS
    if re.search(r"of dtype .* on the CPU|^a \w+ on the CPU", text):
        return TYPE
    return VALUE


def _of_labels(one: Any, other: Any) -> str:
    """What the rules of the comparison do not look at: the name of the columns' index, and the order of categories."""
    if not isinstance(one, pd.DataFrame) or not isinstance(other, pd.DataFrame):
        return ""
    if list(one.columns.names) != list(other.columns.names):
        return f"columns named {list(one.columns.names)} and {list(other.columns.names)}"
    for place, name in enumerate(one.columns):
        dtypes = one.iloc[:, place].dtype, other.iloc[:, place].dtype
        if all(isinstance(dtype, pd.CategoricalDtype) for dtype in dtypes):
            categories = [set(dtype.categories) for dtype in dtypes]
            if categories[0] != categories[1] or dtypes[0].ordered != dtypes[1].ordered:
                return f"column {name}: categories {categories[0]} and {categories[1]}"
    return ""
