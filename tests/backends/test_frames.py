"""The dataframes that a cell for GPUs creates: real cuDF, in this process."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask.dataframe import from_pandas

from jupyter_gpudask.backends import switched_to

pytestmark = pytest.mark.gpu

cudf = pytest.importorskip("cudf", reason="needs cuDF and a GPU")

FRAME = pd.DataFrame({"a": [1, 2, 3, 4], "b": [1.5, 2.5, None, 4.5], "c": list("wxyz")})


def frames(folder):
    FRAME.to_csv(folder / "data.tsv", sep="\t", index=False)
    return {
        "from_pandas": lambda: dd.from_pandas(FRAME, npartitions=2),
        "from_pandas bound before": lambda: from_pandas(FRAME, npartitions=2),
        "from_dict": lambda: dd.from_dict({"a": [1, 2, 3, 4]}, npartitions=2),
        "from_array": lambda: dd.from_array(np.arange(12.0).reshape(3, 4), columns=list("abcd")),
        "from_map": lambda: dd.from_map(lambda number: FRAME.iloc[number : number + 2], [0, 2], meta=FRAME.iloc[:0]),
        "read_table": lambda: dd.read_table(str(folder / "data.tsv")),
        "read_csv": lambda: dd.read_csv(str(folder / "data.tsv"), sep="\t"),
    }


@pytest.mark.parametrize(
    "name",
    ["from_pandas", "from_pandas bound before", "from_dict", "from_array", "from_map", "read_table", "read_csv"],
)
def test_a_frame_is_cudf_and_agrees_with_pandas(name, tmp_path):
    make = frames(tmp_path)[name]
    expected = make().compute(scheduler="sync")
    with switched_to("cupy", "cudf"):
        frame = make()
    result = frame.compute(scheduler="sync")
    assert type(frame._meta) is type(result) is cudf.DataFrame
    pd.testing.assert_frame_equal(
        result.to_pandas().reset_index(drop=True), pd.DataFrame(expected).reset_index(drop=True), check_dtype=False
    )


def test_a_pandas_frame_is_written_as_pandas_writes_it(tmp_path):
    frame = dd.from_pandas(FRAME, npartitions=1)
    with switched_to("cupy", "cudf"):
        frame.to_parquet(str(tmp_path), compute_kwargs={"scheduler": "sync"})
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path), FRAME, check_dtype=False, check_names=False)
    import pyarrow.parquet as pq

    file = next(tmp_path.glob("*.parquet"))
    assert "parquet-cpp-arrow" in pq.ParquetFile(file).metadata.created_by


def test_a_frame_from_outside_stays_what_it_is():
    frame = dd.from_pandas(FRAME, npartitions=1)
    with switched_to("cupy", "cudf"):
        assert type((frame[["a"]] + 1)._meta) is pd.DataFrame
