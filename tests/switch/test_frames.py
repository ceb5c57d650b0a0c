"""The dataframes that a cell for GPUs creates: real cuDF, in this process."""

import dask
import dask.dataframe as dd
import pandas as pd
import pytest
from frames import FRAME, WAYS, make_frames

from jupyter_gpudask.errors import MixedBackendsError
from jupyter_gpudask.inspection.placement import place_of, to_gpu, to_host
from jupyter_gpudask.switch.context import switched_to

pytestmark = pytest.mark.gpu

cudf = pytest.importorskip("cudf", reason="needs cuDF and a GPU")

NAMED_BY_CHANCE = {"read_json", "read_sql", "read_sql_query", "read_sql_table"}
"""By Dask."""


@pytest.mark.parametrize("name", WAYS)
def test_a_frame_is_cudf_agrees_with_pandas_and_has_no_key_of_it(name, tmp_path):
    """An honest repeat has its own keys."""
    make = make_frames(tmp_path)[name]
    on_cpu = make()
    with switched_to("cupy", "cudf"):
        on_gpu, again = make(), make()
    expected, result = (frame.compute(scheduler="sync") for frame in (on_cpu, on_gpu))
    assert place_of(on_gpu) == "gpu"
    assert type(on_gpu._meta) is pd.DataFrame
    assert type(result) is cudf.DataFrame
    pd.testing.assert_frame_equal(
        result.to_pandas().reset_index(drop=True), pd.DataFrame(expected).reset_index(drop=True), check_dtype=False
    )
    graphs = [dict(frame.optimize().__dask_graph__()) for frame in (on_cpu, on_gpu, again)]
    assert graphs[1].keys() == graphs[2].keys() or name in NAMED_BY_CHANCE
    assert not set(map(str, on_cpu.__dask_keys__())) & set(map(str, on_gpu.__dask_keys__()))
    shared = sorted(graphs[0].keys() & graphs[1].keys(), key=str)  # what is moved has been on the CPU
    for value in (value for graph in graphs[:2] for value in dask.get(graph, shared)):
        assert not type(value).__module__.startswith("cudf")


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
        assert place_of(frame[["a"]] + 1) == "host"


OUTSIDE = dd.from_pandas(FRAME, npartitions=2)


@pytest.mark.parametrize(
    "mix",
    [
        lambda inside: inside.merge(OUTSIDE, on="a"),
        lambda inside: inside.a + OUTSIDE.a,
        lambda inside: inside[OUTSIDE.a > 1],
        lambda inside: inside.assign(d=OUTSIDE.b),
        lambda inside: dd.concat([inside, OUTSIDE]),
    ],
)
def test_mixing_is_refused(mix):
    with switched_to("cupy", "cudf"):
        inside = dd.from_pandas(FRAME, npartitions=2)
        with pytest.raises(MixedBackendsError, match=r"is on the CPU and .* on the GPU"):
            mix(inside)


def test_functions_of_the_users_own_may_mix():
    with switched_to("cupy", "cudf"):
        inside = dd.from_pandas(FRAME, npartitions=2)
        mixed = inside.a.map_partitions(lambda gpu, cpu: gpu + cudf.from_pandas(cpu), OUTSIDE.a, meta=inside.a._meta)
    assert mixed.compute(scheduler="sync").to_pandas().tolist() == [2, 4, 6, 8]


def test_places_are_told_of_frames_series_and_what_is_computed_from_them():
    with switched_to("cupy", "cudf"):
        inside = dd.from_pandas(FRAME, npartitions=2)
    for make in (lambda f: f, lambda f: f.a, lambda f: f.index, lambda f: f.a.sum(), lambda f: f.groupby("c").a.sum()):
        assert (place_of(make(inside)), place_of(make(OUTSIDE))) == ("gpu", "host")


def test_frames_are_moved_both_ways():
    moved = to_gpu(OUTSIDE)
    assert type(moved.compute(scheduler="sync")) is cudf.DataFrame
    pd.testing.assert_frame_equal(to_host(moved).compute(scheduler="sync"), FRAME, check_dtype=False)
    pd.testing.assert_frame_equal(to_host(moved.compute(scheduler="sync")), FRAME, check_dtype=False)
    assert to_host(moved.a.sum()).compute(scheduler="sync") == 10


def test_bags_and_records_are_made_of_the_rows():
    with switched_to("cupy", "cudf"):
        inside = dd.from_pandas(FRAME[["a", "b"]], npartitions=2)
        bags = [inside.to_bag(), inside.a.to_bag(), inside.to_bag(format="dict")]
        records = inside.to_records()
    outside = dd.from_pandas(FRAME[["a", "b"]], npartitions=2)
    expected = [outside.to_bag(), outside.a.to_bag(), outside.to_bag(format="dict")]
    assert [str(bag.compute(scheduler="sync")) for bag in bags] == [
        str(bag.compute(scheduler="sync")) for bag in expected
    ]
    assert str(records.compute(scheduler="sync")) == str(outside.to_records().compute(scheduler="sync"))
