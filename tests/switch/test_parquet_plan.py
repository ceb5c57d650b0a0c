"""How Parquet files are planned as partitions of GPUs, in the kernel; the partitions are read as stand-ins for cuDF."""

import pickle
import sys
from types import SimpleNamespace

import dask
import dask.dataframe as dd
import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest
from cudf_stand_in import Frame, as_stand_in, gpu_cell
from dask._expr import FinalizeCompute
from dask.base import collections_to_expr
from dask.dataframe.io.parquet.arrow import ArrowDatasetEngine
from pyarrow.parquet import ParquetWriter

from jupyter_gpudask.inspection.frames import ToGpu
from jupyter_gpudask.inspection.placement import place_of
from jupyter_gpudask.patches.frames.files import parquet_readers, writers
from jupyter_gpudask.patches.frames.files.parquet import with_nullable_dtypes, with_zones, zones_of
from jupyter_gpudask.patches.frames.files.parquet_readers import GpuEngine, ReadParquetOnGpu
from jupyter_gpudask.patches.frames.files.readers import reason_about

pytestmark = pytest.mark.usefixtures("cudf_stand_in")

FILES = 6
DATA = pd.DataFrame({"a": np.arange(6000), "b": np.arange(6000) / 2, "c": [str(number) * 9 for number in range(6000)]})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files of about 50 kB, of which the column `a` is a sixth."""
    path = tmp_path_factory.mktemp("files")
    for number, rows in enumerate(np.split(np.arange(len(DATA)), FILES)):
        DATA.iloc[rows].to_parquet(path / f"{number}.parquet")
    return str(path)


@pytest.fixture
def cell(monkeypatch):
    """Opens a cell for cuDF on that many workers."""

    def read_partition(*args, **kwargs):
        return as_stand_in(ArrowDatasetEngine.read_partition(*args, **kwargs))

    def enter(workers, memory=0):
        client = SimpleNamespace(asynchronous=False, nthreads=lambda: dict.fromkeys(range(workers), 1))
        client.device_memory = memory
        monkeypatch.setattr(parquet_readers, "_client", lambda: client)

    monkeypatch.setattr(GpuEngine, "read_partition", staticmethod(read_partition))
    monkeypatch.setattr(parquet_readers, "partition_to_gpu", as_stand_in)
    with gpu_cell(fallback="host"):
        yield enter


def planned(frame):
    """The number of partitions that are read for a frame from which something is computed."""
    return (frame + frame).optimize().npartitions


@pytest.mark.parametrize(("workers", "partitions"), [(1, 1), (2, 2), (4, 4), (9, FILES)])
def test_a_table_that_fits_is_one_partition_for_each_worker(cell, folder, workers, partitions):
    cell(workers)
    frame = dd.read_parquet(folder)
    assert type(frame.expr) is ReadParquetOnGpu
    assert place_of(frame) == "gpu"
    assert frame.npartitions == FILES, "as without the optimization"
    assert planned(frame) == planned(frame[["a"]]) == partitions
    result = frame[frame.a >= 0].compute()
    assert type(result) is Frame
    # Rows of files that are read at once are numbered by `cudf_engine`, which is not here.
    pd.testing.assert_frame_equal(pd.DataFrame(result).reset_index(drop=True), DATA, check_dtype=False)


HOURS = pd.DataFrame({"t": pd.date_range("2024", periods=99, freq="h"), "n": range(99), "s": list("abc") * 33})
INDEXED = [
    lambda rows: rows.set_index("t").n.resample("1D").sum(),
    lambda rows: rows.set_index(rows.t)[["n"]].n.resample("1D").sum(),
    lambda rows: rows.set_index("n").loc[[3, 98]].s,
    lambda rows: rows.set_index("t").loc["2024-01-02"].n,
    lambda rows: rows.set_index("s").loc["b"].n.nlargest(3),
]


@pytest.fixture
def hours(tmp_path):
    for number, part in enumerate(np.split(np.arange(len(HOURS)), 3)):
        HOURS.iloc[part].to_parquet(tmp_path / f"{number}.parquet", index=False)
    return tmp_path


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # by the quantiles of Dask 2026.7, with pandas 3.1
@pytest.mark.parametrize("workers", [1, 2, 9])
@pytest.mark.parametrize("use", INDEXED)
def test_an_index_of_files_has_divisions_in_as_many_partitions_as_are_read(cell, hours, use, workers):
    cell(workers)
    result = use(dd.read_parquet(hours)).compute()
    pd.testing.assert_series_equal(
        pd.Series(result), use(HOURS), check_freq=False, check_dtype=False, check_index_type=False
    )


@pytest.mark.filterwarnings("ignore:The inplace keyword")
def test_an_index_of_one_partition_has_divisions_where_its_values_have(cell, hours):
    cell(1)
    rows = dd.from_pandas(HOURS, npartitions=1).persist()
    assert rows.set_index("t").divisions == (HOURS.t.min(), HOURS.t.max())
    rows = rows.assign(s=rows.s.where(rows.n > 9)).set_index("s")
    assert not rows.known_divisions
    assert rows.n.sum().compute() == HOURS.n.sum()
    rows = dd.read_parquet(hours).set_index("t").repartition(freq="1D")
    assert rows.npartitions == 5
    assert rows.n.sum().compute() == HOURS.n.sum()


@pytest.mark.filterwarnings("ignore:The inplace keyword")
@pytest.mark.parametrize("columns", [["n"], []])
def test_rows_of_labels_of_several_kinds_are_concatenated_although_one_file_has_divisions(cell, hours, columns):
    cell(1)
    times = dd.read_parquet(hours / "0.parquet").set_index("t")[columns]
    assert times.known_divisions
    numbers = dd.from_pandas(HOURS[["n"]], npartitions=3)
    made = dd.concat([times, numbers], join="inner")
    assert not made.known_divisions
    assert made.compute().index.to_list() == [*HOURS.t[: len(times)], *HOURS.index]


def test_an_array_has_the_lengths_of_what_is_read_as_one_partition(folder):
    with gpu_cell(dataframe="pandas"):
        array = dd.read_parquet(folder)[["a"]].to_dask_array(lengths=True)
    assert array.shape == (len(DATA), 1)
    np.testing.assert_array_equal(array[:, 0], DATA.a)


def test_a_partition_has_its_blocksize_of_the_columns_that_are_read(cell, folder):
    cell(1)
    size = sum(dd.read_parquet(folder).expr._sizes_of_columns().values())  # of a file
    frame = dd.read_parquet(folder, blocksize=int(size * 2))
    assert planned(frame) == 3
    assert planned(frame[["a"]]) == 1
    assert planned(dd.read_parquet(folder, blocksize=int(size / 2), split_row_groups=False)) == FILES
    assert planned(dd.read_parquet(folder, blocksize=None)) == FILES


def test_the_default_blocksize_is_a_part_of_the_memory_of_a_gpu(cell):
    cell(1, memory=64 * 2**30)
    assert GpuEngine.default_blocksize() == 2 * 2**30
    cell(1)
    assert GpuEngine.default_blocksize() == 256 * 2**20, "where it is not known"


def test_a_plan_for_other_workers_has_other_keys(cell, folder):
    keys = []
    for workers in (1, 2, 2):
        cell(workers)
        frame = dd.read_parquet(folder)
        keys.append(set(map(str, (frame + frame).optimize().__dask_graph__())))
    assert keys[1] == keys[2]
    assert not keys[0] & keys[1]


def test_a_worker_that_does_not_know_the_memory_has_the_same_plan(cell, folder):
    def sent():
        frame = dd.read_parquet(folder)
        rows = frame[(frame.a >= 5) & (frame.a < 90)]
        plan = FinalizeCompute(collections_to_expr([(rows.a * rows.b).sum()])).optimize()
        return pickle.dumps(plan), set(map(str, plan.__dask_graph__()))

    cell(1, memory=64 * 2**30)
    plan, keys = sent()
    cell(9, memory=32 * 1000)
    assert set(map(str, pickle.loads(plan).__dask_graph__())) == keys  # noqa: S301 - of this test


def test_no_key_is_one_of_pandas(cell, folder):
    cell(1)
    on_gpu = dd.read_parquet(folder)
    with dask.config.set({"dataframe.backend": "pandas"}):
        on_host = dd.read_parquet(folder)
    assert (place_of(on_gpu), place_of(on_host)) == ("gpu", "host")
    keys = [set(map(str, (frame + frame).optimize().__dask_graph__())) for frame in (on_gpu, on_host)]
    assert not keys[0] & keys[1]
    pd.testing.assert_frame_equal(on_gpu.to_backend("pandas").compute(), on_host.compute())


@pytest.mark.parametrize("options", [{"engine": "pyarrow"}, {"filesystem": "arrow"}, {"filesystem": "pyarrow"}])
def test_workers_read_with_cudf_whatever_reads_in_pandas(cell, folder, options):
    cell(2)
    frame = dd.read_parquet(folder, **options)
    assert type(frame.expr) is ReadParquetOnGpu
    assert frame._name == dd.read_parquet(folder)._name
    assert type(frame.compute()) is Frame


def test_files_of_a_filesystem_of_arrow_are_read_on_the_host_and_moved(cell, folder):
    cell(2)
    frame = dd.read_parquet(folder, filesystem=pyarrow.fs.LocalFileSystem())
    assert type(frame.expr) is ToGpu
    assert place_of(frame) == "gpu"
    assert type(frame.compute()) is Frame


def test_a_table_of_which_filters_leave_nothing_is_on_the_gpu(cell, folder):
    cell(1)
    frame = dd.read_parquet(folder, filters=[("a", ">", 10**6)])
    assert place_of(frame) == "gpu"
    result = frame.compute()
    assert type(result) is Frame
    assert (len(result), list(result.columns)) == (0, ["a", "b", "c"])
    of_names = dd.read_parquet(folder, columns=["c", "b", "a"], filters=[("a", ">", 10**6)])
    assert list(of_names.compute().columns) == ["c", "b", "a"], "in Dask in the order of the files"
    assert list((of_names[["b", "a"]] + 1).compute().columns) == ["b", "a"], "an error in Dask"
    assert of_names.b.compute().name == "b"


@pytest.mark.parametrize("place", ["{}", "memory://{}"])
def test_files_of_cudf_name_the_dtypes_of_the_plan(tmp_path, monkeypatch, place):
    def as_cudf(frame, path, fs, filename, partition_on, *_, **__):
        if partition_on:
            for value, rows in frame.groupby(partition_on):
                folder = f"{path}/{partition_on[0]}={value[0]}"
                fs.makedirs(folder, exist_ok=True)
                as_cudf(rows.drop(columns=partition_on), folder, fs, filename, [])
            return
        named = frame.astype({"a": "Float64", "b": "int64", "c": "boolean"})
        table = pa.Table.from_pandas(named, preserve_index=False)
        with (
            fs.open(f"{path}/{filename}", "wb") as file,
            ParquetWriter(file, table.schema, store_schema=False) as writer,
        ):
            writer.write_table(table)
            writer.add_key_value_metadata({"pandas": table.schema.metadata[b"pandas"]})

    engine = SimpleNamespace(PandasIndexEngine=SimpleNamespace(write_partition=as_cudf))
    monkeypatch.setitem(sys.modules, f"{parquet_readers.__package__}.cudf_engine", engine)
    monkeypatch.setattr(parquet_readers, "partition_to_gpu", lambda frame: frame)
    plan = pd.DataFrame(
        {"a": [1.5, None], "b": pd.array([1, 2], "Int64"), "c": pd.array([True, None], "bool[pyarrow]")}
    )
    plan["d"] = ["x", None]
    folder = place.format(tmp_path)
    frame = dd.from_pandas(plan, npartitions=1)
    for append in (False, True):
        frame.to_parquet(folder, engine=GpuEngine, write_index=False, append=append)
    for part in (0, 1):
        pd.testing.assert_frame_equal(pd.read_parquet(f"{folder}/part.{part}.parquet"), frame.compute())
    frame.to_parquet(f"{folder}/of", engine=GpuEngine, write_index=False, partition_on=["d"])
    expected = frame.compute()[:1].drop(columns="d")
    pd.testing.assert_frame_equal(pd.read_parquet(f"{folder}/of/d=x/part.0.parquet"), expected)
    frame = with_nullable_dtypes(plan.astype({"b": "int64", "c": object}), pa.Schema.from_pandas(plan))  # as cuDF reads
    pd.testing.assert_frame_equal(frame, plan)


@pytest.mark.parametrize("index", [None, "at", "unnamed"])
@pytest.mark.parametrize("zone", ["Asia/Tokyo", "UTC", "-03:30"])
def test_times_have_the_zone_of_the_schema(zone, index):
    times = pd.date_range("2024-03-30 22:00", periods=3, freq="h", tz=zone)
    data = pd.DataFrame({"x": range(3), "at": times, "naive": times.tz_localize(None)})
    naive = data.assign(at=times.tz_convert("UTC").tz_localize(None))  # as cuDF reads it
    if index is not None:
        data, naive = (each.set_index("at").rename_axis(index if index == "at" else None) for each in (data, naive))
    dtypes = {str(dtype) for dtype in (*data.dtypes, data.index.dtype)}
    result = with_zones(naive, zones_of(pa.Schema.from_pandas(data)))
    if zone == "-03:30":
        data = data.tz_convert("UTC") if index else data.assign(at=times.tz_convert("UTC"))
    pd.testing.assert_frame_equal(result, data, check_freq=False)
    frame = dd.from_pandas(data, npartitions=1)
    assert "time zone" in writers._reason_of_parquet(frame, {})
    assert not writers._reason_of_parquet(frame[["x", "naive"]].reset_index(drop=True), {})
    assert any("," in dtype for dtype in dtypes)


@pytest.mark.parametrize(("dtype", "reason"), [("category", "no categories"), ("m8[s]", "durations"), ("int64", "")])
def test_an_index_of_levels_that_cudf_writes_otherwise_is_written_on_the_host(dtype, reason):
    groups = dd.from_pandas(pd.DataFrame({"a": [1], "b": pd.Series([1], dtype=dtype), "x": 1}), npartitions=1)
    found = writers._reason_of_parquet(groups.groupby(["a", "b"], observed=True)[["x"]].sum(), {})
    assert reason in found
    assert bool(found) == bool(reason)


def test_zones_by_their_distance_from_utc_are_read_on_the_host():
    for zone, is_on_host in (("+02:00", True), ("-03:30", True), ("UTC", False), ("Asia/Tokyo", False)):
        times = pd.date_range("2024-03-30", periods=3, tz=zone)
        for data in (pd.DataFrame({"at": times}), pd.DataFrame({"x": 1}, times), pd.Series(times)):
            frame = dd.from_pandas(data, npartitions=1)
            assert bool(reason_about("read_parquet", frame)) == is_on_host
            assert not reason_about("read_json", frame)


def test_a_file_of_metadata_has_one_of_the_schema_beside_it(tmp_path, monkeypatch):
    of_cudf = SimpleNamespace(
        write_partition=lambda *_, **__: [{"meta": "of a file"}], write_metadata=lambda parts, *_, **__: parts
    )
    engine = SimpleNamespace(PandasIndexEngine=of_cudf)
    monkeypatch.setitem(sys.modules, f"{parquet_readers.__package__}.cudf_engine", engine)
    monkeypatch.setattr(parquet_readers, "partition_to_gpu", lambda frame: frame)
    monkeypatch.setattr(parquet_readers, "name_dtypes", lambda *_: None)
    frame, fs = pd.DataFrame({"a": [1.5]}), fsspec.filesystem("file")
    schema = pa.Schema.from_pandas(frame)
    parts = [
        GpuEngine.write_partition(frame, str(tmp_path), fs, "1.parquet", [], schema=schema, dtypes={"a": "float64"})
    ]
    assert GpuEngine.write_metadata(parts, None, fs, str(tmp_path), append=False)[0][0]["meta"] == "of a file"
    assert pq.read_schema(tmp_path / "_common_metadata") == schema
    (tmp_path / "_common_metadata").unlink()
    GpuEngine.write_metadata(parts, None, fs, str(tmp_path), append=True)
    assert not (tmp_path / "_common_metadata").exists()


def test_the_first_rows_of_files_that_are_fewer_partitions_are_those_of_all(folder, cell):
    cell(1)
    rows = dd.read_parquet(folder)
    for frame, start in ((rows, 0), (rows[rows.a > 5], 6), (rows.assign(d=rows.b + 1), 0)):
        for number in (3, FILES, FILES + 1):
            assert list(frame.head(1500, npartitions=number).a) == list(range(start, start + 1500))


@pytest.mark.filterwarnings("ignore:The inplace keyword")
def test_a_folder_that_has_files_gets_one_for_each_partition(tmp_path, cell):
    cell(1)
    with dask.config.set({"dataframe.backend": "pandas"}):
        dd.from_pandas(DATA, npartitions=FILES).to_parquet(tmp_path / "files")
    for target, number in (("files", FILES), ("new", 1), ("new", FILES), ("files", FILES)):
        frame = dd.read_parquet(tmp_path / "files")[["a", "b"]]
        frame.to_parquet(tmp_path / target, compression="gzip")  # by pandas
        assert len(list((tmp_path / target).glob("*.parquet"))) == number
        assert sorted(pd.read_parquet(tmp_path / target).a) == list(DATA.a)
    for number in (1, FILES):
        frame.to_csv(tmp_path / "*.csv")
        assert len(list(tmp_path.glob("*.csv"))) == number


def test_missing_booleans_are_written_as_such_where_cudf_has_texts():
    """cuDF makes false of these texts, when it reads them beside the booleans of another file."""
    data = as_stand_in(pd.DataFrame({"flag": pd.Series([None, None], dtype=object), "text": ["a", None], "n": [1, 2]}))
    written = parquet_readers.with_missing_booleans(data, {"flag": "bool", "text": "string", "n": "int64"})
    assert {name: str(dtype) for name, dtype in written.dtypes.items()} == {
        "flag": "boolean",
        "text": str(data.text.dtype),
        "n": "int64",
    }
    assert written.flag.isna().all()
    assert str(data.flag.dtype) == "object"
    some = as_stand_in(pd.DataFrame({"flag": [True, False]}))
    assert parquet_readers.with_missing_booleans(some, {"flag": "bool"}) is some
