"""The dtypes of text files: cuDF infers those of each block, a cell has those of Dask on the CPU."""

import dask
import dask.dataframe as dd
import pandas as pd
import pytest
from cudf_stand_in import gpu_cell, in_use, readers_in_use

from jupyter_gpudask.inspection.placement import place_of, to_host


@pytest.fixture(autouse=True, scope="module")
def stand_in():
    with in_use(), readers_in_use():
        yield


HEADER = "n,name,x,flag\n"


def on_both(read):
    """Dataframes of the same files on the CPU, and of the stand-in."""
    with gpu_cell():
        frame = read()
    assert place_of(frame) == "gpu"
    return read(), frame


def read(folder, *blocks):
    """Those of some text files."""
    for number, rows in enumerate(blocks):
        (folder / f"{number}.csv").write_text(HEADER + rows)
    return on_both(lambda: dd.read_csv(str(folder / "*.csv")))


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


def test_columns_keep_their_dtypes_beside_a_new_column_of_times(tmp_path):
    (tmp_path / "1.csv").write_text("n,flag\n1,0\n2,1\n")

    def read_with_times():
        frame = dd.read_csv(str(tmp_path / "1.csv"), dtype={"flag": bool})
        return frame.assign(time=lambda f: dd.to_datetime(f.n, unit="D"))

    expected, frame = on_both(read_with_times)
    result = to_host(frame).compute()
    assert frame.dtypes.to_dict() == result.dtypes.to_dict() == expected.compute().dtypes.to_dict()


def test_columns_that_have_numbers_as_names_are_converted(tmp_path):
    (tmp_path / "1.csv").write_text("a,1\nb,2\n")
    (tmp_path / "2.csv").write_text(",2.5\n")
    _, frame = on_both(lambda: dd.read_csv(str(tmp_path / "*.csv"), header=None, dtype={1: "float64"}))
    texts = to_host(frame[[0]]).compute()[0]
    assert isinstance(texts.dtype, pd.StringDtype)
    assert texts.fillna("").tolist() == ["a", "b", ""]


@pytest.mark.parametrize(
    "options", [{}, {"header": None}, {"usecols": ["name", "x"]}, {"names": list("abcd")}], ids=str
)
def test_parts_of_a_text_file_have_each_row_once_as_on_the_cpu(tmp_path, options):
    rows = "".join(f"{number},name {number},{number / 2},True\n" for number in range(100))
    (tmp_path / "data.csv").write_text("" if "header" in options or "names" in options else HEADER)
    with (tmp_path / "data.csv").open("a") as file:
        file.write(rows)
    expected, frame = on_both(lambda: dd.read_csv(str(tmp_path / "data.csv"), blocksize=500, **options))
    assert frame.npartitions == expected.npartitions > 3
    pd.testing.assert_frame_equal(to_host(frame).compute(), expected.compute())
    name = expected.columns[1]
    pd.testing.assert_series_equal(to_host(frame[name]).compute(), expected[name].compute())


@pytest.mark.parametrize("flags", ["0\n1\n", "True\nFalse\n", "1\n1\n"])
@pytest.mark.parametrize("dtype", [{"flag": bool}, {"flag": "bool", "n": "float64"}])
def test_numbers_become_booleans_as_on_the_cpu(tmp_path, flags, dtype):
    (tmp_path / "0.csv").write_text("n,flag\n" + "".join(f"5,{flag}\n" for flag in flags.split()))
    expected, frame = on_both(lambda: dd.read_csv(str(tmp_path / "*.csv"), dtype=dtype))
    pd.testing.assert_frame_equal(to_host(frame).compute(), expected.compute())


@pytest.mark.parametrize(("first", "flag"), [("False", ""), ("0", "2"), ("1", "True"), ("true", "1"), ("0", "")])
def test_what_is_no_boolean_is_the_value_or_the_error_of_the_cpu(tmp_path, first, flag):
    for number, each in enumerate((first, flag)):
        (tmp_path / f"{number}.csv").write_text(f"n,flag\n1,{each}\n2,{first}\n")
    for options in ({}, {"dtype": {"flag": bool}}):
        outcomes = []
        with gpu_cell(fallback="host", results="host"):
            on_gpu = dd.read_csv(str(tmp_path / "*.csv"), **options)
            assert place_of(on_gpu) == "gpu"
            outcomes.append(outcome(on_gpu))
        outcomes.append(outcome(dd.read_csv(str(tmp_path / "*.csv"), **options)))
        assert outcomes[0] == outcomes[1]


def test_booleans_of_which_the_first_rows_lack_one_are_the_texts_of_the_cpu_in_a_part_that_the_host_reads(tmp_path):
    for number, rows in enumerate(["True,\nTrue,False\n", "True,True\n,False\n"]):
        (tmp_path / f"{number}.csv").write_text(f"known,flag\n{rows}")
    with gpu_cell(fallback="host", results="host"):
        on_gpu = dd.read_csv(str(tmp_path / "*.csv")).compute()
    assert on_gpu.flag.fillna("").tolist() == ["", "False", "True", "False"]
    pd.testing.assert_frame_equal(on_gpu, dd.read_csv(str(tmp_path / "*.csv")).compute())


def outcome(frame):
    """Its values and dtype, or the class of the error."""
    try:
        column = frame.flag.compute()
    except ValueError as error:
        return type(error)
    return column.tolist(), column.dtype


def test_texts_of_lines_of_json_have_the_dtype_of_the_cpu(tmp_path):
    for number, name in enumerate(["a", None]):
        data = pd.DataFrame({"a": [1, 2], "s": ["b", name]})
        data.to_json(tmp_path / f"{number}.json", orient="records", lines=True)
    for options in ({}, {"blocksize": 20}):
        expected, frame = on_both(lambda options=options: dd.read_json(str(tmp_path / "*.json"), **options))
        assert frame.dtypes.to_dict() == expected.dtypes.to_dict()
        assert frame.npartitions == expected.npartitions
        pd.testing.assert_frame_equal(to_host(frame).compute(), expected.compute())


def test_a_file_of_lines_with_other_columns_than_the_first_is_the_error_of_dask(tmp_path):
    (tmp_path / "0.json").write_text('{"a": 1}\n')
    (tmp_path / "1.json").write_text('{"b": 1}\n')
    for each in on_both(lambda: dd.read_json(str(tmp_path / "*.json"))):
        with pytest.raises(ValueError, match="Metadata mismatch found in `from_delayed`"):
            each.compute()


@pytest.mark.parametrize("options", [{}, {"index": "a"}, {"split_stripes": 2, "aggregate_files": True}], ids=str)
def test_orc_files_are_read_as_on_the_cpu(tmp_path, options):
    for number in range(2):
        data = pd.DataFrame({"a": [1, 2], "s": ["b", None], "x": [0.5, number]})
        data.to_orc(tmp_path / f"{number}.orc", index=False)
    expected, frame = on_both(lambda: dd.read_orc(str(tmp_path / "*.orc"), **options))
    assert frame.dtypes.to_dict() == expected.dtypes.to_dict()
    assert frame.npartitions == expected.npartitions
    pd.testing.assert_frame_equal(to_host(frame).compute(), expected.compute())
    assert len(frame) == len(frame.x) == 4


def test_a_file_that_has_changed_has_another_key(tmp_path):
    (tmp_path / "data.csv").write_text("a\n1\n")
    _, before = on_both(lambda: dd.read_csv(str(tmp_path / "data.csv")))
    (tmp_path / "data.csv").write_text("a\n2\n")
    _, after = on_both(lambda: dd.read_csv(str(tmp_path / "data.csv")))
    assert before._name != after._name
    assert dask.compute(after.a.sum())[0] == 2
