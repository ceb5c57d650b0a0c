"""Dataframes of pandas that are created in a cell. Here cuDF is a subclass of pandas."""

import pickle

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from cudf_stand_in import FRAME, Frame, Series
from dask._collections import new_collection

from jupyter_gpudask.inspection.frames import FromPandasOnGpu
from jupyter_gpudask.inspection.placement import place_of, to_gpu, to_host

pytestmark = pytest.mark.usefixtures("cudf_stand_in")


@pytest.fixture
def frame():
    """Ten rows in five partitions on the GPU."""
    return to_gpu(dd.from_pandas(FRAME, npartitions=5))


def test_partitions_are_on_the_gpu_with_the_tasks_of_dask(frame):
    on_host = dd.from_pandas(FRAME, npartitions=5)
    assert place_of(frame) == "gpu"
    assert type(frame._meta) is pd.DataFrame
    assert type(frame.compute()) is Frame
    assert type(frame.x.compute()) is Series
    assert frame.divisions == on_host.divisions
    for compute in (lambda each: each, lambda each: each.k + 1, lambda each: each[each.k > 2].x.count()):
        graphs = [compute(each).optimize(fuse=False).__dask_graph__() for each in (on_host, frame)]
        assert len(graphs[0]) == len(graphs[1])
    assert repr(frame.k + 1) == repr(on_host.k + 1)


def test_divisions_are_those_that_are_given():
    on_host = dd.repartition(FRAME, [0, 4, 9])
    frame = to_gpu(on_host)
    assert frame.divisions == (0, 4, 9)
    graphs = [dict(each.__dask_graph__()) for each in (on_host, frame)]
    assert len(graphs[0]) == len(graphs[1])
    assert not graphs[0].keys() & graphs[1].keys()
    assert frame.partitions[1].compute().to_pandas().equals(FRAME.iloc[4:])


def test_columns_are_selected_before_they_are_moved(frame):
    leaf = next(frame[["k", "x"]].k.sum().simplify().expr.find_operations(FromPandasOnGpu))
    assert leaf.columns == ["k"]
    assert frame.k.sum().compute() == FRAME.k.sum()


def test_dask_knows_the_lengths_and_the_number_of_partitions(frame):
    assert len(frame) == len(FRAME)
    assert len(frame.partitions[1]) == 2
    assert frame.partitions[1].compute().to_pandas().equals(FRAME.iloc[2:4])
    with pytest.raises(ValueError, match="only 5 partitions"):
        frame.head(2, npartitions=6)
    with pytest.warns(UserWarning, match="Insufficient elements"):
        assert frame.head(99, npartitions=2).to_pandas().equals(FRAME.iloc[:4])


def test_the_expression_can_be_sent_to_a_worker(frame):
    again = new_collection(pickle.loads(pickle.dumps(frame.expr)))  # noqa: S301
    assert again._name == frame._name
    assert again.compute().to_pandas().equals(FRAME)


def test_a_series_and_one_without_an_order_are_moved():
    series = to_gpu(dd.from_pandas(FRAME.x, npartitions=2, sort=False))
    assert type(series.compute()) is Series
    np.testing.assert_array_equal(series.compute().to_numpy(), FRAME.x.to_numpy())
    unsorted = pd.DataFrame({"a": [1, 2, 3]}, index=[3, 1, 2])
    assert to_gpu(dd.from_pandas(unsorted, npartitions=2)).compute().a.tolist() == [2, 3, 1]
    assert to_gpu(dd.from_pandas(unsorted, npartitions=2, sort=False)).compute().a.tolist() == [1, 2, 3]


def test_a_dataframe_is_filtered_by_a_condition_that_is_a_conversion(frame):
    for each in (frame, dd.from_pandas(FRAME, npartitions=5)):
        result = each[(each.k % 2).astype(bool)].compute()
        assert pd.DataFrame(result).equals(FRAME[FRAME.k % 2 == 1])
        result = each.k[(each.k % 2).astype(bool)].compute()
        assert result.tolist() == FRAME.k[FRAME.k % 2 == 1].tolist()


def test_a_dataframe_is_filtered_by_a_condition_that_ran_on_the_host(frame):
    condition = to_gpu(to_host(frame.name) == "b")
    assert pd.DataFrame(frame[condition].compute()).equals(FRAME[FRAME.name == "b"])
    assert frame.k[condition].compute().tolist() == FRAME.k[FRAME.name == "b"].tolist()
