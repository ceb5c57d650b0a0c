"""Readers and writers whose arguments cuDF ignores or lacks run on the host; cuDF is a stand-in here."""

import inspect
import sqlite3
from contextlib import ExitStack, closing
from types import SimpleNamespace

import dask.dataframe as dd
import pandas as pd
import pytest
from cudf_stand_in import Frame, gpu_cell

from jupyter_gpudask.errors import NotOnGpuError
from jupyter_gpudask.fallback.log import fallback_log
from jupyter_gpudask.inspection.placement import place_of, to_gpu
from jupyter_gpudask.patches import creation
from jupyter_gpudask.patches.frames.files import writers
from jupyter_gpudask.patches.frames.files.parquet import with_categories
from jupyter_gpudask.patches.frames.files.parquet_readers import GpuEngine

pytestmark = [
    pytest.mark.usefixtures("cudf_stand_in"),
    pytest.mark.filterwarnings("ignore:The inplace keyword"),  # of Dask, with pandas 3.1
]

TEXT = "name, amount,when\nAlice,100,2024-01-01 # note\nBob,None,2024-01-02\nEve,-999,2024-01-03\n"

HOST_READERS = {
    name: vars(table.dispatch("pandas"))[name]
    for table in (creation.dataframe_creation_dispatch, creation._backends.dataframe_creation_dispatch)
    for name in ("read_csv", "read_json", "read_parquet")
    if name in vars(table.dispatch("pandas"))
}


@pytest.fixture
def cell(monkeypatch):
    """Opens a cell for cuDF; gives the calls of cuDF's readers, which return `answer`, and the readers of pandas."""
    pandas = SimpleNamespace(**HOST_READERS)
    calls = SimpleNamespace(given=[], answer=None, on_host=pandas)

    def enter(fallback="host", results="host"):
        stack.enter_context(gpu_cell(fallback=fallback, results=results))
        monkeypatch.setattr(creation, "dataframe_creation_dispatch", dispatch)
        return calls

    dispatch = SimpleNamespace(backend="cudf", dispatch=lambda name: {"pandas": pandas}[name])
    monkeypatch.setattr(creation, "frame_to_gpu", lambda frame: frame)
    with ExitStack() as stack:
        yield enter


def read(name, calls, *args, **options):
    """What `creation.read_frame` returns, and what it has noted as run on the host."""

    def reader(path, blocksize="default", **others):
        calls.given.append({"path": path, "blocksize": blocksize, **others})
        return calls.answer

    reader.__name__ = name
    before = fallback_log.blocks.copy()
    frame = creation.read_frame(reader, *args, **options)
    return frame, [place.operation for place in (fallback_log.blocks - before)]


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
    calls = cell()
    frame, on_host = read("read_csv", calls, file, **options)
    assert (calls.given, on_host) == ([], ["read_csv"])
    pd.testing.assert_frame_equal(frame.compute(), expected)
    cell("strict")
    with pytest.raises(NotOnGpuError, match="read_csv"):
        read("read_csv", calls, file, **options)
    cell("error")
    assert read("read_csv", calls, file, **options) == (None, []), "the answer of cuDF"


def test_several_files_of_a_list_with_a_pattern_are_read_on_the_host(cell, file):
    frame, on_host = read("read_csv", cell(), [file.replace("data", "*")])
    assert (len(frame), on_host) == (3, ["read_csv"])
    with pytest.raises(ValueError, match="empty urlpath"):
        read("read_csv", cell(), [])


def test_what_changes_nothing_is_left_out(cell, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "data.csv").write_text("a\n1\n")
    answer = dd.from_pandas(pd.DataFrame({"a": [1]}), npartitions=1)
    calls = cell()
    calls.answer = answer
    same = {"engine": "c", "low_memory": False, "encoding": "UTF-8", "sample": 10**6, "include_path_column": False}
    frame, on_host = read("read_csv", calls, "~/data.csv", 25e6, sep=";", na_values="-", skiprows=None, **same)
    expected = {"path": str(tmp_path / "data.csv"), "blocksize": 25_000_000, "sep": ";", "na_values": ["-", "None"]}
    assert (calls.given, on_host) == ([expected], [])
    pd.testing.assert_frame_equal(frame.compute(), answer.compute())


def test_columns_of_a_file_without_names_are_numbers(cell, tmp_path):
    (tmp_path / "data.csv").write_text("1,2\n")
    calls = cell()
    calls.answer = dd.from_pandas(pd.DataFrame({"0": [1], "1": [2]}), npartitions=1)
    frame, on_host = read("read_csv", calls, str(tmp_path / "data.csv"), header=None)
    assert (list(frame.columns), list(frame.compute().columns), on_host) == ([0, 1], [0, 1], [])


@pytest.mark.parametrize(
    ("options", "columns", "is_on_host"),
    [
        ({}, ["a", "date"], True),
        ({}, ["a", "created_at"], True),
        ({"lines": False}, ["a", "date"], False),
        ({}, ["a", "dates"], False),
        ({"include_path_column": True}, ["a"], True),
        ({"meta": pd.DataFrame({"a": [1]})}, ["a"], True),
        ({"engine": pd.read_json}, ["a"], True),
    ],
)
def test_lines_of_json_with_dates_paths_or_metadata_are_read_on_the_host(cell, tmp_path, options, columns, is_on_host):
    data = pd.DataFrame({name: [1_700_000_000] for name in columns})
    lines = options.get("lines", True)
    data.to_json(tmp_path / "data.json", orient="records", lines=lines)
    path = str(tmp_path / "data.json")
    expected = dd.read_json(path, **options).compute(scheduler="sync")
    answer = dd.from_pandas(data, npartitions=1)
    calls = cell()
    calls.answer = answer
    frame, on_host = read("read_json", calls, path, **options)
    assert on_host == ["read_json"] * is_on_host
    if is_on_host:
        pd.testing.assert_frame_equal(frame.compute(), expected)
    else:
        assert frame is calls.answer


@pytest.mark.parametrize("options", [{"categories": ["k"]}, {"index": ["a", "k"]}])
def test_parquet_files_are_read_on_the_host_if_dask_cudf_ignores_an_option(cell, tmp_path, options):
    data = pd.DataFrame({"a": [1, 2], "k": pd.Categorical(["x", "y"]), "b": [3, 4]})
    data.to_parquet(tmp_path / "data.parquet")
    expected = dd.read_parquet(tmp_path, **options).compute(scheduler="sync")
    calls = cell()
    frame, on_host = read("read_parquet", calls, str(tmp_path), engine="pyarrow", **options)
    assert (calls.given, on_host) == ([], ["read_parquet"])
    pd.testing.assert_frame_equal(frame.compute(), expected)


def test_hdf_files_are_read_on_the_host(cell):
    answer = dd.from_pandas(pd.DataFrame({"a": [1]}), npartitions=1)
    calls = cell()
    calls.on_host.read_hdf = lambda path, key: (path, key) == ("data.h5", "a") and answer
    frame, on_host = read("read_hdf", calls, "data.h5", key="a")
    assert (calls.given, on_host) == ([], ["read_hdf"])
    assert frame is answer


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


def test_a_dataframe_is_appended_by_pandas_if_the_files_have_its_dtypes(cell):
    frame = on_gpu(pd.DataFrame({"x": [1, 2]}))

    def to_parquet(df, *_, **__):
        if place_of(df) == "gpu":
            raise ValueError("Appended dtypes differ.\n{('x', 'string'), ('x', 'object')}")
        return df

    to_parquet.__signature__ = inspect.signature(dd.to_parquet)
    cell()
    assert writers.write_parquet(to_parquet, frame, "path", append=True).compute().x.tolist() == [1, 2]
    cell("error")
    with pytest.raises(ValueError, match="Appended dtypes"):
        writers.write_parquet(to_parquet, frame, "path", append=True)


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
    assert creation.create_frame(read_sql_table, "table", meta=Frame({"a": [1]})) is pd.DataFrame


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
