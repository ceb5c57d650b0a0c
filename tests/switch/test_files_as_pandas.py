"""Files that a cell for GPUs reads and writes: real cuDF, in this process; the answers are those of pandas."""

import dask
import dask.dataframe as dd
import pandas as pd
import pyarrow.parquet as pq
import pytest

from jupyter_gpudask.fallback.log import fallback_log
from jupyter_gpudask.inspection.placement import place_of
from jupyter_gpudask.overlay import CellRecord
from jupyter_gpudask.switch.context import switched_to

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("ignore:The inplace keyword"),
    pytest.mark.filterwarnings("ignore:Unexpected behavior can result from passing skiprows"),
]

cudf = pytest.importorskip("cudf", reason="needs cuDF and a GPU")

DATA = pd.DataFrame({"name": ["Alice", None, "Bob", "Eve"] * 25, "amount": range(100), "x": [0.5, 2.25] * 50})
WHOLE = DATA.fillna({"name": "Zoe"})
THIRDS = pd.DataFrame({"x": [1 / 3, 2e-17, 123456.789012345], "when": pd.to_datetime(["2024-01-01"] * 3)})


def cell():
    return switched_to("cupy", "cudf", CellRecord(fallback="host", results="host"))


def in_cell(compute):
    """What `compute` gives in a cell, and what has run on the host in it."""
    before = fallback_log.blocks.copy()
    with cell(), dask.config.set(scheduler="sync"):
        result = compute()
    return result, {place.operation for place in (fallback_log.blocks - before)}


def assert_same(read, on_host=()):
    expected = read().compute(scheduler="sync")

    def compute():
        frame = read()
        assert place_of(frame) == "gpu"
        return frame.compute()

    result, found = in_cell(compute)
    assert found == set(on_host)
    pd.testing.assert_frame_equal(
        result.reset_index(drop=True), expected.reset_index(drop=True), check_dtype=False, check_categorical=False
    )
    assert list(result.columns) == list(expected.columns)


@pytest.mark.parametrize(
    ("text", "options", "is_on_host"),
    [
        ("a,b# end of a line\n1,2# so\n3,4\n", {"comment": "#"}, True),
        ("a, b\n1, 2\n3, 4\n", {"skipinitialspace": True, "blocksize": 8}, True),
        ("# x\n# y\na,b\n1,2\n3,4\n", {"skiprows": [0, 1]}, True),
        ("# x\n# y\na,b\n1,2\n3,4\n", {"skiprows": 2}, False),
        ("# x\n# y\na,b\n1,2\n3,4\n", {"skiprows": 2, "blocksize": 1000}, True),
        ("a,b\r\n1,2\r\n3,4\r\n", {"blocksize": 5, "lineterminator": "\r\n"}, True),
        ("a,b\r\n1,2\r\n3,4\r\n", {"blocksize": None}, False),
        ("1,2\n3,4\n", {"header": None}, False),
        ("1,2\n3,4\n5,6\n7,8\n", {"header": None, "blocksize": 8}, False),
        ("1,2,3\n4,5,6\n", {"header": None, "usecols": [0, 2]}, False),
        ("1,2\n3,4\n", {"names": ["a", "b"]}, False),
        ("1,2,3\n4,5,6\n", {"names": ["a", "b"]}, True),
        ("a,b,c\n1,2,3\n4,5,6\n", {"usecols": ["c", "a"]}, False),
        ("a,b,c\n1,2,3\n4,5,6\n7,8,9\n", {"usecols": ["c", "a"], "blocksize": 8}, False),
        ("1,2\n3,4\n5,6\n7,8\n", {"names": ["a", "b"], "blocksize": 8}, False),
        ("a,b\n1,None\n3,x\n", {}, False),
        ("a,b\n1,-\n3,x\n", {"na_values": "-"}, False),
        ("a,b\n1,-999\n3,-999.0\n", {"na_values": [-999]}, True),
        ("a;b\n1;2,5\n3;4,5\n", {"sep": ";", "decimal": ","}, False),
        ("a,b\n1,2\n3,4\n", {"include_path_column": True}, True),
        ("a,b\n1,2\n3,4\n", {"assume_missing": True}, True),
        ("a,b\n1,2\n3,4\n", {"engine": "c", "low_memory": False, "encoding": "utf-8", "sample": 10**6}, False),
        ("a,b\n1,2\n3,4\n", {"blocksize": 25e6}, False),
        ("a,when\n1,2024-01-02\n3,2024-02-01\n", {"parse_dates": ["when"]}, False),
    ],
    ids=str,
)
def test_a_text_file_is_read_as_by_pandas(tmp_path, text, options, is_on_host):
    (tmp_path / "data.csv").write_bytes(text.encode())
    assert_same(lambda: dd.read_csv(str(tmp_path / "*.csv"), **options), ["read_csv"] * is_on_host)


def test_all_blocks_of_text_files_have_the_dtypes_of_the_cpu(tmp_path):
    rows = pd.DataFrame({"a": range(20), "s": list("ab") * 10, "f": [each / 3 for each in range(20)]})
    rows.to_csv(tmp_path / "blocks.csv", index=False)
    (tmp_path / "flags.csv").write_text("zip,flag,count\n02139,True,1\n,False,\n10001,,3\n")
    rows[["a", "s"]].to_json(tmp_path / "lines.json", orient="records", lines=True)

    def read():
        yield dd.read_csv(str(tmp_path / "blocks.csv"), blocksize=60)
        yield dd.read_csv(str(tmp_path / "flags.csv"), dtype={"zip": str})
        yield dd.read_json(str(tmp_path / "lines.json"))

    for expected, result in zip(
        [frame.compute(scheduler="sync") for frame in read()],
        in_cell(lambda: [frame.compute() for frame in read()])[0],
        strict=True,
    ):
        pd.testing.assert_frame_equal(result.reset_index(drop=True), expected.reset_index(drop=True))
    total, _ = in_cell(lambda: next(read()).f.sum().compute())
    assert total == pytest.approx(rows.f.sum())


@pytest.mark.parametrize(
    ("data", "options", "is_on_host"),
    [
        ({"a": [1, 2]}, {}, False),
        ({"a": [1, 2], "date": [1_700_000_000, 1_700_000_001]}, {}, True),
        ({"a": [1, 2]}, {"include_path_column": True}, True),
        ({"a": [1, 2]}, {"meta": pd.DataFrame({"a": [1]})}, True),
        ({"a": range(9), "s": ["x", None, "z"] * 3, "x": [0.5, None, 2.5] * 3}, {"blocksize": 60}, False),
    ],
)
def test_lines_of_json_are_read_as_by_pandas(tmp_path, data, options, is_on_host):
    pd.DataFrame(data).to_json(tmp_path / "data.json", orient="records", lines=True)
    assert_same(lambda: dd.read_json(str(tmp_path / "data.json"), **options), ["read_json"] * is_on_host)


@pytest.mark.parametrize(
    "options", [{}, {"columns": ["x"]}, {"index": "amount"}, {"split_stripes": 2, "aggregate_files": True}], ids=str
)
def test_orc_files_are_read_as_by_pandas(tmp_path, options):
    for number in range(2):
        DATA.to_orc(tmp_path / f"{number}.orc", index=False)
    assert_same(lambda: dd.read_orc(str(tmp_path / "*.orc"), **options))
    assert in_cell(lambda: len(dd.read_orc(str(tmp_path / "*.orc"), **options)))[0] == 200


def test_the_kernel_needs_no_cudf_to_plan(tmp_path, monkeypatch):
    DATA.to_csv(tmp_path / "data.csv", index=False)
    DATA.to_json(tmp_path / "data.json", orient="records", lines=True)
    DATA.to_orc(tmp_path / "data.orc", index=False)
    for name in ("read_csv", "read_orc", "from_pandas"):
        monkeypatch.setattr(cudf, name, lambda *_, **__: pytest.fail("in the kernel"))

    def metadata():
        frames = [dd.read_csv(tmp_path / "data.csv"), dd.read_orc(str(tmp_path / "data.orc"))]
        return [frame._meta for frame in [*frames, dd.from_dict({"a": [1]}, npartitions=1)]]

    for found, expected in zip(in_cell(metadata)[0], metadata(), strict=True):
        pd.testing.assert_frame_equal(found, expected)


@pytest.mark.parametrize("engine", [None, "pyarrow", "auto"])
@pytest.mark.parametrize(
    ("data", "options", "is_on_host"),
    [
        (DATA, {}, False),
        (DATA.set_index("amount"), {}, False),
        (DATA, {"write_metadata_file": True}, False),
        (WHOLE, {"partition_on": "name"}, False),
        (DATA, {"compression": "zstd"}, True),
        (DATA, {"row_group_size": 10}, True),
        (DATA.astype({"name": "category"}), {}, True),
        (DATA.assign(lasting=pd.to_timedelta(range(len(DATA)), unit="min")), {}, True),
        (WHOLE.astype({"name": "category"}), {"partition_on": ["name"]}, True),
    ],
)
def test_parquet_files_are_written_and_read_as_by_pandas(tmp_path, engine, data, options, is_on_host):
    def write():
        dd.from_pandas(data, npartitions=3).to_parquet(tmp_path / "gpu", engine=engine, **options)

    _, found = in_cell(write)
    assert found == ({"to_parquet"} if is_on_host else set())
    dd.from_pandas(data, npartitions=3).to_parquet(tmp_path / "cpu", **options)
    if "compression" in options:
        file = next((tmp_path / "gpu").glob("*.parquet"))
        assert pq.read_metadata(file).row_group(0).column(0).compression == "ZSTD"
    expected = dd.read_parquet(tmp_path / "cpu").compute(scheduler="sync")
    for folder in ("cpu", "gpu"):
        read, found = in_cell(lambda folder=folder: dd.read_parquet(tmp_path / folder, engine=engine).compute())
        assert not found
        pd.testing.assert_frame_equal(
            read.sort_values("x", kind="stable")[expected.columns],
            expected.sort_values("x", kind="stable"),
            check_dtype=False,
            check_index_type=False,
            check_categorical=False,
        )


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "Europe/Berlin", "UTC", "+02:00"])
@pytest.mark.parametrize("index", [None, "at", "unnamed"])
def test_times_keep_their_zone_in_parquet_files(tmp_path, zone, index):
    times = pd.date_range("2024-03-30 22:00", periods=6, freq="h", tz="UTC").tz_convert(zone)
    data = pd.DataFrame({"x": range(6), "at": times, "other": times.where([True, False] * 3)})
    if index is not None:
        data = data.set_index("at").rename_axis(index if index == "at" else None)

    def made():
        return dd.from_pandas(data, npartitions=2)

    def read(name, compute=lambda frame: frame, **options):
        return compute(dd.read_parquet(tmp_path / name, **options)).compute(scheduler="sync")

    made().to_parquet(tmp_path / "cpu")
    assert "to_parquet" in in_cell(lambda: made().to_parquet(tmp_path / "gpu"))[1]
    pd.testing.assert_frame_equal(read("gpu"), read("cpu"))
    for name in ("cpu", "gpu"):
        for options in ({}, {"columns": ["x"], "filters": [("other", ">", times[1])]}):
            result, found = in_cell(lambda name=name, options=options: read(name, **options))
            pd.testing.assert_frame_equal(result, read(name, **options), check_freq=False)
            assert ("read_parquet" in found) == (zone == "+02:00" and (index is not None or not options))
    expected = read("cpu", lambda frame: frame.other.dt.hour)
    pd.testing.assert_series_equal(in_cell(lambda: read("cpu", lambda frame: frame.other.dt.hour))[0], expected)


def test_parquet_files_are_appended_with_a_named_engine(tmp_path):
    def write(data, **options):
        dd.from_pandas(data, npartitions=2).to_parquet(tmp_path, engine="pyarrow", **options)

    write(DATA[:30])
    in_cell(lambda: write(DATA[30:60], append=True))
    in_cell(lambda: write(DATA[60:], append=True))
    read, found = in_cell(lambda: dd.read_parquet(tmp_path, engine="pyarrow").compute())
    assert not found
    pd.testing.assert_frame_equal(read, dd.read_parquet(tmp_path).compute(scheduler="sync"), check_dtype=False)
    pd.testing.assert_frame_equal(read, DATA, check_dtype=False, check_index_type=False)


def test_categories_that_pandas_has_written_are_categories(tmp_path):
    DATA.astype({"name": "category"}).to_parquet(tmp_path / "data.parquet")
    assert_same(lambda: dd.read_parquet(tmp_path))
    assert_same(lambda: dd.read_parquet(tmp_path, categories=["name"]), ["read_parquet"])

    with cell(), dask.config.set(scheduler="sync"):
        assert isinstance(dd.read_parquet(tmp_path).name.compute().dtype, pd.CategoricalDtype)


@pytest.mark.parametrize("filters", [None, [("amount", ">", 97)]])
def test_categories_are_those_of_the_files(tmp_path, filters):
    letters = pd.CategoricalDtype(["Zoe", "Eve", "Bob", "Alice"], ordered=True)
    dd.from_pandas(DATA.astype({"name": letters, "x": "category"}), npartitions=3).to_parquet(tmp_path / "files")

    def read():
        return dd.read_parquet(tmp_path / "files", filters=filters, columns=["name", "x"]).compute(scheduler="sync")

    expected, (result, _) = read(), in_cell(read)
    pd.testing.assert_frame_equal(result.reset_index(drop=True), expected.reset_index(drop=True))


def test_several_columns_are_the_index(tmp_path):
    DATA.to_parquet(tmp_path / "data.parquet")
    result, found = in_cell(lambda: dd.read_parquet(tmp_path, index=["name", "amount"]).compute())
    assert (result.index.names, found) == (["name", "amount"], {"read_parquet"})


def test_text_files_have_all_digits_and_the_times_of_pandas(tmp_path):
    _, found = in_cell(lambda: dd.from_pandas(THIRDS, npartitions=1).to_csv(tmp_path / "*.csv", index=False))
    assert found == {"to_csv"}
    assert (tmp_path / "0.csv").read_text() == THIRDS.to_csv(index=False)


def test_tables_are_written_and_read(tmp_path):
    pytest.importorskip("sqlalchemy")
    address = f"sqlite:///{tmp_path / 'data.db'}"
    _, found = in_cell(lambda: dd.from_pandas(DATA, npartitions=2).to_sql("data", address))
    assert found == {"to_sql"}

    def read():
        meta = dd.from_pandas(DATA[["amount", "x"]], npartitions=1)
        return dd.read_sql_table("data", address, "index", columns=["amount", "x"], meta=meta, npartitions=2).compute()

    pd.testing.assert_frame_equal(in_cell(read)[0], DATA[["amount", "x"]], check_dtype=False, check_names=False)


def test_categories_are_an_index_of_pandas():
    with cell():
        names = dd.from_pandas(DATA.astype({"name": "category"}), npartitions=2).name
        assert place_of(names) == "gpu"
        assert set(names.cat.categories) == {"Alice", "Bob", "Eve"}


def some_rows(frame):
    return frame[(frame.half == 1) & (frame.amount > 60)]


@pytest.mark.parametrize("is_partitioned", [False, True])
@pytest.mark.parametrize(
    "read",
    [
        lambda path: dd.read_parquet(path, filters=[("name", "=", "Bob")]),
        lambda path: dd.read_parquet(path, filters=[("half", "==", 1), ("amount", ">", 60)]),
        lambda path: dd.read_parquet(path, filters=[("amount", ">", 10)], columns=["name"]),
        lambda path: some_rows(dd.read_parquet(path)),
        lambda path: dd.read_parquet(path, filters=[[("half", "==", 1), ("amount", "<", 60)], [("amount", "==", 9)]]),
    ],
)
def test_filters_hold_for_each_row(tmp_path, is_partitioned, read):
    path = str(tmp_path / "files")
    halves = WHOLE.assign(half=WHOLE.amount // 50)
    dd.from_pandas(halves, npartitions=3).to_parquet(path, partition_on=["half"] if is_partitioned else None)
    expected = read(path).compute(scheduler="sync").sort_values("name")
    result, found = in_cell(lambda: read(path).compute())
    assert not found
    names = list(expected)
    pd.testing.assert_frame_equal(
        result.sort_values(names)[names].reset_index(drop=True),
        expected.sort_values(names).reset_index(drop=True),
        check_dtype=False,
        check_categorical=False,
    )


def test_directories_that_pandas_has_written_are_read(tmp_path):
    WHOLE.assign(half=WHOLE.amount // 50).to_parquet(tmp_path / "files", partition_cols=["half"])
    assert_same(lambda: dd.read_parquet(str(tmp_path / "files")))
    assert_same(lambda: dd.read_parquet(str(tmp_path / "files"), columns=["x", "name"]))


def test_an_index_is_filtered(tmp_path):
    path = str(tmp_path / "files")
    dd.from_pandas(WHOLE.set_index("amount"), npartitions=2).to_parquet(path)
    assert_same(lambda: dd.read_parquet(path, filters=[("amount", ">", 60), ("x", "==", 0.5)]))


def test_a_partition_without_rows_is_written_to_directories(tmp_path):
    def write(name):
        frame = dd.from_pandas(WHOLE, npartitions=4)
        frame[frame.amount > 40].to_parquet(str(tmp_path / name), partition_on=["name"], write_metadata_file=True)
        return dd.read_parquet(str(tmp_path / name)).compute(scheduler="sync").sort_values("amount")

    expected = write("pandas")
    result, _ = in_cell(lambda: write("cudf"))
    assert result.amount.tolist() == expected.amount.tolist()
    assert result.name.tolist() == expected.name.tolist()


def test_booleans_that_a_merge_leaves_missing_are_missing_in_files(tmp_path):
    def write(name):
        empty = pd.DataFrame({"n": pd.Series([], dtype="int64"), "k": pd.Series([], dtype="int64")})
        left = dd.from_pandas(empty, npartitions=4, sort=False)
        left["flag"] = left.k <= 0
        right = dd.from_pandas(pd.DataFrame({"n": range(6), "k": [2, 2, 2, 0, 3, 3]}), npartitions=5, sort=False)
        left.merge(right, on=["n", "k"], how="outer").to_parquet(str(tmp_path / name))
        return dd.read_parquet(str(tmp_path / name)).compute(scheduler="sync").flag.isna().tolist()

    assert in_cell(lambda: write("cudf"))[0] == write("pandas") == [True] * 6


def test_a_series_is_iterated():
    frame = dd.from_pandas(WHOLE, npartitions=3)
    result, _ = in_cell(lambda: [*dd.from_pandas(WHOLE, npartitions=3).name])
    assert result == [*frame.name]
