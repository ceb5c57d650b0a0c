"""Inputs of public notebooks and bug reports whose results differed on GPUs: they are those of the CPU.

With a GPU they are computed by CuPy and cuDF; elsewhere by the stand-ins for both.
"""

import re
import warnings
from decimal import Decimal

import dask
import dask.array as da
import dask.dataframe as dd
import device
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from cudf_stand_in import gpu_cell, in_use

from jupyter_gpudask.overlay import CellRecord
from jupyter_gpudask.patches.apply import patches
from jupyter_gpudask.switch.context import switched_to

pytestmark = device.MARKS

GROUPS = pd.DataFrame({"g": [1.0, 2.0, np.nan, 1.0, np.nan, 3.0] * 10, "p": np.arange(60) * 1.5})
GROUPS["k"] = pd.array(["a", "b", None, "a", "c", None] * 10, "str")
ROWS = pd.DataFrame({"a": [1, 1, 2, 2, 3, 1], "b": [5.0, 6, 7, 8, np.nan, 5], "s": ["x", "y", "x", None, "z", "x"]})
BINS = pd.DataFrame(
    {"v": np.arange(40.0), "m": list("abcd") * 10}, pd.date_range("2024-01-01", periods=40, freq="37min")
)
TEXTS = ["this is. an? example", "a1-b22", None, "", "Straße İstanbul ß", "łódź", "  pad", "x.y.z", "CamelCase9", "½ ²"]
NULLABLE = pd.DataFrame({"q": pd.array([1, None, 3], "Int64"), "b": pd.array([True, None, False], "boolean")})
NULLABLE["u"] = pd.array([1, None, 255], "UInt8")
NULLABLE["w"] = pd.array([1, None, 2**62 + 1], "int64[pyarrow]")


TEXTS_AND_KEYS = pd.DataFrame({"a": [1, 2, 3, 1], "s": pd.array(["x", None, "y", None], "str")})
SPANS = pd.DataFrame({"k": [0, 3, 0], "t": pd.to_timedelta([7, 13, -2], "h")})
OF_ARROW = pd.DataFrame({"d": pd.array([Decimal("1.25"), None, Decimal(-3)], pd.ArrowDtype(pa.decimal128(10, 2)))})
OF_ARROW["t"] = pd.array(pd.to_datetime(["2024-01-02", None, "2024-05-01"]), "timestamp[us][pyarrow]")


def of(data, npartitions=3):
    return dd.from_pandas(data, npartitions=npartitions)


def texts():
    return of(pd.DataFrame({"s": pd.array(TEXTS, "str")})).s


def lists(frame, name):
    return {
        key: sorted(map(str, values)) for key, values in frame.groupby("a").agg({name: list}).compute()[name].items()
    }


def replaced():
    frame = of(pd.DataFrame({"age": ["12", "> 89", "33", "> 89"] * 3}))
    frame["age"] = frame.age.replace(to_replace="> 89", value="90")
    return [frame.age, frame.age.astype(float).sum()]


def joined(groups):
    return groups.apply(lambda values: ",".join(sorted(values.dropna())))


def joined_again(groups):
    return groups.apply(lambda values: ",".join(each for each in values if each))


def aligned():
    other = of(pd.DataFrame({"k": [0, 1, 2, 3, 0, 1], "c": range(6)}))
    return of(pd.DataFrame({"a": range(6)})).assign(z=other.groupby("k").c.sum())


NAN = float("nan")
ZEROS = pd.DataFrame({name: pd.array([0.0, -0.0, 0.1, None], f"{name}[pyarrow]") for name in ("double", "float")})
ZEROS["n"] = pd.array([0.0, -0.0, 0.1, None], "Float32")
TIMES_OF = pd.DataFrame({"n": [3, -1, 2], "w": [3.0, -1, 2], "x": [1.5, 2.5, 3.5], "s": np.array([1, 2, 3], "int8")})
BOOLEANS = pd.DataFrame({"a": pd.array([True, None, False], "bool[pyarrow]"), "n": [True, False, False]})
BOOLEANS[["b", "c"]] = pd.DataFrame({"b": [True, None, False], "c": [None, None, False]}, dtype="boolean")
SIGNS = pd.DataFrame({dtype: pd.array([-1.25, -0.0, -0.0, 3.25], dtype) for dtype in ("double[pyarrow]", "float64")})
ARROW = pd.DataFrame({"b": pd.array([2.5, None, 100, 0.75], "double[pyarrow]"), "n": [1.0, 9, None, 2]})


COUNT = dd.Aggregation("n", lambda groups: groups.count(), lambda counts: counts.sum())


def without_nan():
    frame = of(ARROW)
    return frame.mask((frame <= NAN) | (frame > 3))


def by_two_indexes():
    rows = dd.concat([of(ROWS), of(ROWS[ROWS.a < 3])])
    other = pd.DataFrame({"c": [1, 2, 3]}, pd.Index([0, 10, 20], name="i"))
    return rows.merge(of(other, 1), left_index=True, right_index=True, how="outer")


FRAMES = {
    "NaN beside numbers of Arrow": lambda: [without_nan(), of(ARROW).b != NAN, of(ARROW).n <= NAN],
    "an outer merge by indexes of two names": by_two_indexes,
    "rows sorted by a function of bins": lambda: (
        of(BINS).v.resample("2h", label="right").agg(["max", "count"]).sort_values("max", na_position="first")[["max"]]
    ),
    "the variance of whether all values of Arrow are true": lambda: of(ARROW)[["b", "n"]].fillna(0).all().var(),
    "quotients of floats": lambda: [
        of(pd.Series([1.0, -2.0, 0.3, None])) // 0.1,
        of(ROWS).b % -np.inf,
        np.remainder(of(ROWS).b, 0.3),
        1 // (of(ROWS).b / 10),
        of(ROWS)[["a", "b"]] % 0.7,
        of(ROWS)[["a", "b"]] // of(ROWS)[["b", "a"]],
        of(ROWS).b.floordiv(of(ROWS).a / 3, fill_value=2),
        of(ROWS).set_index("a").index // 0.3,
        of(ARROW).b // 0.1,
        *(0.5 // of(SIGNS)[name] for name in SIGNS),
        *(0.5 / of(SIGNS)[name] for name in SIGNS),
        of(SIGNS) // -0.0,
    ],
    "integers of times of numbers": lambda: [
        dd.to_datetime(of(TIMES_OF[name]), unit=unit).astype("int64")
        for name in TIMES_OF
        for unit in ("D", "ms", "ns", None)
    ],
    "rows of booleans": lambda: [
        (least := of(BOOLEANS)[["a"]].min(axis=1)).where(~least),
        of(BOOLEANS)[["b", "c"]].max(axis=1),
        of(BOOLEANS)[["c"]].max(axis=1, skipna=False),
        of(BOOLEANS)[["n"]].min(axis=1),
    ],
    "sums of groups so far": lambda: [
        1 / (sums := of(SIGNS.assign(k=[1, 2, 2, 1]), 1).groupby("k")[list(SIGNS)].cumsum()),
        *(1 / sums[name] for name in SIGNS),
    ],
    "a column of filled windows": lambda: np.log1p(of(ROWS)[["a", "b"]].rolling(1).max().fillna({"a": 1, "b": 7})["a"]),
    "quantiles of a table of groups of Arrow's numbers": lambda: [
        (table := of(ROWS.astype({"a": "int64[pyarrow]", "s": "category"})).pivot_table("b", "s", "a")).x.quantile(0.5),
        table[["x", "z"]].describe(),
    ],
    "some columns of windows that are compared": lambda: (
        of(ROWS).assign(c=2)[["a", "b", "c"]].rolling(2).max().eval("b % 3 == c")
    ),
    "rows sorted by a quotient of windows": lambda: (of(ROWS)[["a", "b"]].rolling(2).max() // 2).sort_values("b"),
    "renamed values of texts": lambda: of(GROUPS, 1).k.unique().rename("other"),
    "a melted table of groups": lambda: (
        of(ROWS.astype({"s": "category"})).pivot_table(index="a", columns="s", values="b", aggfunc="count").melt()
    ),
    "rows of an index of numbers as texts": lambda: (s := of(ROWS).index.to_series().astype(str))[s == "cc"],
    "a column that is assigned to those of several levels": lambda: [
        (sums := of(ROWS).groupby("a").agg({"b": ["sum", "max"]})).assign(z=sums[("b", "sum")] > 9)[("z", "")],
        sums.assign(z=of(ROWS).b.repartition(npartitions=2).sum())[("z", "")],
    ],
    "groups that are selected by two conditions of their key": lambda: [
        (counts := of(ROWS).groupby("a").b.agg(COUNT).reset_index())[(counts.a > 1) & (counts.a < 3)],
        counts[(counts.a < 2) | (counts.a > 2)],
    ],
    "the number of rows without columns": lambda: [
        len(of(ROWS)[[]].dropna(**each)) for each in ({"how": "all"}, {"how": "any"}, {"how": "all", "subset": []})
    ],
    "isin of zeros of Arrow": lambda: [
        of(ZEROS).isin([0, 2.5]),
        *(of(ZEROS)[name].isin([-0.0, 0.1, None]) for name in ZEROS),
    ],
    "downcast nullable integers": lambda: dd.to_numeric(of(NULLABLE).q, downcast="integer"),
    "isin of nullable dtypes": lambda: [
        of(NULLABLE).isin(each)
        for each in ([1, 3], {"w": [1]}, [1.0, np.nan], [1, None], [3, pd.NA], [pd.NaT], {"w": [None], "q": [pd.NA]})
    ],
    "isin of texts beside numbers": lambda: [
        of(TEXTS_AND_KEYS).isin(each) for each in (["x", 3], ["y", None], {"s": ["x"]}, {"a": [1], "s": [None]})
    ],
    "rows of Arrow's integers that are among others": lambda: of(NULLABLE[["w"]])[of(NULLABLE).w.isin([1.0, np.nan])],
    "the index of isin without columns": lambda: [of(ROWS)[["a", "b"]].isin([1])[[]].index.to_series()],
    "isin and other rows": lambda: of(ROWS)[["a"]].isin([1]).combine_first(of(ROWS)[["a", "b"]]),
    "a merge after missing values that other rows fill": lambda: [
        of(TEXTS_AND_KEYS)
        .combine_first(of(ROWS[["a"]].assign(s=1.5), 2))
        .merge(of(ROWS), on="a", how="outer")
        .groupby("a")
        .b.count()
    ],
    "times beside numbers that are replaced": lambda: of(SPANS).replace(0, np.nan),
    "negative nullable floats as unsigned integers": lambda: [
        *(of(pd.Series([-1.5, 2.0, 30.5], dtype="Float64")).astype(each) for each in ("uint8", "uint32", "uint64")),
        of(pd.DataFrame({"a": pd.array([-1.5, 2.5], "Float32"), "b": [1, 2]})).astype({"a": "uint16"}).a,
    ],
    "isin of NaN": lambda: of(GROUPS)[of(GROUPS).g.isin([1.0, np.nan])],
    "groups of missing keys": lambda: of(GROUPS).groupby("k", dropna=False).size(),
    "reciprocals of -0.0": lambda: 1 / of(pd.Series([-0.0, 0.0, 2.0])),
    "nullable dtypes": lambda: [of(NULLABLE), of(NULLABLE).q + 1],
    "decimals and times of Arrow": lambda: of(OF_ARROW),
    "the order of transformed rows": lambda: of(GROUPS).groupby("k").p.transform("mean", meta=("p", "f8")),
    "empty bins": lambda: [getattr(of(BINS, 1).v.resample("15min"), name)() for name in ("sum", "count", "prod")],
    "different values of empty bins": lambda: of(BINS).m.resample("15min").nunique(),
    "days, weeks and quarters": lambda: [of(BINS, 1).v.resample(rule).mean() for rule in ("1D", "W", "QE")],
    "a backreference": lambda: texts().str.contains(r"(.)\1"),
    "flags": lambda: texts().str.contains("STRASSE|camel", flags=re.IGNORECASE),
    "classes beyond ASCII": lambda: [texts().str.replace(r"\w", "w", regex=True), texts().str.contains(r"\d")],
    "groups in a replacement": lambda: texts().str.replace(r"([a-z])(\d)", r"\2\1", regex=True),
    "case beyond ASCII": lambda: [getattr(texts().str, name)() for name in ("upper", "lower", "swapcase", "title")],
    "parts and joins": lambda: [texts().str.extract(r"(\d)", expand=False), texts().str.join("-")],
    "a text that is replaced": replaced,
    "a list that is replaced": lambda: texts().replace(["x.y.z", "CamelCase9"], "q"),
    "lists of texts": lambda: lists(of(ROWS), "s"),
    "lists of numbers": lambda: lists(of(ROWS), "b"),
    "exploded lists": lambda: (
        of(ROWS).groupby("a").agg({"s": list}).explode("s").s.value_counts().compute().sort_index()
    ),
    "an aggregation of texts": lambda: of(ROWS).groupby("a").s.agg(dd.Aggregation("j", joined, joined_again)),
    "another dataframe's column": aligned,
    "counts of Arrow's texts": lambda: (
        of(pd.DataFrame({"t": pd.array(["p", None, "q", "p"], pd.ArrowDtype(pa.string()))})).t.value_counts().compute()
    ).sort_index(),
    "delayed values and dataframes together": lambda: list(
        dask.compute(dask.delayed(len)([1]), of(ROWS).b.sum(), of(ROWS))
    ),
    "groups of parts of a time": lambda: (
        (frame := of(BINS.reset_index(names="t").assign(t=lambda d: d.t.where(d.v > 3))))
        .groupby(frame.t.dt.hour)
        .v.sum()
    ),
}


def of_xarray(compute, package="xarray"):
    """A test of a function of Xarray, or of a package for it, given the package and an array of Xarray."""

    def computed_by_xarray():
        xarray, other = map(pytest.importorskip, ("xarray", package))
        data = da.arange(24, chunks=6).reshape(4, 6)
        found = compute(other, xarray.DataArray(data, {"x": np.arange(6) * 10}, ("y", "x"), "t")).to_numpy()
        return found.round(9) if found.dtype.kind in "fc" else found

    return computed_by_xarray


def of_image(compute):
    """A test of a function of dask-image, given an image and its labels."""

    def computed_by_dask_image():
        measure = pytest.importorskip("dask_image.ndmeasure")
        image = da.from_array((np.arange(60).reshape(6, 10) * 7 % 11).astype(float), chunks=(4, 5))
        labels, number = measure.label(image > 5)
        return compute(measure, image, labels, number)

    return computed_by_dask_image


def on_grid(package, data):
    grid = package.Grid(
        data.to_dataset().assign_coords(left=("left", np.arange(6) * 10 - 5)),
        coords={"X": {"center": "x", "left": "left"}},
        padding="periodic",
        autoparse_metadata=False,
    )
    return grid.interp(data.astype(float), "X")


ARRAYS = {
    "the median beside 0 / 0": lambda: da.isnan(da.median((x := da.arange(-1.0, 3, chunks=2)) % x, axis=0)),
    "the largest beside 0 / 0": lambda: da.isnan(da.topk((x := da.arange(-1.0, 3, chunks=2)) / x, 1)),
    "whether a sinc is 0": lambda: [
        da.sinc(x) != 0 for x in (da.arange(9.0, chunks=4), da.arange(9, dtype="f4", chunks=4))
    ],
    "signs of a sinc": lambda: da.digitize(da.sinc(da.arange(-2, 2, 0.5, chunks=4)), np.array([-1, 0, 2])),
    "Xarray's map_blocks": of_xarray(lambda _, x: x.map_blocks(lambda b: b - b.mean("x"), template=x.astype(float))),
    "Xarray's vectorized functions": of_xarray(
        lambda xarray, x: xarray.apply_ufunc(
            lambda row: np.median(row[row > 3]),
            x.chunk(x=-1),
            input_core_dims=[["x"]],
            dask="parallelized",
            vectorize=True,
            output_dtypes=[float],
        )
    ),
    "Xarray's interpolation": of_xarray(lambda _, x: x.interp(x=[5, 12, 49])),
    "a histogram by xhistogram": of_xarray(
        lambda package, x: package.histogram(x, bins=[np.linspace(0, 24, 7)], dim=["y"]), "xhistogram.xarray"
    ),
    "a spectrum by xrft": of_xarray(
        lambda package, x: package.power_spectrum(x.astype(float).chunk(x=-1), dim="x", detrend="constant"), "xrft"
    ),
    "a filter of gcm-filters": of_xarray(
        lambda package, x: package.Filter(filter_scale=2, dx_min=1).apply(x.astype(float).chunk(-1), dims=["y", "x"]),
        "gcm_filters",
    ),
    "a grid of xgcm": of_xarray(on_grid, "xgcm"),
    "labels of an image": of_image(lambda _, image, labels, number: [labels, number]),
    "means and sizes by label": of_image(
        lambda measure, image, labels, _: [
            measure.mean(image, labels, [1, 2]),
            measure.area(image, labels, [1, 2]),
            measure.maximum_position(image, labels, [1, 2]),
        ]
    ),
    "edges of a histogram": lambda: da.histogram(
        da.from_array(np.random.default_rng(4).normal(size=200).round(2), chunks=50), bins=10, range=(-2, 2)
    )[0],
    "clip of unsigned integers": lambda: da.clip(da.arange(9, dtype="u1", chunks=4), -1, 5),
    "negative floats as unsigned integers": lambda: da.linspace(-3, 3, 7, chunks=3).astype("uint8"),
    "a power of booleans": lambda: (da.arange(4, chunks=2) > 1) ** 2,
    "a norm": lambda: [np.linalg.norm(da.arange(6.0, chunks=2), 1), da.linalg.norm(da.ones((4, 4), chunks=2), 1)],
    "delayed values and arrays together": lambda: list(
        dask.compute(dask.delayed(len)([1]), da.ones(3, chunks=2).sum())
    ),
}


def in_cell(compute, *, of_frames):
    patches.apply("worker")
    if device.HAS_GPU:
        with switched_to("cupy", "cudf", CellRecord(fallback="host", results="host")):
            return compute()
    if of_frames:
        with in_use(), gpu_cell(fallback="host", results="host"):
            return compute()
    with switched_to("cupy", "pandas", CellRecord(fallback="host", results="host")):
        return compute()


def computed(make):
    """The results: labels and values of each in the order of the labels, and dtypes that are not plain numbers."""
    with dask.config.set(scheduler="sync"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = make()
        made = made if isinstance(made, list) else [made]
        return [_described(each.compute() if hasattr(each, "compute") else each) for each in made]


def _described(result):
    if isinstance(result, pd.Index):
        result = result.to_series()
    if isinstance(result, pd.DataFrame):
        return {name: _described(column) for name, column in result.items()}
    if isinstance(result, pd.Series):
        rows = sorted((str(label), str(_number(value))) for label, value in result.items())
        return "" if isinstance(result.dtype, np.dtype) else str(result.dtype), rows
    return (str(result.dtype), result.tolist()) if isinstance(result, np.ndarray | np.generic) else result


def _number(value):
    return float(value) if type(value) in (int, float) else value


@pytest.mark.parametrize("name", FRAMES)
def test_dataframes_are_those_of_the_cpu(name):
    expected = computed(FRAMES[name])
    assert in_cell(lambda: computed(FRAMES[name]), of_frames=True) == expected


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_are_those_of_the_cpu(name):
    expected = computed(ARRAYS[name])
    assert in_cell(lambda: computed(ARRAYS[name]), of_frames=False) == expected
