"""Subclasses of dataframes of pandas that compare, convert and merge as those of cuDF: the partitions on a GPU."""

import operator
import re
import sys
from contextlib import contextmanager
from functools import partial
from io import BytesIO, StringIO
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from dask.dataframe.dispatch import concat_dispatch, meta_nonempty
from pandas.core import roperator
from pyarrow import orc

from jupyter_gpudask.fallback import values as fallback
from jupyter_gpudask.inspection import frames, placement
from jupyter_gpudask.inspection.frames import conform
from jupyter_gpudask.inspection.placement import place_of, to_gpu
from jupyter_gpudask.overlay import CellRecord, Overlay
from jupyter_gpudask.patches.apply import patches
from jupyter_gpudask.patches.frames.categories import concatenate

FRAME = pd.DataFrame(
    {
        "k": [5, 3, 5, 1, 2, 4, 1, 9, 3, 0],
        "x": [1.0, None] * 5,
        "name": pd.array(["b", None, "a", "cc", "b"] * 2, dtype="string"),
        "when": pd.to_datetime(["2024-01-01", None, "2024-05-01", "2024-07-01", "2024-12-01"] * 2),
    }
)


def with_missing(result, *operands):
    """As cuDF, whose comparisons have a missing value where an operand has one."""
    missing = pd.Series(data=False, index=result.index)
    for operand in operands:
        missing |= pd.isna(operand)
    return result.astype("boolean").mask(missing)


def as_small(series, number):
    """As cuDF, which converts a number beside booleans to a small integer."""
    is_number = isinstance(number, int | float | np.number) and not isinstance(number, bool)
    return np.int8(int(number)) if series.dtype.kind == "b" and is_number else number


def with_signs(result, dividend, divisor):
    """As cuDF, which multiplies a column by -1 if all its infinite quotients have another sign than the dividends."""
    infinite = np.isinf(result.to_numpy()) & (np.asarray(dividend) != 0)
    has_negative_zero = np.all(np.asarray(divisor) == 0) and np.signbit(divisor).any()
    same = (np.signbit(result.to_numpy()) == np.signbit(dividend))[infinite]
    is_negated = not result.isna().any() and same.size and (same if has_negative_zero else ~same).all()
    return Series(pd.Series(result).mul(-1)) if is_negated else result


def has_fractions(operand):
    return isinstance(operand, float) or getattr(getattr(operand, "dtype", None), "kind", "O") == "f"


def rounded_floor(dividend, divisor):
    """As cuDF, which rounds the quotient of floats first."""
    return np.floor(dividend / divisor)


def rounded_rest(dividend, divisor):
    return dividend - np.floor(dividend / divisor) * divisor


ROUNDED = {
    **dict.fromkeys((operator.floordiv, roperator.rfloordiv, np.floor_divide), rounded_floor),
    **dict.fromkeys((operator.mod, roperator.rmod, np.remainder), rounded_rest),
}


DIVISIONS = (operator.truediv, roperator.rtruediv, operator.floordiv, roperator.rfloordiv)


class Series(pd.Series):
    """Stands for `cudf.Series`."""

    __module__ = "cudf_stand_in"  # not "cudf", which Dask would import

    @property
    def _constructor(self):
        return Series

    @property
    def _constructor_expanddim(self):
        return Frame

    def _cmp_method(self, other, op):
        if self.dtype == "string" and self.isna().all():
            return Series(self.isna() if op is operator.ne else self.notna())
        return Series(with_missing(self.to_pandas()._cmp_method(as_small(self, other), op), self, other))

    def _arith_method(self, other, op):
        plain = self.to_pandas()
        if op in (operator.truediv, roperator.rtruediv) and plain.dtype.kind in "biu" and plain.dtype.itemsize < 8:
            plain = plain.astype("float32")
        other = as_small(plain, other)
        if op in ROUNDED and plain.dtype.kind in "iuf" and not isinstance(plain.dtype, pd.ArrowDtype):
            sides = (other, plain) if op in (roperator.rfloordiv, roperator.rmod) else (plain, other)
            if any(map(has_fractions, sides)):
                return Series(ROUNDED[op](*sides))
        result = Series(plain._arith_method(other, op))
        sides = (other, plain) if op in (roperator.rtruediv, roperator.rfloordiv) else (plain, other)
        return with_signs(result, *sides) if op in DIVISIONS and result.dtype.kind == "f" else result

    @property
    def null_count(self):
        return 0 if isinstance(self.dtype, np.dtype) else int(self.isna().sum())

    def astype(self, dtype, **options):
        result = pd.Series(self).astype(dtype, **options)
        if self.dtype.kind == "f" and isinstance(result.dtype, np.dtype) and result.dtype.kind == "u":
            result = result.mask(pd.Series(self) < 0, 0).astype(result.dtype)
        return Series(with_missing(result, self) if self.dtype.kind == "f" and result.dtype == bool else result)

    def _logical_method(self, other, op):
        return Series(with_missing(self.to_pandas()._logical_method(other, op), self, other))

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        plain = [each.to_pandas() if isinstance(each, Series) else each for each in inputs]
        is_rounded = ufunc in ROUNDED and any(map(has_fractions, plain))
        result = (ROUNDED[ufunc] if is_rounded else getattr(ufunc, method))(*plain, **options)
        result = result.astype(getattr(result.dtype, "numpy_dtype", result.dtype))  # as of CuPy
        return Series(with_missing(result, *plain) if result.dtype == bool else result)

    def between(self, left, right, inclusive="both"):
        return Series(with_missing(self.to_pandas().between(left, right, inclusive), self))

    def isin(self, values):
        plain = self.to_pandas()
        is_of_arrow = isinstance(plain.dtype, pd.ArrowDtype) and plain.dtype.kind == "f"
        plain = plain.astype("float64") if is_of_arrow else plain  # in which 0.0 is -0.0
        return Series((plain.isin(values) & self.notna()) | (self.isna() & any(each is None for each in values)))

    def where(self, cond, other=np.nan, **_):
        plain = pd.Series(self)
        result = (plain.astype("boolean") if plain.dtype == bool else plain).where(cond, other)
        return Series(result.astype(float) if self.dtype.kind == "i" and pd.isna(other) else result)

    def mask(self, cond, other=np.nan, **_):
        return self.where(~cond, other)

    def round(self, decimals=0):
        result = pd.Series(self).round(decimals)
        return Series(result.astype(getattr(result.dtype, "numpy_dtype", result.dtype)))

    def rolling(self, window, **_):
        return Windows(self, window)

    def resample(self, rule, **options):
        return Bins(pd.Series(self).resample(rule, **options))

    def to_pandas(self, **_):
        return pd.Series(self)

    @property
    def str(self):
        return Texts(self.to_pandas().str, self.to_pandas())

    @property
    def dt(self):
        return SmallIntegers(self.to_pandas().dt)

    @property
    def cat(self):
        return Categories(self.to_pandas().cat)


class SmallIntegers:
    """Its accessors: numbers are of 32 bits, and booleans of Arrow."""

    def __init__(self, accessor):
        self._accessor = accessor

    def __getattr__(self, name):
        found = getattr(self._accessor, name)
        if not callable(found):
            return as_cudf(found)
        return lambda *args, **options: as_cudf(found(*args, **options))


class Texts(SmallIntegers):
    """Its accessor of texts: Unicode is that of Python, and patterns have no references to groups."""

    def __init__(self, accessor, texts):
        super().__init__(accessor)
        self._texts = texts

    def __getattr__(self, name):
        if name in ("casefold", "fullmatch"):
            raise AttributeError(name, name=name, obj=self)
        return super().__getattr__(name)

    def _each(self, function, dtype="string"):
        return as_cudf(self._texts.astype(object).map(function, na_action="ignore").astype(dtype))

    def byte_count(self):
        return self._each(lambda text: len(text.encode()), "Int64")

    def contains(self, pat, case=True, flags=0, na=False, regex=True):
        pat = pat if regex else re.escape(pat)
        found = self._each(lambda text: "\\1" not in pat and bool(re.search(pat, text)), "boolean")
        return found.fillna(na)

    def match(self, pat, na=False):
        return self._each(lambda text: bool(re.match(pat, text)), "boolean").fillna(na)

    def replace(self, pat, repl, n=-1, case=None, flags=0, regex=False):
        pat = pat if regex else re.escape(pat)
        return self._each(lambda text: re.sub(pat, lambda _: repl, text))

    def extract(self, pat, flags=0, expand=True):
        return as_cudf(self._texts.astype(object).str.extract(pat, expand=expand))

    def upper(self):
        return self._each(str.upper)

    def lower(self):
        return self._each(str.lower)

    def swapcase(self):
        return self._each(str.swapcase)

    def join(self, sep):
        return self._each(lambda text: sep.join(text) or None)


class Categories:
    """Its accessor of categories, whose codes have missing values, and which loses the order."""

    def __init__(self, accessor):
        self.categories = accessor.categories
        self.codes = Series(accessor.codes.astype("Int8").mask(accessor.codes < 0))
        self.as_ordered = lambda: Series(accessor.as_ordered())
        self.set_categories = lambda categories: Series(accessor.set_categories(categories, ordered=False))
        self.remove_categories = lambda categories: Series(accessor.remove_categories(categories))


def as_cudf(result):
    if result.ndim > 1:
        return Frame(result)
    kinds = {"i": "int32[pyarrow]", "b": "bool[pyarrow]"}
    return Series(result.astype(kinds.get(result.dtype.kind, result.dtype)))


class Windows:
    """Windows with infinities as numbers; one of times also contains the later rows that have the same time."""

    def __init__(self, series, window):
        self._series, self._window = series, window

    def max(self):
        if not isinstance(self._window, int):
            at, width = self._series.index, pd.Timedelta(self._window)
            greatest = [self._series[(at > each - width) & (at <= each)].to_numpy().max() for each in at]
            return Series(greatest, index=at, name=self._series.name, dtype=float)
        numbers = self._series.to_numpy()
        before = [numbers[max(0, end - self._window) : end] for end in range(1, len(numbers) + 1)]
        greatest = [np.max(each) if len(each) == self._window else np.nan for each in before]
        return Series(greatest, index=self._series.index, name=self._series.name, dtype=float)


class Bins:
    """Its bins of times, of which only those with rows have results."""

    def __init__(self, bins):
        self._bins = bins

    def __getattr__(self, name):
        def computed(*args, **options):
            result = getattr(self._bins, name)(*args, **options)
            return as_stand_in(result.mask(self._bins.size() == 0))

        return computed


class Frame(pd.DataFrame):
    """Stands for `cudf.DataFrame`."""

    __module__ = "cudf_stand_in"

    @property
    def _constructor(self):
        return Frame

    @property
    def _constructor_sliced(self):
        return Series

    def _cmp_method(self, other, op):
        return Frame({name: Series(column)._cmp_method(other, op) for name, column in self.items()})

    def _arith_method(self, other, op):
        if np.ndim(other):
            return super()._arith_method(other, op)
        return Frame({name: Series(column)._arith_method(other, op) for name, column in self.items()})

    def astype(self, dtypes, **options):
        given = dtypes if isinstance(dtypes, dict) else dict.fromkeys(self.columns, dtypes)
        made = {name: column.astype(given.get(name, column.dtype)) for name, column in self.items()}
        return Frame(made).set_axis(self.columns, axis=1)

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        columns, missing = {}, pd.Series(data=False, index=self.index)
        for name in self:  # the missing values of all columns so far, as in cuDF's Frame._apply_cupy_ufunc_to_operands
            operands = [each[name] if isinstance(each, Frame) else each for each in inputs]
            if ufunc.__name__ in ("add", "greater", "less", "not_equal"):  # operators of cuDF
                missing[:] = False
            for each in operands:
                missing |= pd.isna(each)
            result = pd.Series(getattr(ufunc, method)(*operands, **options))
            columns[name] = (result.astype("boolean") if result.dtype == bool else result).mask(missing)
        return Frame(columns)

    def where(self, cond, other=np.nan, **_):
        return Frame({name: column.where(cond[name], other) for name, column in self.items()})

    def mask(self, cond, other=np.nan, **_):
        return self.where(~cond, other)

    def min(self, axis=0, **options):
        return self._of_rows(pd.DataFrame(self).min(axis=axis, **options), axis)

    def max(self, axis=0, **options):
        return self._of_rows(pd.DataFrame(self).max(axis=axis, **options), axis)

    def _of_rows(self, extremes, axis):
        are_floats = axis == 1 and extremes.dtype in ("boolean", "bool[pyarrow]") and self.isna().any(axis=None)
        return (
            Series(extremes.astype("float[pyarrow]" if "[" in str(extremes.dtype) else "Float32"))
            if are_floats
            else as_stand_in(extremes)
        )

    def rolling(self, window, **_):
        windows = {name: Windows(column, window) for name, column in self.items()}
        return SimpleNamespace(max=lambda: Frame({name: each.max() for name, each in windows.items()}))

    def resample(self, rule, **options):
        return Bins(pd.DataFrame(self).resample(rule, **options))

    def merge(self, right, how="inner", **options):
        merged = self.to_pandas().merge(right.to_pandas(), how=how, **options)
        if how == "outer" and options.get("left_index") and self.index.name != right.index.name:
            merged.index = merged.index.where(merged.index.isin(self.index))  # labels of the left side only
        return Frame(merged[list(merged)[::-1]] if how == "right" else merged)

    def melt(self, var_name=None, **options):
        return Frame(self.to_pandas().melt(var_name=var_name or "variable", **options))

    def to_pandas(self, **_):
        return pd.DataFrame(self)


def concat_alone(dfs, axis=0, join="outer", ignore_index=False, **_):
    """As in dask_cudf, which has no other join, and whose categories have no order, and columns no name."""
    assert join == "outer"
    plain = [part.to_pandas() for part in dfs]
    options = {"axis": axis, "ignore_index": ignore_index}
    if axis not in (0, "index"):
        return as_stand_in(pd.concat(plain, **options))
    names = [name for name, dtype in pd.DataFrame(plain[0]).dtypes.items() if dtype == "category"]
    made = pd.concat(with_booleans_of_all(with_categories_of_all(plain, names)), **options)
    if made.ndim == 1 and names:  # its codes are those of all categories, the names those of the first part
        codes = made.cat.codes.where(made.cat.codes < len(plain[0].dtype.categories), -1)
        made = pd.Series(pd.Categorical.from_codes(codes, dtype=plain[0].dtype), made.index, name=made.name)
    elif made.ndim == 2:
        made = made.assign(**{name: made[name].cat.as_unordered() for name in names})
        made.columns = made.columns if made.columns.nlevels > 1 else made.columns.rename(None)
    if isinstance(made.index, pd.MultiIndex):
        levels = [made.index.get_level_values(number) for number in range(made.index.nlevels)]
        unordered = [level.as_unordered() if level.dtype == "category" else level for level in levels]
        made.index = pd.MultiIndex.from_arrays(unordered, names=made.index.names)
    elif made.index.dtype == "category":
        made.index = made.index.as_unordered()
    return as_stand_in(made)


concat_dispatch.register((Series, Frame), partial(concatenate, concat_alone))


def with_categories_of_all(parts, names):
    """Categories of each column are those of the parts that have a value."""
    frames = [part.to_frame("only") if part.ndim == 1 else part for part in parts]
    for name in ["only"] if names and parts[0].ndim == 1 else names:
        having = [each for each in frames if name in each and each[name].notna().any()] or frames[:1]
        known = dict.fromkeys(each for frame in having for each in frame[name].cat.categories)
        frames = [
            frame.assign(**{name: pd.Categorical(frame[name], list(known))}) if name in frame else frame
            for frame in frames
        ]
    return [
        frame["only"].rename(part.name) if part.ndim == 1 else frame for frame, part in zip(frames, parts, strict=True)
    ]


def with_booleans_of_all(parts):
    """Booleans are missing in a part that lacks them; texts that are missing become false beside them."""
    names = {name for part in parts if part.ndim == 2 for name in part if part[name].dtype.kind == "b"}
    for name in names if all(part.ndim == 2 for part in parts) else ():
        given = [part.get(name, pd.Series(pd.NA, part.index, "boolean")) for part in parts]
        given = [column.eq(True) if column.dtype == object else column for column in given]
        parts = [part.assign(**{name: column}) for part, column in zip(parts, given, strict=True)]
    return parts


@meta_nonempty.register((Series, Frame))
def nonempty(meta):
    return type(meta)(meta_nonempty(meta.to_pandas()))


def on_both(compute):
    """What it gives for pandas, and for dataframes that stand for those of cuDF."""
    frame = dd.from_pandas(FRAME, npartitions=3)
    on_gpu = to_gpu(frame)
    assert place_of(on_gpu) == "gpu"
    assert place_of(on_gpu.x) == "gpu"
    return compute(frame).compute(), compute(on_gpu).compute()


def assert_equal(result, expected, **options):
    """A result of the stand-in has each value, name and missing value of one of pandas; dtypes may be nullable ones."""
    assert isinstance(result, Frame | Series)
    equal = pd.testing.assert_frame_equal if expected.ndim > 1 else pd.testing.assert_series_equal
    equal(result.to_pandas(), expected, **{"check_dtype": False, "check_exact": True, **options})


def cases(table, *argvalues):
    """Parameters of a test from lists of computations by what they are about."""
    return [
        pytest.param(compute, *argvalues, id=f"{about} {number}")
        for about, computations in table.items()
        for number, compute in enumerate(computations)
    ]


def to_gpu_as(kind, frame):
    """A dataframe on GPUs whose partitions are of a class of this module."""
    return to_gpu(frame).map_partitions(kind, meta=frame._meta, enforce_metadata=False)


def to_datetime(data, **options):
    """As in cuDF, whose times of floats have nanoseconds."""
    made = pd.to_datetime(pd.Series(data), **options)
    return Series(made.astype("datetime64[ns]") if data.dtype.kind == "f" else made)


def as_stand_in(data):
    return Frame(data) if data.ndim > 1 else Series(data)


def as_pandas(data, schema=None):
    plain = data.to_pandas() if isinstance(data, Frame | Series) else data
    return plain if schema is None or not hasattr(plain, "index") else conform(plain, schema)


class Readers:
    """Its readers of files, which keep what they are called with.

    Integers may be missing, a part of a text file without rows has strings, and one without values small integers.
    """

    def __init__(self):
        self.calls = []

    def read_csv(self, source, byte_range=None, compression=None, **options):
        self.calls.append({"source": source, "byte_range": byte_range, **options})
        if unknown := options.keys() & {"comment", "converters"}:
            exec("raise error", {"__name__": "cudf.io.csv", "error": TypeError(f"no {unknown}")})  # noqa: S102
        content = source.read() if isinstance(source, BytesIO) else Path(source).read_bytes()
        if byte_range:
            start, length = byte_range
            ends = [0, *(place + 1 for place, byte in enumerate(content) if byte == ord("\n"))]
            content = b"".join(
                content[each:after] for each, after in pairwise(ends) if start - (not start) < each <= start + length
            )
        text = content.decode()
        plain = pd.read_csv(StringIO(text), dtype_backend="numpy_nullable", **options)
        if not len(plain):
            return Frame(plain.astype("str"))
        empty = [name for name in plain if plain[name].isna().all()]
        frame = plain.astype(dict.fromkeys(empty, "Int8"))
        return Frame(frame.set_axis(frame.columns.astype(str), axis=1))

    def read_json(self, source, *, engine, **options):
        self.calls.append({"source": source, **options})
        return Frame(pd.read_json(source, **options))

    def read_orc(self, source, stripes, columns):
        file = orc.ORCFile(source)
        found = range(file.nstripes) if stripes is None else stripes
        return Frame(pa.Table.from_batches([file.read_stripe(each, columns) for each in found]).to_pandas())

    def concat(self, frames, **options):
        return Frame(pd.concat(frames, **options))


@contextmanager
def readers_in_use():
    """Let workers read files with `Readers`, which it gives."""
    with pytest.MonkeyPatch.context() as patch:
        readers = Readers()
        patch.setitem(sys.modules, "cudf", readers)
        yield readers


@contextmanager
def gpu_cell(array="numpy", dataframe="cudf", **record):
    """As `switched_to`, which refuses cuDF where it is not installed."""
    overlay = Overlay({"array": array, "dataframe": dataframe}, CellRecord(**record))
    overlay.enter()
    try:
        yield
    finally:
        overlay.leave()


@contextmanager
def in_use():
    """Let workers move partitions to dataframes of this module, which count as those of a GPU; patches are applied."""
    patches.apply("kernel")
    place_of_data = placement._place_of_data
    settings = {"scheduler": "sync", "dataframe.shuffle.method": "tasks"}  # on disk, the partitions become plain ones
    with pytest.MonkeyPatch.context() as patch, dask.config.set(settings):
        # These are objects of pandas, too.
        is_ours = lambda data: isinstance(data, Frame | Series)  # noqa: E731
        patch.setattr(placement, "_place_of_data", lambda data: "gpu" if is_ours(data) else place_of_data(data))
        patch.setattr(frames, "partition_to_gpu", as_stand_in)
        patch.setattr(frames, "partition_to_host", as_pandas)
        patch.setattr(fallback, "frame_to_gpu", as_stand_in)
        yield
