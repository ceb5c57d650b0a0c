"""The dataframes of Dask where nothing is asked of GPUs: what they are without the patches."""

import dask
import dask.dataframe as dd
import pandas as pd
import pytest
from cudf_stand_in import gpu_cell, readers_in_use
from distributed import Client
from frames import FRAME, WAYS, make_frames

from jupyter_gpudask.inspection.placement import place_of
from jupyter_gpudask.patches.apply import patches
from jupyter_gpudask.switch.context import switched_to


@pytest.fixture(autouse=True, scope="module")
def patches_applied():
    patches.apply("kernel")


@pytest.fixture(scope="module")
def makers(tmp_path_factory):
    return make_frames(tmp_path_factory.mktemp("data"))


@pytest.mark.parametrize("name", WAYS)
def test_a_frame_is_created_as_ever_and_that_of_a_gpu_cell_is_on_the_gpus(name, makers):
    make = makers[name]
    with switched_to("numpy", "pandas"):
        frame = make()
    with gpu_cell("cupy"), readers_in_use():
        on_gpu = make()
    assert place_of(on_gpu) == "gpu"
    assert on_gpu.npartitions == frame.npartitions
    for each in (frame, make()):
        assert place_of(each) == "host"
        result = each.compute(scheduler="sync")
        assert type(result) is pd.DataFrame
        if len(result) == len(FRAME) and "c" in result:
            pd.testing.assert_frame_equal(result.reset_index(drop=True), FRAME, check_dtype=False)


def test_a_partition_has_its_own_length_after_the_length_of_all_was_asked_for():
    frame = dd.from_pandas(pd.DataFrame({"a": range(12)}), npartitions=3)
    later = frame + 1  # on GPUs, each dataframe of from_pandas is an operation on the one of pandas
    assert len(frame) == len(later) == 12
    assert [len(part) for part in later.partitions] == [len(part) for part in frame.partitions] == [4, 4, 4]
    assert len(later.partitions[1:]) == 8


def test_a_number_is_where_the_frames_are_that_it_is_computed_from():
    frame = dd.from_pandas(FRAME, npartitions=2)
    for made in (frame, frame.a, frame.index, frame.a.sum(), frame.a.sum() + 1, frame.groupby("c").a.sum()):
        assert place_of(made) == "host"


def test_in_a_gpu_cell_and_on_a_cluster_with_gpus_frames_are_shuffled_by_tasks(monkeypatch):
    frame = dd.from_pandas(pd.concat([FRAME] * 8), npartitions=24)

    def graph():
        return str(sorted({type(task).__name__ for task in frame.shuffle("a").optimize().__dask_graph__().values()}))

    with Client(processes=False, dashboard_address=":0", n_workers=1) as client:
        assert "P2P" in graph()
        with gpu_cell():
            assert "P2P" not in graph()
        assert "P2P" in graph()
        monkeypatch.setattr(client, "is_on_gpus", True, raising=False)
        assert "P2P" not in graph()
        with dask.config.set({"dataframe.shuffle.method": "p2p"}):
            assert "P2P" in graph()
