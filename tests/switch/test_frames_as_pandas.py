"""What cuDF would answer otherwise than pandas, or refuse: real cuDF, in this process."""

import re

import dask
import dask.array as da
import dask.bag
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dask.dataframe.io.demo import make_timeseries

from jupyter_gpudask.fallback.log import fallback_log
from jupyter_gpudask.inspection.placement import place_of
from jupyter_gpudask.inspection.results import results_to_host
from jupyter_gpudask.overlay import CellRecord
from jupyter_gpudask.patches.apply import patches
from jupyter_gpudask.switch.context import switched_to

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore:\\s*You did not provide metadata")]

cudf = pytest.importorskip("cudf", reason="needs cuDF and a GPU")

NAN = float("nan")
HOURS = pd.DataFrame(
    {
        "d": pd.date_range("2015-05-01", periods=300, freq="h").strftime("%Y-%m-%d %H:%M:%S"),
        "name": np.resize(["a", "b", "c"], 300),
        "x": np.arange(300.0),
        "g": np.arange(300) % 5,
    }
)


def on_both(compute, fallback=None):
    """What `compute` gives on pandas and in a cell for GPUs, with that fallback, as pandas."""
    record = CellRecord(fallback=fallback) if fallback else None
    with dask.config.set(scheduler="sync"):
        expected = compute()
        with switched_to("cupy", "cudf", record):
            result = compute()
    assert not type(expected).__module__.startswith("cudf")
    return expected, result.to_pandas() if hasattr(result, "to_pandas") else result


def of_both(compute, data, on_cpu, on_gpu):
    """What `compute` gives on so many partitions of pandas and, in a cell for GPUs, of cuDF, on the host."""
    with dask.config.set(scheduler="sync"):
        expected = compute(dd.from_pandas(data, npartitions=on_cpu)).compute()
        with switched_to("cupy", "cudf", CellRecord(fallback="host", results="host")):
            return expected, results_to_host(compute(dd.from_pandas(data, npartitions=on_gpu)).compute())


def assert_same(compute, fallback=None, of_pandas=None):
    """The same as Dask on the CPU, or as pandas where that has another result."""
    expected, result = on_both(compute, fallback)
    expected = expected if of_pandas is None else of_pandas
    if isinstance(expected, pd.DataFrame):
        pd.testing.assert_frame_equal(result, expected, check_dtype=False, check_index_type=False, check_freq=False)
    elif isinstance(expected, pd.Series):
        pd.testing.assert_series_equal(result, expected, check_dtype=False, check_index_type=False, check_freq=False)
    else:
        assert result == expected


@pytest.fixture(autouse=True, scope="module")
def _workers():
    """What workers patch is patched here: this process is the worker."""
    patches.apply("worker")
    yield
    patches.undo("worker")


@pytest.fixture
def files(tmp_path):
    def write(pieces, **options):
        for number, piece in enumerate(pieces):
            pq.write_table(pa.Table.from_pandas(piece), tmp_path / f"{number}.parquet", **options)
        return str(tmp_path)

    return write


@pytest.mark.parametrize("columns", [None, ["v"]], ids=["all columns", "one column"])
@pytest.mark.parametrize("numbering", ["anew", "on", "none of pandas"])
def test_rows_of_several_files_have_the_index_that_pandas_has(files, numbering, columns):
    frame = pd.DataFrame({"v": np.arange(6000.0), "w": np.arange(6000) % 7})
    pieces = [frame.iloc[start : start + 1500] for start in range(0, 6000, 1500)]
    if numbering == "anew":
        pieces = [piece.reset_index(drop=True) for piece in pieces]
    path = files(pieces)
    if numbering == "none of pandas":
        for number, piece in enumerate(pieces):
            table = pa.Table.from_pandas(piece).replace_schema_metadata(None)
            pq.write_table(table, f"{path}/{number}.parquet")
    assert_same(lambda: dd.read_parquet(path, columns=columns).compute())
    assert_same(lambda: dd.read_parquet(path, columns=columns).index.compute().max())


def test_files_that_have_an_index_keep_it(files):
    frame = pd.DataFrame({"v": np.arange(600.0)}, index=pd.Index(np.arange(600) * 2, name="row"))
    path = files([frame.iloc[:300], frame.iloc[300:]])
    with switched_to("cupy", "cudf"), dask.config.set(scheduler="sync"):
        read = dd.read_parquet(path).compute().to_pandas()
    pd.testing.assert_frame_equal(read, frame, check_dtype=False)


def test_parts_of_files_have_the_index_that_pandas_has(files):
    path = files([pd.DataFrame({"v": np.arange(4000.0)})] * 2, row_group_size=1000)
    assert_same(lambda: dd.read_parquet(path, split_row_groups=2).compute())


def test_the_first_rows_of_files_are_those_of_pandas(files):
    path = files([pd.DataFrame({"v": np.arange(500.0) + 500 * number}) for number in range(4)])
    assert_same(lambda: dd.read_parquet(path).head(700, npartitions=3))


def test_an_index_of_several_files_has_divisions(files):
    hours = pd.DataFrame(
        {"t": pd.date_range("2024", periods=400, freq="h"), "n": np.arange(400), "s": list("abcd") * 100}
    )
    path = files([hours.iloc[start : start + 100] for start in range(0, 400, 100)])
    days = hours.set_index("t").n.resample("1D").sum()  # of which Dask on the CPU loses rows
    assert_same(lambda: dd.read_parquet(path).set_index("t").n.resample("1D").sum().compute(), of_pandas=days)
    assert_same(lambda: dd.read_parquet(path).set_index("n").loc[[3, 398]].s.compute().sort_index())
    assert_same(lambda: dd.read_parquet(path).set_index("s").loc["b"].n.sum().compute())
    assert_same(lambda: len(dd.read_parquet(path).set_index("n").repartition(divisions=[0, 70, 399])), of_pandas=400)
    assert_same(lambda: dd.read_parquet(path)[["n"]].assign(m=dd.read_parquet(path).n).m.sum().compute())
    assert_same(lambda: dd.read_parquet(path).sort_values("n").partitions[-1].n.max().compute())


def test_parts_of_a_time_become_columns():
    def compute():
        frame = dd.from_pandas(HOURS, npartitions=2)
        frame["d"] = dd.to_datetime(frame["d"], format="%Y-%m-%d %H:%M:%S")
        frame["day"] = frame["d"].dt.day
        frame["weekday"] = frame["d"].dt.dayofweek.map({0: 10, 1: 11, 2: 12, 3: 13, 4: 14, 5: 15, 6: 16})
        frame = frame.assign(hour=frame["d"].dt.hour, is_late=frame["d"].dt.hour > 20)
        return frame[frame["d"] > pd.Timestamp("2015-05-03")].compute()

    assert_same(compute)


METAS = {
    "guessed": {},
    "given": {"meta": ("name", "i8")},
    "of pandas": {"meta": pd.Series([], dtype="i8", name="name")},
}


@pytest.mark.parametrize("meta", METAS.values(), ids=METAS)
def test_a_column_is_set_by_a_dictionary(meta):
    def compute():
        frame = dd.from_pandas(HOURS, npartitions=2)
        frame["n"] = frame["name"].map({"a": 1, "b": 2, "c": 3}, **meta)
        frame["m"] = frame["n"] + 1
        return frame.groupby("g").m.sum().compute().sort_index()

    assert_same(compute)


LABELS = {
    "a day": "2015-05-05",
    "a month": "2015-05",
    "an hour": "2015-05-05 03",
    "a second": "2015-05-05 03:00:00",
    "days": slice("2015-05-05", "2015-05-06"),
    "until a day": slice(None, "2015-05-06"),
    "moments": slice(pd.Timestamp("2015-05-05"), pd.Timestamp("2015-05-06")),
}


@pytest.mark.parametrize("known", [True, False], ids=["known divisions", "unknown divisions"])
@pytest.mark.parametrize("label", LABELS.values(), ids=LABELS)
def test_times_are_located_by_texts(label, known):
    def locate(data):
        def compute():
            frame = dd.from_pandas(data, npartitions=4)
            return (frame if known else frame.clear_divisions()).loc[label].compute()

        return compute

    indexed = HOURS.set_index(pd.to_datetime(HOURS["d"]).rename("when"))
    assert_same(locate(indexed[["x", "g"]]))
    assert_same(locate(indexed["x"]))


def test_times_after_a_set_index_are_located_by_texts():
    def compute():
        frame = dd.from_pandas(HOURS.sample(frac=1, random_state=0), npartitions=3)
        frame["d"] = dd.to_datetime(frame["d"])
        return frame.set_index("d").loc["2015-05-05", "x"].compute()

    assert_same(compute)


GRADES = pd.DataFrame(
    {
        "k": [1, 1, 2, 2],
        "grade": pd.Categorical(["low", "high", "mid", "low"], ["low", "mid", "high"], ordered=True),
        "x": [1.0, 2.0, 3.0, 4.0],
    }
)


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
@pytest.mark.parametrize("aggregate", ["min", "max", "first", "last"])
def test_groups_have_their_largest_ordered_category(aggregate, known):
    def compute():
        frame = dd.from_pandas(GRADES, npartitions=2)
        frame["grade"] = frame["grade"] if known else frame["grade"].cat.as_unknown()
        return getattr(frame.groupby("k"), aggregate)().compute()

    assert_same(compute, fallback="host")


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s.cat.set_categories(["low", "mid", "high", "top"]),
        lambda s: s.cat.reorder_categories(["high", "mid", "low"]),
        lambda s: s.cat.add_categories(["top"]),
        lambda s: s.cat.remove_categories(["mid"]),
        lambda s: s.cat.as_unknown(),
    ],
)
def test_ordered_categories_stay_ordered(change):
    def compute():
        changed = change(dd.from_pandas(GRADES, npartitions=2).grade)
        assert changed.dtype.ordered
        return changed.compute()

    expected, result = on_both(compute, fallback="host")
    pd.testing.assert_series_equal(result, expected)


def test_categories_that_are_found_have_the_order_of_the_rows():
    def categories():
        frame = dd.from_pandas(HOURS.set_index(HOURS.x * 7919 % 101)[["x"]], npartitions=3, sort=False)
        return list(frame.categorize(columns=[], index=True)._meta.index.categories)

    with dask.config.set(scheduler="sync"):
        expected = categories()
        with switched_to("cupy", "cudf", CellRecord(fallback="host", results="host")):
            assert categories() == expected != sorted(expected)


@pytest.mark.parametrize("find", ["idxmin", "idxmax"])
def test_labels_of_extremes_are_found(find):
    missing = HOURS.assign(x=HOURS.x.where(HOURS.x % 50 > 3), d=pd.to_datetime(HOURS.d))
    for data in (HOURS[["x", "g"]], missing[["x", "g"]].set_index(missing.d), HOURS.set_index("name")[["g"]]):
        assert_same(lambda data=data: getattr(dd.from_pandas(data, npartitions=3, sort=False), find)().compute())
        assert_same(lambda data=data: getattr(dd.from_pandas(data, npartitions=3, sort=False).g, find)().compute())
    assert_same(lambda: getattr(dd.from_pandas(HOURS, npartitions=3).groupby("name").x.mean(), find)().compute())
    assert_same(lambda: getattr(dd.from_pandas(HOURS, npartitions=3)[["d", "x"]], find)(numeric_only=True).compute())


def test_an_extreme_of_missing_values_is_refused_as_by_pandas():
    def compute():
        return dd.from_pandas(pd.DataFrame({"x": [np.nan, np.nan]}), npartitions=1).x.idxmax().compute()

    with dask.config.set(scheduler="sync"):
        with pytest.raises(ValueError, match="NA value"):
            compute()
        with switched_to("cupy", "cudf"), pytest.raises(ValueError, match="NA value"):
            compute()


@pytest.mark.parametrize("compute", [lambda groups: groups.cov(ddof=0), lambda groups: groups.corr()])
def test_groups_have_the_covariances_of_pandas(compute):
    # Of one partition, Dask refuses to compute them, and of several it has those of ddof=1.
    frame = pd.DataFrame({"k": np.arange(60) % 3, "x": np.sqrt(np.arange(60.0)), "y": np.arange(60) ** 2})
    _, result = of_both(lambda f: compute(f.groupby("k")), frame, 2, 3)
    pd.testing.assert_frame_equal(result, compute(frame.groupby("k")), check_index_type=False)


def test_an_index_of_several_levels_is_returned_on_the_host():
    def compute():
        return dd.from_pandas(HOLES, npartitions=2).groupby(["k", "y"])[["x"]].count().index.compute()

    with dask.config.set(scheduler="sync"):
        expected = compute()
        with switched_to("cupy", "cudf", CellRecord(fallback="host", results="host")):
            result = compute()
    assert type(result) is pd.MultiIndex
    assert sorted(result) == sorted(expected)


def group_by_a_comparison(frame):
    return frame.groupby(frame.g == 1).x.mean()


@pytest.mark.parametrize(
    "group",
    [
        group_by_a_comparison,
        lambda frame: frame.groupby(frame.g // 2).x.sum(),
        lambda frame: frame.groupby(["name", frame.g > 2]).x.count(),
        lambda frame: frame.groupby(frame.g == 1).agg({"x": ["mean", "max"]}),
    ],
)
def test_groups_are_made_by_what_is_computed_of_columns(group):
    assert_same(lambda: group(dd.from_pandas(HOURS, npartitions=3)).compute().sort_index())


@pytest.mark.parametrize("persist", [dask.persist, lambda *frames: dask.persist(list(frames))[0]])
@pytest.mark.parametrize("choose", [lambda f: f[f.name == "a"], lambda f: f[(f.x > 10) & (f.g == 2)]])
@pytest.mark.parametrize("key", [lambda f: "g", lambda f: f.g == 2], ids=["by a column", "by a comparison"])
def test_two_groups_of_a_filtered_frame_are_persisted_together(files, choose, key, persist):
    path = files([HOURS, HOURS])

    def compute():
        chosen = choose(dd.read_parquet(path))
        mean, count = persist(chosen.groupby(key(chosen)).x.mean(), chosen.groupby(key(chosen)).x.count())
        return dd.concat([mean.to_frame("mean"), count.to_frame("count")], axis=1).compute().sort_index()

    assert_same(compute)


@pytest.mark.parametrize(
    "make",
    [
        lambda: dask.datasets.timeseries(end="2000-01-03", freq="1h", seed=1),
        lambda: make_timeseries("2000-01-01", "2000-01-03", {"x": float}, freq="1h", partition_freq="1D", seed=1),
        lambda: dask.bag.from_sequence([{"a": 1}, {"a": 2}]).to_dataframe(meta={"a": "i8"}),
    ],
)
def test_frames_of_other_modules_are_on_the_gpu(make):
    with switched_to("cupy", "cudf"):
        assert place_of(make()) == "gpu"
    assert_same(lambda: make().compute())


def test_numpy_gets_a_numpy_array():
    with switched_to("cupy", "cudf"), dask.config.set(scheduler="sync"):
        array, frame = da.arange(6, chunks=3), dd.from_pandas(HOURS[["x"]], npartitions=2)
        assert place_of(array) == place_of(frame) == "gpu"
        given = [np.asarray(array), np.asarray(frame), np.asarray(frame.x), np.array(array, dtype="f4")]
    assert [type(each) for each in given] == [np.ndarray] * 4
    assert given[0].tolist() == list(range(6))
    assert given[1].shape == (300, 1)
    assert given[2].tolist() == HOURS.x.tolist()


def test_frames_of_a_users_function_are_on_the_gpu_whatever_its_metadata_is():
    def double(part):
        return part * 2

    numbers = HOURS[["x", "g"]]
    with switched_to("cupy", "cudf"), dask.config.set(scheduler="sync"):
        frame = dd.from_pandas(numbers, npartitions=2)
        made = [frame.map_partitions(double, meta=meta) for meta in (numbers.iloc[:0], {"x": "f8", "g": "i8"})]
        made.append(frame.map_partitions(lambda part: part.to_pandas() * 2, meta=numbers.iloc[:0]))
        parts = [each.compute() for each in made]
    assert {place_of(each) for each in made + parts} == {"gpu"}
    for part in parts:
        pd.testing.assert_frame_equal(part.to_pandas(), numbers * 2)


KNOWN = pd.CategoricalDtype([1, 2, 3])
ORDERED = pd.CategoricalDtype([3, 1, 2], ordered=True)

HOLES = pd.DataFrame(
    {
        "k": [1, 1, 2, 2, 3, 3, 1, 2],
        "x": [1.0, 2, None, None, 5, None, 7, None],
        "y": np.arange(8),
        "name": pd.array(["a", None, "b", None, "a", "c", None, "a"], dtype="string"),
    }
)


def ordered(frame):
    return frame.assign(k=frame.k.astype(ORDERED))


def sorted_bins(_frame):
    series = pd.Series(np.arange(8.0), pd.date_range("2024", periods=8))
    return dd.from_pandas(series, npartitions=2).resample("36h").agg(["max", "min"]).sort_values("max")


def with_a_column_of_pandas(frame):
    made = frame[["y"]].rename(columns={"y": 0}).assign(z=0)
    made["z"] = made.z.map_partitions(lambda part: pd.Series(np.full(len(part), 1), index=part.index))
    return made


@pytest.mark.parametrize(
    "compute",
    [
        lambda f: f[["x", "y"]].var(),
        lambda f: f[f.y > 3].x.var(),
        lambda f: f[f.y > 3].x.std(),
        lambda f: (f.y > 3).std(),
        lambda f: f[["x", "y"]].std()["x"] > 2.5,
        lambda f: f[["x", "y"]].std(),
        lambda f: (f.y > 3) - 0.5,
        lambda f: 127 + (f.y > 3),
        lambda f: (f.y > 3) < 0.5,
        lambda f: (f.y > 3) - (f.y > 3).mean(),
        lambda f: f[["x", "y"]].assign(p=f.y > 3) * 1.5,
        lambda f: (f.y > 3).sub(0.5),
        lambda f: np.multiply(f.y > 3, 0.5),
        lambda f: (f.y > 3) / 3,
        lambda f: (f.y.astype("int32") + 2**24) / 1,
        lambda f: (f.y.astype("int32") + 2**24).div(f.y.astype("int32") + 1),
        lambda f: f[["x", "y"]].assign(p=f.y > 3).std(ddof=0),
        lambda f: f[(f.y < 2) | (f.y > 5)][["x", "y"]].cumsum(),
        lambda f: f[(f.y < 2) | (f.y > 5)].y.cummax(),
        lambda f: f.groupby("k").x.sum(),
        lambda f: f.groupby("k")[["x"]].prod(),
        lambda f: f.groupby("k").agg({"x": ["sum", "mean"]}),
        lambda f: f.groupby(f.y % 2)[["x", "y"]].mean(),
        lambda f: f[(f.name == "a") | (f.y > 5)].y,
        lambda f: f[~((f.name == "a") & (f.y > 5))].y,
        lambda f: f.loc[f.y > 3, :][["x", "y"]],
        lambda f: f.loc[f.y > 3, "x":"y"],
        lambda f: f[["k", "x", "y"]].loc[:, "m":"xx"],
        lambda f: f[["x", "y"]].pow(f[["y"]], fill_value=0),
        lambda f: np.clip(f[["y"]], 1.5, 4.5),
        lambda f: np.clip(f.y, 1, 4),
        lambda f: f[f.y == 1].name.str.cat(f[f.y == 1].name).isna(),
        lambda f: f.name.str.cat(HOLES.name.str.upper()[::-1], sep=":").eq("a:A").fillna(False),
        lambda f: f.groupby("k")[["y"]].apply(lambda g: g.max(), meta=HOLES[["y"]].head(0)).y.sum(),
        lambda f: f.set_index("y").k.dot(f.set_index("y")[["x"]].fillna(0), meta=pd.Series([1.0], name="x")),
        lambda f: dd.concat([f[["x", "y"]], f[["y", "k"]]], join="inner"),
        lambda f: f[["x", "y"]].merge(f[["k", "y"]], left_index=True, right_on="y").sort_values("y"),
        lambda f: f[["x", "y"]].join([f[["k"]], f[["y"]].rename(columns={"y": "z"})], how="left"),
        lambda f: dd.concat([f[["x", "y"]], f[[]]]),
        lambda f: f.groupby("k")[["x", "y"]].agg(["min", "max"]),
        lambda f: f.assign(z=0).groupby("k")[["z"]].idxmin(),
        lambda f: f[["k", "y"]].min(),
        lambda f: f[["x", "y"]].max(),
        lambda f: f.y.skew(),
        lambda f: f.k.mode(),
        lambda f: f.x.mode(dropna=False),
        lambda f: f[f.y > 5].y.mode(),
        lambda f: f.groupby("k")[["x", "y"]].get_group(2),
        lambda f: f.groupby("k").y.get_group(1),
        lambda f: f.groupby(["k", "y"])[["x"]].get_group((2, 3)),
        lambda f: f.groupby(f.k + 1).y.get_group(3),
        lambda f: f[f.y > 3].groupby("k").y.get_group(3),
        lambda f: f[["k", "x", "y"]].groupby(f.k + 1).mean(),
        lambda f: f[["k", "x", "y"]].groupby([f.k + 1, f.y > 2]).var().sum(),
        lambda f: f[["k", "y"]].groupby(f.k + 1).median(),
        lambda f: f[["k", "y"]].groupby(f.k + 1).agg(["min", "std"]),
        lambda f: f.k.groupby(f.k).sum(),
        lambda f: f.k.groupby(f.k + 0).mean(),
        lambda f: f.x.pow(f.x, fill_value=2),
        lambda f: f.x.rpow(f.y, fill_value=0),
        lambda f: np.power(f.x, 0),
        lambda f: np.power(f.x, f.y - 3),
        lambda f: np.power(1, f.x),
        lambda f: np.power(np.sqrt(f.x - 3), f.y * 0),
        lambda f: f[["x", "y"]].dropna(thresh=2, subset=["x"]),
        lambda f: f[["x", "y"]].dropna(thresh=1, subset=["x", "y"]),
        lambda f: dd.to_numeric(f.y, downcast="integer"),
        lambda f: dd.to_numeric(f.x * 1.5, downcast="float"),
        lambda f: f.x.replace(2, np.nan),
        lambda f: f.y.replace({3: None}),
        lambda f: f[["x", "y"]].replace([1, 2], [np.nan, 9]),
        lambda f: (f.y * 10).astype("int8").cumsum(),
        lambda f: (f.y + 1).astype("int16").cumprod(),
        lambda f: f.astype({"y": "Int8"})[["y"]].cumsum(),
        lambda f: (f.y * 50).astype("uint8").cumprod(),
        lambda f: f[["k", "y"]].astype({"k": KNOWN}).set_index("k").y.sum(),
        lambda f: ordered(f).repartition(npartitions=1).k > 3,
        lambda f: ordered(f).shuffle("k").k.max(),
        lambda f: ordered(f).groupby("k", observed=False).y.sum().reset_index().k.cat.codes,
        lambda f: (
            dd.concat([f[f.y < 3].name.astype("category"), f[f.y > 3].name.astype("category")]).astype("str") == "a"
        ),
        lambda f: f[np.isnan(f.x)].y,
        lambda f: f[~np.isfinite(f.x) | np.not_equal(f.x, 2)].y,
        lambda f: np.fmax(f.x, 3),
        lambda f: np.fmax(f.y.where(f.y > 3), 1),
        lambda f: (f[["y"]] > 3).astype("bool[pyarrow]") != 0,
        lambda f: (f.y > 3).astype("bool[pyarrow]") < 1,
        lambda f: np.sqrt(f[["x", "y"]]),
        lambda f: np.isnan(f[["x", "y"]]),
        lambda f: np.log(f.x - 1).drop_duplicates().count(),
        lambda f: np.sqrt(f.x - 3).drop_duplicates().isna().sum(),
        lambda f: f[["x", "y"]].mul(np.array([2, 3])),
        lambda f: f[["y"]].isna().max(),
        lambda f: np.arctan2(f[["x", "y"]], f[["y", "x"]])[["x", "y"]],
        lambda f: np.arctan2(2, f.y),
        lambda f: np.fmod(f.y - 4, 3),
        lambda f: np.float_power(f.y.astype(int), 30),
        lambda f: np.hypot(f.x, np.inf),
        lambda f: np.cosh(f.set_index("y").index).to_series().sum(),
        lambda f: f.assign(z=da.arange(8, chunks=(len(HOLES) // f.npartitions,)) * 1.5)[["y", "z"]],
        lambda f: f[f.y > 6].groupby("k").y.tail(1),
        lambda f: f.groupby("y")[["x"]].std(),
        lambda f: f.groupby(f.y * 5 % 8).x.std(),
        lambda f: f.groupby(f.y * 5 % 8).x.size(),
        lambda f: f.groupby("k").size(split_out=2).sum(),
        lambda f: (f.astype({"y": "UInt8"}).groupby("k").y.sum(min_count=3) > 1).isna(),
        lambda f: np.exp(f.x / 0 * 0),
        lambda f: np.sqrt(f[["x", "y"]] / 0 * 0),
        lambda f: f.assign(z=np.sqrt(f.y - 3)).groupby("k").z.agg(["mean", "count", "min", "last", "std"]),
        lambda f: f.assign(z=np.sqrt(f.x - 3)).groupby("k").z.nunique().sum(),
        lambda f: f.assign(z=(f.y - 2) / (f.y - 2)).groupby("k").z.transform("count", meta=("z", "i8")).sum(),
        lambda f: np.sqrt(f.x - 3).groupby(f.k).mean(),
        lambda f: f.assign(z=np.sqrt(f.x - 3)).merge(f.assign(z=np.sqrt(f.x - 3)), on="z").y_x.sum(),
        lambda f: f.groupby("y").agg({"x": ["std", "var"]}),
        lambda f: (h := f.index.to_series())[h.notnull()],  # noqa: PD004 - the other name
        lambda f: f[f.x.astype("double[pyarrow]").isin([1.0, np.nan])].y,
        lambda f: np.isnan(f.x.astype("double[pyarrow]")),
        lambda f: (np.sqrt(f.x - 3) != f.x.astype("Float64")).isna(),
        lambda f: f.astype({"y": "Float64"}).groupby(f.y // 2).y.var().isna(),
        lambda f: f.groupby("x", dropna=False).y.agg(["std", "var", "mean"]).sum(),
        lambda f: f.assign(z=np.sqrt(f.x - 3)).nlargest(2, "z")[["z", "y"]].reset_index(drop=True),
        lambda f: (f[f.name.isna()][["name"]] != "a").isna(),
        with_a_column_of_pandas,
        sorted_bins,
        lambda f: f[["x", "y"]].astype("double[pyarrow]").all().var(),
        lambda f: f.x % -np.inf,
        lambda f: (f.y / 10) // 0.1,
        lambda f: f.astype({"x": "double[pyarrow]"}).x.le(NAN).isna(),
        lambda f: (
            f[f.y > 3][["x"]]
            .merge(f[["y"]].rename_axis("i"), left_index=True, right_index=True, how="outer")
            .index.to_series()
            .count()
        ),
        lambda f: (f.y * 40 - 120).astype("int8").diff(),
        lambda f: f.y.astype("float32").mul(1e30).std(),
        lambda f: f[["y"]].astype("float32").div(10).isin([0.1, 0.5]),
        lambda f: f.name.isin([np.nan]),
        lambda f: (~f.assign(b=f.y > 3)[["b", "y"]].replace(3, 30).b).astype(int),
        lambda f: (f.y * 60).astype("uint8").cumsum(),
        lambda f: f.name.str.contains("a").isna(),
        lambda f: f.name.str.isdigit().isna(),
        lambda f: f.name.str.split("a").str[0] == "b",
        lambda f: ~(f.name.str.split("a").str[0] != "b"),
        lambda f: f.name.str.split("a").str.get(1).isna(),
        lambda f: f[f.y > 6].name.str.split("a").str[0].isna(),
        lambda f: f.astype({"y": "int64[pyarrow]"}).y.quantile(0.0),
        lambda f: dd.concat([f[["y"]], f[["y"]] > 3]),
        lambda f: f.y.replace(99, 2.5),
        lambda f: f[["x", "y"]].replace(3, 2.5),
        lambda f: (np.sqrt(f.x - 3) * 0).astype("Int64").fillna(-5).astype(int),
        lambda f: f[["y"]].astype("Int64") % f[["y"]].astype("Int64"),
        lambda f: f.y.astype("Int64") // 0,
        lambda f: f.astype({"y": "Int64"}).y.mask(f.y > 3).fillna(-5).astype(int),
        lambda f: f[["y"]].astype("Int64").where(f[["y"]] > 30).isna(),
        lambda f: f.name.nunique_approx(),
        lambda f: f.name.replace({"a": None}).isna(),
        lambda f: f.name.str.replace(re.compile("A", re.IGNORECASE), "z", regex=True).eq("z").fillna(False),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy: Dask divides by the rows of an empty partition
def test_no_column_row_or_value_is_lost(compute):
    # Of several partitions, Dask itself loses the sums after one without rows.
    expected, result = of_both(compute, HOLES, 1, 4)
    if not isinstance(expected, pd.DataFrame | pd.Series):
        assert result == pytest.approx(expected, nan_ok=True)
        return
    assert [str(name) for name in pd.DataFrame(result)] == [str(name) for name in pd.DataFrame(expected)]
    assert result.index.tolist() == expected.index.tolist()
    result, expected = (pd.DataFrame(each).astype(float).to_numpy() for each in (result, expected))
    np.testing.assert_allclose(result, expected)


@pytest.mark.parametrize(
    "compute",
    [
        lambda f: f[["x", "y"]].merge(f[["k", "y"]], on="y", how="right").sort_values("y"),
        lambda f: f[["k", "y"]].astype({"k": KNOWN}).sort_values("k").k.astype(int),
        lambda f: f.assign(z=np.sqrt(f.x - 3))[["z", "y"]].sort_values(["z", "y"], ascending=False),
        lambda f: f.assign(z=np.sqrt(f.x - 3))[["z", "y"]].sort_values(["z", "y"], na_position="first"),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy
def test_sorted_rows_are_those_of_pandas(compute):
    """With another index, of one partition or of rows with equal keys."""
    expected, result = of_both(compute, HOLES, 1, 4)
    result, expected = (pd.DataFrame(each).astype(float) for each in (result, expected))
    pd.testing.assert_frame_equal(result.reset_index(drop=True), expected.reset_index(drop=True), check_dtype=False)


@pytest.mark.parametrize(
    ("compute", "on_host"),
    [
        (lambda f: f.eval("x + y"), False),
        (lambda f: f.eval("y"), False),
        (lambda f: f.eval("x > 1"), False),
        (lambda f: f.eval("z=x+y"), False),
        (lambda f: f.eval("k != y"), False),
        (lambda f: f.eval("x > 1 | y < 2 & k > 1"), False),
        (lambda f: f.eval("z = x * 2\nw = z > y"), False),
        (lambda f: f.eval("k & y"), True),
        (lambda f: f.eval("y * `k`"), True),
        (lambda f: f.query("y > 1 & k < 3"), False),
        (lambda f: f.query("y < 2 | k == 2"), False),
        (lambda f: f.query("x != 1 or y > 2"), False),
        (lambda f: f.query("not x > 1"), False),
        (lambda f: f.query("~(x > 1)"), False),
        (lambda f: f.query("1 < y <= 4"), False),
        (lambda f: f.query("k in [1, 2]"), False),
        (lambda f: f.query("name == 'a'"), False),
        (lambda f: f.query("name != 'a'"), False),
        (lambda f: f.query("name not in ['a', 'b']"), False),
        (lambda f: f.query("y > @least", local_dict={"least": 2}), False),
        (lambda f: f.assign(t=dd.to_datetime(f.y, unit="D")).query("t >= '1970-01-03'"), False),
        (lambda f: f.query("y > y.mean()"), True),
        (lambda f: f.reset_index().query("y > 2"), True),
        (lambda f: f.query("index > 2"), True),
    ],
)
def test_texts_are_read_as_in_pandas(compute, on_host):
    before = fallback_log.blocks.copy()
    expected, result = of_both(compute, HOLES, 4, 4)
    is_frame = isinstance(expected, pd.DataFrame)
    (pd.testing.assert_frame_equal if is_frame else pd.testing.assert_series_equal)(result, expected, check_dtype=False)
    assert bool(fallback_log.blocks - before) == on_host


PAIRS = pd.DataFrame({"p": [True, False, None] * 3, "q": [True] * 3 + [False] * 3 + [None] * 3})
PAIRS = PAIRS.astype("boolean").assign(x=[1.0, None, 3.0] * 3)


@pytest.mark.parametrize(
    "compute", [lambda f, g: f.p | g.q, lambda f, g: f.p & g.q, lambda f, g: f.x != g.x, lambda f, g: f.x >= g.x]
)
def test_dataframes_of_two_sources_are_compared_as_in_pandas(compute):
    with dask.config.set(scheduler="sync"), switched_to("cupy", "cudf", CellRecord(fallback="host", results="host")):
        left, right = dd.from_pandas(PAIRS, npartitions=2), dd.from_pandas(PAIRS, npartitions=3)
        result = results_to_host(compute(left, right).compute())
    assert result.astype(object).where(result.notna(), None).tolist() == [
        None if value is pd.NA else value for value in compute(PAIRS, PAIRS).tolist()
    ]


MIXED = pd.DataFrame({"n": [1, 2, 3], "s": ["a", "b", "c"], "d": pd.to_datetime(["2024-01-01"] * 3)})


@pytest.mark.parametrize(
    "compute",
    [
        lambda f: f.s.describe(),
        lambda f: f.describe(include="all"),
        lambda f: f.min(),
        lambda f: f[["n", "s"]].sum(),
        lambda f: f.n.map(lambda n: (n, n), meta=("n", "object")),
        lambda f: f.rename(columns={"s": "n"}),
        lambda f: f.groupby("s")[["n"]].agg({"n": ["median", "median"]}),
    ],
)
def test_what_cudf_cannot_hold_stays_on_the_host(compute):
    expected, result = of_both(compute, MIXED, 2, 2)
    result, expected = (pd.DataFrame(each).astype(str).to_numpy().tolist() for each in (result, expected))
    assert result == expected


def test_a_dataframe_is_no_index():
    with switched_to("cupy", "cudf"):
        frame = dd.from_pandas(HOURS, npartitions=2)
        with pytest.raises(NotImplementedError, match="multi-indexes"):
            frame.set_index(frame)


def test_a_condition_of_several_columns_is_that_of_a_text_of_one():
    def compute(frame):
        return frame.mask(frame > 1, 0).eval("k + k")

    for data in (pd.DataFrame({"k": [1, 2], "n": [3, 4]}), pd.DataFrame({"k": [], "n": []}, dtype="int64")):
        expected, result = of_both(compute, data, 1, 1)
        pd.testing.assert_series_equal(result, expected)


def test_labels_of_two_kinds_are_joined_as_on_the_cpu():
    texts = pd.DataFrame({"n": range(12), "k": 1}, index=list("abcdefghijkl"))  # pandas 3.0 fails with repeated texts

    def compute():
        others = pd.DataFrame({"n": [0], "a": [9]})
        # Of known divisions, Dask sorts the labels of both kinds.
        frames = [dd.from_pandas(each, npartitions=5, sort=False).clear_divisions() for each in (texts, others)]
        made = frames[0].join(frames[1], how="outer", lsuffix="_l", rsuffix="_r").compute()
        return made.sort_index(key=lambda labels: labels.astype(str))

    assert_same(compute, "host")


@pytest.mark.parametrize("keys", [[None, None], [1, None, 1]], ids=str)
@pytest.mark.parametrize("dtype", ["int64[pyarrow]", "Int64"])
def test_functions_of_the_user_of_groups_without_keys_have_the_index_of_the_keys(keys, dtype):
    def joined(groups):
        return groups.apply(lambda texts: "+".join(sorted(texts.dropna())))

    def compute(frame):
        return frame.groupby("e").c.agg(dd.Aggregation("joined", joined, joined)).reset_index()

    data = pd.DataFrame({"e": pd.array(keys, dtype), "c": pd.array(["a", "b", "c"][: len(keys)], "str")})
    expected, result = of_both(compute, data, 1, 2)
    pd.testing.assert_frame_equal(result, expected, check_dtype=False)


def test_methods_of_texts_among_objects_have_texts():
    data = pd.DataFrame({"n": [1, 1, 2], "b": ["a.b", "c", None]})
    expected, result = of_both(lambda frame: frame.groupby("n").b.agg(list).explode().str.rjust(4), data, 1, 2)
    pd.testing.assert_series_equal(result, expected, check_dtype=False)
