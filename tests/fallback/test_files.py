"""Readers and writers whose arguments cuDF ignores or lacks run on the host; cuDF is a stand-in here."""

import inspect
import sqlite3
import sys
from contextlib import ExitStack, closing
from types import SimpleNamespace

import dask
import dask.dataframe as dd
import pandas as pd
import pytest
from cudf_stand_in import Frame, gpu_cell, readers_in_use
from dask.dataframe.backends import dataframe_creation_dispatch

from jupyter_gpudask.errors import NotOnGpuError
from jupyter_gpudask.fallback.log import fallback_log
from jupyter_gpudask.inspection.placement import place_of, to_gpu, to_host
from jupyter_gpudask.patches.frames import cudf_backend
from jupyter_gpudask.patches.frames.files import writers
from jupyter_gpudask.patches.frames.files.parquet import with_categories
from jupyter_gpudask.patches.frames.files.parquet_readers import GpuEngine

pytestmark = [
    pytest.mark.usefixtures("cudf_stand_in"),
    pytest.mark.filterwarnings("ignore:The inplace keyword"),  # of Dask, with pandas 3.1
]

TEXT = "name, amount,when\nAlice,100,2024-01-01 # note\nBob,None,2024-01-02\nEve,-999,2024-01-03\n"


@pytest.fixture
def cell():
    """Opens a cell for cuDF; gives the stand-in of its readers."""

    def enter(fallback="host", results="host"):
        stack.enter_context(gpu_cell(fallback=fallback, results=results))
        return readers

    with ExitStack() as stack:
        readers = stack.enter_context(readers_in_use())
        yield enter


def noted(make):
    """What `make` returns, and the operations that it has noted as run on the host."""
    before = fallback_log.blocks.copy()
    made = make()
    return made, [place.operation for place in (fallback_log.blocks - before)]


@pytest.fixture
def file(tmp_path):
    (tmp_path / "data.csv").write_text(TEXT)
    return str(tmp_path / "data.csv")


@pytest.mark.parametrize(
    "options",
    [
        {"comment": "#"},
        {"skipinitialspace": True},
        {"skiprows": [1, 2]},
        {"skiprows": range(1, 3)},
        {"skiprows": 1, "blocksize": 10**6, "names": ["a", "b", "c"]},
        {"lineterminator": "\r\n"},
        {"include_path_column": True},
        {"assume_missing": True},
        {"dtype_backend": "pyarrow"},
        {"na_values": {"name": "Bob"}},
        {"na_values": "-999"},
        {"na_values": [-999]},
        {"keep_default_na": False},
        {"names": ["a", "c"], "usecols": [0, 2], "header": 0},
        {"usecols": lambda name: name == "name"},
        {"usecols": pd.Index(["name"])},
        {"sep": ", ?", "engine": "python"},
        {"converters": {"name": str.upper}},
        {"encoding": "latin-1"},
        {"true_values": ["100"]},
        {"sample": 50},
        {"names": ["b", "c"]},
        {"names": ["b", "c"], "header": 0, "blocksize": None},
    ],
    ids=" ".join,
)
def test_what_cudf_reads_otherwise_is_read_on_the_host(cell, file, options):
    expected = dd.read_csv(file, **options).compute(scheduler="sync")
    readers = cell()
    frame, on_host = noted(lambda: dd.read_csv(file, **options))
    assert place_of(frame) == "gpu"
    assert on_host == ["read_csv"]
    pd.testing.assert_frame_equal(to_host(frame).compute(), expected)
    assert readers.calls == []
    cell("strict")
    with pytest.raises(NotOnGpuError, match="read_csv"):
        dd.read_csv(file, **options)


def test_several_files_of_a_list_with_a_pattern_are_read(cell, file):
    cell()
    frame, on_host = noted(lambda: dd.read_csv([file.replace("data", "*")]))
    assert (len(frame), on_host) == (3, [])


@pytest.mark.parametrize(
    "call",
    [
        lambda path: dd.read_csv(path, nrows=1),
        lambda path: dd.read_csv(path, index_col=0),
        lambda path: dd.read_csv(path, unknown=1),
        lambda _: dd.read_csv(),
        lambda _: dd.read_csv([]),
        lambda path: dd.read_csv(path, "default", urlpath=path),
        lambda path: dd.read_csv(path + ".none"),
        lambda path: dd.read_json(path, orient="split", lines=True),
        lambda path: dd.read_orc(path, filters=[]),
        lambda _: dd.from_dict({"a": [1]}),
        lambda _: dd.from_dict({"a": [1]}, 1, engine="cudf"),
    ],
)
def test_wrong_arguments_are_the_errors_of_the_cpu(cell, file, call):
    with pytest.raises(Exception, match=r".") as expected:
        call(file)
    cell()
    with pytest.raises(expected.type) as error:
        call(file)
    assert str(error.value).replace("cudf backend", "pandas backend") == str(expected.value)


def test_outside_of_cells_dask_cudf_reads(monkeypatch, file):
    def of_dask_cudf(*args, **options):
        return args, options

    entry = SimpleNamespace(**dict.fromkeys(("from_dict", "read_csv", "to_backend"), of_dask_cudf))
    for name in ("dask_cudf", "dask_cudf.backends"):
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(CudfBackendEntrypoint=entry))
    frame = dd.from_pandas(pd.DataFrame({"a": [1]}), npartitions=1)
    with dask.config.set({"dataframe.backend": "cudf"}):
        assert dd.read_csv(file, nrows=1) == ((file,), {"nrows": 1})
        assert dd.from_dict({"a": [1]}, npartitions=1) == (({"a": [1]},), {"npartitions": 1})
    assert frame.to_backend("cudf")[0][0] is frame


def test_what_changes_nothing_is_left_out(cell, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "data.csv").write_text("a;b\n1;-\n")
    readers = cell()
    same = {"engine": "c", "low_memory": False, "encoding": "UTF-8", "sample": 10**6, "include_path_column": False}
    frame, on_host = noted(lambda: dd.read_csv("~/data.csv", 25e6, sep=";", na_values="-", skiprows=None, **same))
    assert to_host(frame).compute().a.tolist() == [1]
    source = str(tmp_path / "data.csv")
    assert readers.calls == [{"source": source, "byte_range": None, "sep": ";", "na_values": ["-", "None"]}]
    assert on_host == []


def test_a_part_of_a_file_that_cudf_cannot_read_is_read_on_the_host(cell, monkeypatch, file):
    expected = dd.read_csv(file, blocksize=40).compute(scheduler="sync")
    readers = cell()
    read_csv = readers.read_csv

    def fail_in_the_middle(source, **options):
        if (options.get("byte_range") or (0,))[0]:
            exec("raise error", {"__name__": "cudf.io.csv", "error": RuntimeError("CUDF failure at: a row")})  # noqa: S102
        return read_csv(source, **options)

    monkeypatch.setattr(readers, "read_csv", fail_in_the_middle)
    monkeypatch.setattr(readers, "from_pandas", Frame, raising=False)
    result, on_host = noted(lambda: to_host(dd.read_csv(file, blocksize=40)).compute())
    assert on_host == ["read_csv"]
    pd.testing.assert_frame_equal(result, expected)
    cell("error")
    with pytest.raises(RuntimeError, match="CUDF failure"):
        dd.read_csv(file, blocksize=40).compute()


def test_with_the_fallback_off_cudf_reads_what_it_reads_otherwise(cell, file):
    readers = cell("error")
    with pytest.raises(TypeError, match=r"no .*comment"):
        dd.read_csv(file, comment="#").compute()
    assert [call["comment"] for call in readers.calls] == ["#"]


@pytest.mark.parametrize(
    ("options", "columns", "is_on_host"),
    [
        ({}, ["a", "date"], True),
        ({}, ["a", "created_at"], True),
        ({"lines": False}, ["a"], True),
        ({}, ["a", "dates"], False),
        ({"include_path_column": True}, ["a"], True),
        ({"meta": pd.DataFrame({"a": [1]})}, ["a"], True),
        ({"engine": pd.read_json}, ["a"], True),
        ({"nrows": 1}, ["a"], True),
        ({"unknown": 1}, ["a"], None),
    ],
)
def test_json_with_dates_paths_or_metadata_is_read_on_the_host(cell, tmp_path, options, columns, is_on_host):
    data = pd.DataFrame({name: [1_700_000_000] for name in columns})
    lines = options.get("lines", True)
    data.to_json(tmp_path / "data.json", orient="records", lines=lines)
    path = str(tmp_path / "data.json")
    if is_on_host is None:
        cell()
        with pytest.raises(TypeError, match="unexpected keyword argument 'unknown'"):
            dd.read_json(path, **options)
        return
    expected = dd.read_json(path, **options).compute(scheduler="sync")
    cell()
    frame, on_host = noted(lambda: dd.read_json(path, **options))
    assert (place_of(frame), on_host) == ("gpu", ["read_json"] * is_on_host)
    pd.testing.assert_frame_equal(to_host(frame).compute(), expected)


@pytest.mark.parametrize("options", [{"categories": ["k"]}, {"index": ["a", "k"]}])
def test_parquet_files_are_read_on_the_host_if_dask_cudf_ignores_an_option(cell, tmp_path, options):
    data = pd.DataFrame({"a": [1, 2], "k": pd.Categorical(["x", "y"]), "b": [3, 4]})
    data.to_parquet(tmp_path / "data.parquet")
    expected = dd.read_parquet(tmp_path, **options).compute(scheduler="sync")
    cell()
    frame, on_host = noted(lambda: dd.read_parquet(str(tmp_path), engine="pyarrow", **options))
    assert on_host == ["read_parquet"]
    pd.testing.assert_frame_equal(to_host(frame).compute(), expected, check_index_type=False)


def test_hdf_files_are_read_on_the_host(cell, monkeypatch):
    answer = dd.from_pandas(pd.DataFrame({"a": [1]}), npartitions=1)
    read_hdf = lambda path, key: answer if (path, key) == ("data.h5", "a") else None  # noqa: E731
    monkeypatch.setattr(dataframe_creation_dispatch.dispatch("pandas"), "read_hdf", read_hdf)
    cell()
    frame, on_host = noted(lambda: dd.read_hdf("data.h5", key="a"))
    assert on_host == ["read_hdf"]
    assert place_of(frame) == "gpu"
    assert to_host(frame).compute().a.tolist() == [1]


def test_a_dictionary_is_planned_as_on_the_cpu(cell):
    expected = dd.from_dict({"a": [1, 2], "b": ["x", None]}, npartitions=2)
    cell()
    frame = dd.from_dict({"a": [1, 2], "b": ["x", None]}, npartitions=2)
    assert place_of(frame) == "gpu"
    pd.testing.assert_frame_equal(frame._meta, expected._meta)
    pd.testing.assert_frame_equal(to_host(frame).compute(), expected.compute(scheduler="sync"))


def on_gpu(data):
    return to_gpu(dd.from_pandas(data, npartitions=2))


def test_text_is_written_by_pandas(cell, monkeypatch, tmp_path):
    data = pd.DataFrame({"x": [1 / 3, 2.0], "when": pd.to_datetime(["2024-01-01", "2024-01-02"])})
    frame = on_gpu(data)
    monkeypatch.setattr(Frame, "to_csv", lambda *_, **__: pytest.fail("written by cuDF"))
    cell()
    before = fallback_log.blocks.copy()
    writers.write_by_pandas(dd.to_csv, frame, str(tmp_path / "*.csv"), index=False)
    assert pd.concat(map(pd.read_csv, sorted(tmp_path.glob("*.csv")))).x.tolist() == data.x.tolist()
    monkeypatch.setattr(Frame, "to_sql", lambda *_, **__: pytest.fail("written by cuDF"))
    writers.write_by_pandas(dd.to_sql, frame, "table_of_x", f"sqlite:///{tmp_path / 'data.db'}")
    with closing(sqlite3.connect(tmp_path / "data.db")) as database:
        assert database.execute("select count(*) from table_of_x").fetchall() == [(2,)]
    assert [place.operation for place in (fallback_log.blocks - before)] == ["to_csv", "to_sql"]
    cell("strict")
    with pytest.raises(NotOnGpuError, match="to_csv"):
        writers.write_by_pandas(dd.to_csv, frame, str(tmp_path / "*.csv"))


def to_parquet(df, *_, engine, **__):
    return df, engine


to_parquet.__signature__ = inspect.signature(dd.to_parquet)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"compression": "zstd"}, "compression"),
        ({"custom_metadata": {"a": "b"}}, "custom_metadata"),
        ({"schema": {"x": "int64"}}, "schema"),
        ({"schema": None}, "schema"),
        ({"row_group_size": 10}, "row_group_size"),
        ({}, "categories"),
        ({"partition_on": "k"}, "categories"),
        ({"partition_on": ["k"], "engine": "pyarrow", "row_group_size_rows": 10}, ""),
    ],
    ids=str,
)
def test_parquet_files_are_written_by_pandas_if_cudf_would_ignore_an_option(cell, options, reason):
    frame = on_gpu(pd.DataFrame({"x": [1, 2], "k": pd.Categorical(["a", "b"]) if reason else ["a", "b"]}))

    cell()
    before = fallback_log.blocks.copy()
    written, engine = writers.write_parquet(to_parquet, frame, "path", **options)
    noted = [(place.operation, reason in place.reason) for place in (fallback_log.blocks - before)]
    assert noted == ([("to_parquet", True)] if reason else [])
    assert (written is frame) == (not reason)
    assert engine is (GpuEngine if not reason else "pyarrow")


def test_the_engine_is_that_of_the_dataframe(cell):
    on_host = dd.from_pandas(pd.DataFrame({"x": [1, 2]}), npartitions=2)
    frame = to_gpu(on_host)
    cell()
    for engine in (None, "pyarrow", "auto", "cudf"):
        assert writers.write_parquet(to_parquet, frame, "path", engine=engine) == (frame, GpuEngine)
        assert writers.write_parquet(to_parquet, on_host, "path", engine=engine) == (on_host, "pyarrow")
    assert writers.write_parquet(to_parquet, frame, "path", engine=dict) == (frame, dict)


def test_metadata_for_a_reader_of_the_host_are_those_of_pandas(cell):
    def read_sql_table(*_args, meta):
        return type(meta)

    cell()
    assert cudf_backend.create_frame(read_sql_table, "table", meta=Frame({"a": [1]})) is pd.DataFrame


def test_columns_that_pandas_has_written_as_categories_have_those_of_the_cpu(tmp_path):
    letters = pd.Categorical(["b", None, "a", "b"], categories=["z", "b", "a"], ordered=True)
    data = pd.DataFrame({"k": letters, "number": pd.Categorical([3, 1, 1, 3]), "x": [1, 2, 3, 4]})
    data.to_parquet(tmp_path / "data.parquet")
    filters = [("x", ">", 2)]
    expected = dd.read_parquet(tmp_path, filters=filters).compute(scheduler="sync")

    def read_on_host(names):
        return expected[names]

    frame = pd.DataFrame({"k": ["a", "b"], "number": [1, 3], "x": [3, 4]})  # as cuDF reads it
    assert expected.k.cat.categories.tolist() == ["z", "b", "a"]
    pd.testing.assert_frame_equal(with_categories(frame, ["k", "number", "other"], read_on_host), expected)
    assert with_categories(frame, None, read_on_host) is frame
