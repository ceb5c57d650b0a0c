"""The dtypes of text files: cuDF infers those of each block, a cell has those of Dask on the CPU."""

from io import StringIO

import dask
import dask.dataframe as dd
import pandas as pd
import pytest
from cudf_stand_in import Frame, in_use

from jupyter_gpudask.inspection.placement import place_of, to_host
from jupyter_gpudask.patches.frames.files.readers import read_as_pandas


@pytest.fixture(autouse=True, scope="module")
def stand_in():
    with in_use():
        yield


HEADER = "n,name,x,flag\n"


def read_block(rows):
    """As cuDF: integers may be missing, a block without rows has strings, a column without values small integers."""
    if not rows:
        return Frame(pd.read_csv(StringIO(HEADER), dtype="str"))
    plain = pd.read_csv(StringIO(HEADER + rows), dtype_backend="numpy_nullable")
    empty = [name for name in plain if plain[name].isna().all()]
    return Frame(plain.astype(dict.fromkeys(empty, "Int8")))


def read(folder, *blocks):
    """Dataframes of the same files on the CPU, and of the stand-in."""
    for number, rows in enumerate(blocks):
        (folder / f"{number}.csv").write_text(HEADER + rows)

    def on_host(options):
        return dd.read_csv(str(folder / "*.csv"), **options)

    meta = on_host({})._meta
    of_cudf = dd.from_map(read_block, blocks, meta=Frame(meta.astype({"flag": "object"})))
    frame = read_as_pandas("read_csv", {}, of_cudf, on_host)
    assert place_of(frame) == "gpu"
    return on_host({}), frame


@pytest.mark.parametrize(
    "blocks",
    [
        ("1,a,0.5,True\n2,b,1.5,False\n", ""),
        ("1,a,0.5,True\n", "2,,1.5,False\n"),
        ("1,a,0.5,True\n", "2,12,1.5,False\n"),
        ("1,a,0.5,True\n", "2,1.50,1,False\n"),
        ("1,a,0.5,True\n", "2,,,False\n"),
        ("1,a,,True\n2,b,,\n", "2,a,1,False\n"),
        (",a,0.5,True\n2,b,,\n", "2,a,1,False\n"),
    ],
    ids=str,
)
def test_each_block_of_a_text_file_has_the_dtypes_of_the_cpu(tmp_path, blocks):
    expected, frame = read(tmp_path, *blocks)
    assert frame._meta.dtypes.to_dict() == expected._meta.dtypes.to_dict()
    assert to_host(frame.x.sum()).compute() == expected.x.sum().compute()
    for of_cpu, part in zip(dask.compute(*expected.to_delayed()), dask.compute(*frame.to_delayed()), strict=True):
        for name, column in part.items():
            pd.testing.assert_series_equal(
                column.to_pandas().astype(of_cpu.dtypes[name]), of_cpu[name].set_axis(column.index)
            )
            is_text = isinstance(of_cpu.dtypes[name], pd.StringDtype)
            assert (str(column.dtype) in ("str", "string", "object")) == is_text
        assert frame.x.compute().dtype.kind == "f"


@pytest.mark.parametrize("second", ["2.5,b,0.5,False\n", ",b,0.5,False\n", "2,b,text,False\n"])
def test_a_block_of_other_dtypes_than_the_first_rows_is_the_error_of_dask(tmp_path, second):
    expected, frame = read(tmp_path, "1,a,0.5,True\n", second)
    for each in (expected, frame):
        with pytest.raises(ValueError, match="Mismatched dtypes found") as caught:
            each.compute()
    assert "dtype=" in str(caught.value)


def test_columns_that_have_numbers_as_names_are_converted(tmp_path):
    (tmp_path / "data.csv").write_text("a,1\nb,2\n")

    def on_host(options):
        return dd.read_csv(str(tmp_path / "data.csv"), **options)

    of_cudf = dd.from_map(lambda _: Frame({"0": [7], "1": [2.5]}), [0], meta=Frame({"0": ["a"], "1": [1.5]}))
    frame = read_as_pandas("read_csv", {"header": None}, of_cudf, on_host)
    assert to_host(frame[[0]]).compute()[0].tolist() == ["7"]


def test_texts_of_lines_of_json_have_the_dtype_of_the_cpu(tmp_path):
    pd.DataFrame({"a": [1, 2], "s": ["a", None]}).to_json(tmp_path / "data.json", orient="records", lines=True)
    expected = dd.read_json(str(tmp_path / "data.json"))
    of_cudf = dd.from_map(lambda _: Frame({"a": [1, 2], "s": ["a", None]}), [0], meta=Frame(expected._meta))
    frame = read_as_pandas("read_json", {}, of_cudf, None)
    assert place_of(frame) == "gpu"
    assert frame.dtypes.to_dict() == expected.dtypes.to_dict()
    assert to_host(frame).compute().dtypes.to_dict() == expected.compute().dtypes.to_dict()
