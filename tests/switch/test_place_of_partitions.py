"""Where the partitions of a dataframe are is known from its expressions. Here cuDF is a subclass of pandas."""

from contextlib import nullcontext

import dask
import dask.dataframe as dd
import pandas as pd
import pytest
from cudf_stand_in import FRAME, Frame, Series, as_pandas, gpu_cell
from dask._collections import new_collection
from dask._expr import FinalizeCompute
from dask.dataframe.dask_expr._expr import Fused

from jupyter_gpudask.inspection.frames import FromGraphOnGpu, FromPandasOnGpu, ToGpu, ToHost
from jupyter_gpudask.inspection.placement import place_of, place_of_partitions, to_gpu, to_host
from jupyter_gpudask.patches.frames import collection
from jupyter_gpudask.patches.frames.collection import MetaOfPandas

pytestmark = pytest.mark.usefixtures("cudf_stand_in")

COMPUTED = {
    "column": lambda f: f.x,
    "index": lambda f: f.index,
    "arithmetic": lambda f: f[["k", "x"]] + 1,
    "selected rows": lambda f: f[f.k > 2],
    "merge": lambda f: f.merge(f, on="k"),
    "merge of an optimized one": lambda f: f.merge(f[["k"]], on="k").optimize(),
    "concatenation": lambda f: dd.concat([f, f[["k"]]]),
    "groups": lambda f: f.groupby("k").x.sum(),
    "groups in several partitions": lambda f: f.groupby("k").agg({"x": ["min", "std"]}, split_out=2),
    "sorted": lambda f: f.sort_values("k"),
    "another index": lambda f: f.set_index("k"),
    "shuffled": lambda f: f.shuffle("k"),
    "other partitions": lambda f: f.repartition(npartitions=2),
    "windows": lambda f: f.x.rolling(2).sum(),
    "function": lambda f: f.map_partitions(lambda part: part[["k"]]),
    "reduction": lambda f: f[["k", "x"]].max(),
    "number": lambda f: f.x.sum(),
    "number of numbers": lambda f: f.x.sum() + 1,
    "distinct": lambda f: f.k.drop_duplicates(),
    "one of two that are aligned": lambda f: f.x.align(f.k)[1],
}


@pytest.mark.parametrize("compute", COMPUTED.values(), ids=COMPUTED)
def test_what_is_computed_of_partitions_on_gpus_is_there_and_has_no_key_of_one_on_the_cpu(compute):
    on_host = dd.from_pandas(FRAME, npartitions=3)
    on_gpu = to_gpu(on_host)
    for prepare in (lambda frame: frame, lambda frame: frame.persist(), lambda frame: frame.optimize()):
        assert place_of(compute(prepare(on_host))) == "host"
        assert place_of(compute(prepare(on_gpu))) == "gpu"
    keys = [set(map(str, graph_of(compute(each)))) for each in (on_host, on_gpu, to_gpu(on_host))]
    assert not keys[0] & keys[1]
    assert keys[1] == keys[2], "the same operations have the same keys"
    moved = graph_of(to_gpu(compute(on_host))) if place_of_partitions(compute(on_host).expr) else {}
    for value in dask.get(moved, [key for key in moved if str(key) in keys[0]]):  # what is moved has been on the CPU
        assert not isinstance(value, Frame | Series)


def graph_of(collection):
    return dict(FinalizeCompute(collection.expr).optimize().__dask_graph__())


def test_partitions_that_are_moved_are_where_they_are_moved_to():
    frame = dd.from_pandas(FRAME, npartitions=3)
    moved = to_gpu(frame)
    assert type(moved.expr) is FromPandasOnGpu
    assert type(to_gpu(frame[frame.k > 2]).expr) is ToGpu
    back = to_host(moved)
    assert type(back.expr) is ToHost
    for each, place in ((moved, "gpu"), (back, "host"), (back.x + 1, "host"), (to_gpu(back.x + 1), "gpu")):
        assert place_of(each) == place_of(each.optimize()) == place
        assert isinstance(each.compute(), Frame | Series) == (place == "gpu")
        assert isinstance(each._meta, pd.DataFrame | pd.Series)
        assert not isinstance(each._meta, Frame | Series)
    assert back.compute().equals(FRAME)
    assert to_host(back) is back
    assert to_host(moved.x.sum()).compute() == FRAME.x.sum()


def test_a_fused_task_is_where_its_last_part_is():
    frame = to_gpu(dd.from_pandas(FRAME, npartitions=3))
    fused = [(to_host(frame.x + 1) * 2).optimize().expr, ((frame.x + 1) * 2).optimize().expr]
    assert all(isinstance(each, Fused) for each in fused)
    assert [place_of_partitions(each) for each in fused] == ["host", "gpu"]
    assert [place_of(new_collection(each) + 1) for each in fused] == ["host", "gpu"]


def test_a_persisted_dataframe_stays_on_gpus():
    frame = to_gpu(dd.from_pandas(FRAME, npartitions=3))
    for persisted in (frame.persist(), dask.persist(frame)[0], frame[frame.k > 2].persist().persist()):
        assert type(persisted.expr) is FromGraphOnGpu
        assert place_of(persisted) == "gpu"
        assert type(persisted.compute()) is Frame
        assert type(persisted.k.compute()) is Series
        assert type(persisted._meta) is pd.DataFrame
    on_host = dd.from_pandas(FRAME, npartitions=3).persist()
    assert not isinstance(on_host.expr, FromGraphOnGpu)
    assert place_of(on_host) == "host"


@pytest.mark.parametrize("inside", [True, False], ids=["in a cell", "outside"])
def test_a_dataframe_is_moved_to_the_host_by_its_method(inside):
    frame = to_gpu(dd.from_pandas(FRAME, npartitions=3))
    for each in (frame, frame.x, frame.persist()):
        with gpu_cell(fallback="host") if inside else nullcontext():
            moved = each.to_backend("pandas")
        assert place_of(moved) == "host"
        assert type(moved.compute()) in (pd.DataFrame, pd.Series)


def test_a_dataframe_with_metadata_of_cudf_gets_that_of_pandas_in_a_cell(monkeypatch):
    """Such as one of dask_cudf; its partitions stay as they are."""
    monkeypatch.setattr(collection, "meta_of_pandas", as_pandas)  # the stand-in counts as metadata of pandas
    frame = dd.from_pandas(FRAME, npartitions=3)
    of_cudf = frame.map_partitions(Frame, meta=Frame(FRAME.iloc[:0]), enforce_metadata=False)
    assert type(of_cudf._meta) is Frame
    assert place_of(of_cudf) == place_of(of_cudf.x) == "gpu"
    with gpu_cell(fallback="host"):
        computed = [of_cudf.x + 1, of_cudf[of_cudf.k > 2], of_cudf.merge(to_gpu(frame), on="k")]
        computed.append(dd.from_delayed([dask.delayed(Frame)(FRAME)], meta=Frame(FRAME.iloc[:0])))
    for each in computed:
        assert list(each.expr.find_operations(MetaOfPandas))
        assert not isinstance(each._meta, Frame | Series)
        assert place_of(each) == "gpu"
        assert isinstance(each.compute(), Frame | Series)
