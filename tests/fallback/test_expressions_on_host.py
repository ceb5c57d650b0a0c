"""Dataframe operations that run on the host as a whole, and mixed operands. Here cuDF is a subclass of pandas."""

from contextlib import ExitStack

import dask
import dask.dataframe as dd
import pandas as pd
import pytest
from cudf_stand_in import FRAME, Frame, gpu_cell

from jupyter_gpudask.errors import MixedBackendsError, NotOnGpuError
from jupyter_gpudask.fallback.log import Place, fallback_log
from jupyter_gpudask.inspection import frames
from jupyter_gpudask.inspection.placement import place_of, place_of_partitions, to_gpu, to_host
from jupyter_gpudask.overlay import CellRecord, set_outside
from jupyter_gpudask.patches import host_fallback

pytestmark = pytest.mark.usefixtures("cudf_stand_in")

NUMBERS = FRAME[["k", "x"]]
OUTSIDE = dd.from_pandas(NUMBERS, npartitions=3)


@pytest.fixture
def cell():
    """Opens a cell for cuDF with that fallback; gives a function for the operations that it ran on the host."""

    def enter(fallback):
        stack.enter_context(gpu_cell("cupy", fallback=fallback))
        before = fallback_log.blocks.copy()
        return lambda: {place.operation: blocks for place, blocks in (fallback_log.blocks - before).items()}

    with ExitStack() as stack:
        yield enter


def made_in_cell():
    return dd.from_pandas(NUMBERS, npartitions=3)


@pytest.mark.parametrize(
    ("fallback", "lower", "on_host"), [("host", 1.5, {"Clip": 3}), ("host", 2, {}), ("error", 1.5, {})]
)
def test_an_operation_whose_result_differs_is_computed_on_the_host(cell, fallback, lower, on_host):
    ran_on_host = cell(fallback)
    frame = made_in_cell()
    assert place_of(frame) == "gpu"
    result = frame.k.clip(lower)
    assert place_of(result) == "gpu"
    assert ran_on_host() == on_host
    assert result.compute().tolist() == FRAME.k.clip(lower).tolist()
    assert place_of(OUTSIDE.k.clip(lower)) == "host"
    assert ran_on_host() == on_host


@pytest.mark.parametrize(
    ("shuffled", "operation"),
    [
        (lambda frame, other: frame.merge(other, left_on="n", right_on="k", how="right"), "Merge"),
        (lambda frame, other: frame.drop_duplicates(), "DropDuplicates"),
        (lambda frame, other: frame.b.value_counts(), "ValueCounts"),
    ],
)
def test_partitions_of_which_only_some_are_on_the_gpu_are_not_shuffled_there(cell, shuffled, operation):
    """Equal rows have another hash there than on the host: they would not meet."""
    ran_on_host = cell("host")
    mixed = pd.DataFrame({"n": [1, 2, 2, 3], "b": [7, "a", None, 7]})
    other = pd.DataFrame({"k": [2, 3, 4]})
    with dask.config.set({"dataframe.convert-string": False}):
        frame, right = (dd.from_pandas(each, npartitions=2) for each in (mixed, other))
        result = shuffled(to_gpu(frame), right)
    assert operation in ran_on_host()
    assert len(result.compute()) == len(shuffled(mixed, other))


def test_outside_of_cells_the_same_operations_run_on_the_host():
    frame, before = to_gpu(OUTSIDE), fallback_log.blocks.copy()
    outside = set_outside(CellRecord(results="host", fallback="host"))
    try:
        result = frame.k.clip(1.5)
        assert [place.operation for place in fallback_log.blocks - before] == ["Clip"]
        assert place_of(result) == "gpu"
        assert type(result.compute()) is pd.Series
        assert place_of(OUTSIDE.k.clip(1.5)) == "host"
        assert len(fallback_log.blocks - before) == 1
    finally:
        set_outside(outside)


def test_the_line_and_the_reason_are_noted(cell):
    cell("host")
    before = fallback_log.blocks.copy()
    made_in_cell().rename_axis(index={"a": "b"})
    ((place, blocks),) = (fallback_log.blocks - before).items()
    assert isinstance(place, Place)
    assert (place.operation, place.reason, blocks) == ("RenameAxis", "cuDF renames an axis with a name", 3)
    assert place.line > 0


def test_strict_refuses_what_differs(cell):
    cell("strict")
    with pytest.raises(NotOnGpuError, match=r"Clip .*cannot run on the GPU: cuDF rounds the bounds of clip"):
        made_in_cell().k.clip(1.5)


@pytest.mark.parametrize("fallback", ["host", "error", "strict"])
def test_an_error_of_pandas_is_raised_when_the_operation_is_planned(cell, fallback):
    ran_on_host = cell(fallback)
    with pytest.raises(TypeError, match="no dtype"):
        made_in_cell().k.astype("no dtype")
    assert not ran_on_host()


def test_dataframes_are_mixed_if_one_has_come_to_the_host(cell):
    ran_on_host = cell("host")
    frame = made_in_cell()
    on_host = to_host(frame)
    result = frame + on_host
    assert place_of(result) == "host"
    assert ran_on_host() == {"Add": 3}
    assert result.compute().equals(NUMBERS + NUMBERS)
    with pytest.raises(MixedBackendsError):
        frame + OUTSIDE
    cell("strict")
    with pytest.raises(NotOnGpuError, match="the other operand is on the CPU"):
        frame + on_host
    cell("error")
    with pytest.raises(MixedBackendsError):
        frame + on_host


@pytest.mark.parametrize("fallback", ["host", "error", "strict"])
def test_a_frame_of_pandas_that_is_passed_to_an_operation_is_placed_with_the_other_operands(cell, fallback):
    ran_on_host = cell(fallback)
    right = pd.DataFrame({"k": [1, 3], "b": [10, 30]})
    for result in (made_in_cell().merge(right, on="k"), dd.merge(right, made_in_cell(), on="k")):
        assert place_of(result) == "gpu"
        assert {place_of_partitions(part) for part in result.expr.dependencies()} == {"gpu"}
        assert sorted(result.b.compute()) == [10, 10, 30, 30]
    assert not ran_on_host()
    assert place_of(OUTSIDE.merge(right, on="k")) == "host"


def test_an_optimized_dataframe_whose_inputs_are_moved_in_a_fused_task_is_no_mixture(cell):
    cell("host")
    result = (to_host(made_in_cell()) + OUTSIDE).optimize()
    assert place_of(result) == "host"
    assert result.compute().equals(NUMBERS + NUMBERS)


def test_a_number_of_the_host_is_not_moved(cell):
    number = OUTSIDE.x.sum()
    assert place_of(number) == "host"
    cell("host")
    assert host_fallback.frame_to_gpu(number) is number


@pytest.mark.filterwarnings("ignore:Dask currently has limited support")
def test_the_line_of_an_array_of_a_dataframe_is_known(cell):
    cell("host")
    array = made_in_cell().x.values  # noqa: PD011 - of Dask
    assert place_of(array) == "gpu"
    assert fallback_log.line_of(array.name) > 0
    texts = dd.from_pandas(FRAME, npartitions=3).name.values  # noqa: PD011
    assert place_of(texts) == "host"


def test_partitions_whose_dtypes_cudf_lacks_stay_on_the_host(cell, monkeypatch):
    def partition_to_gpu(_):
        error = NotImplementedError("PeriodDtype")
        exec("raise error", {"__name__": "cudf.core.column", "error": error})  # noqa: S102

    partition_to_gpu.__qualname__ = "partition_to_gpu"
    monkeypatch.setattr(frames, "partition_to_gpu", partition_to_gpu)
    months = pd.DataFrame({"month": pd.period_range("2020-01", periods=4, freq="M")})
    ran_on_host = cell("host")
    result = dd.from_pandas(months, npartitions=2)
    assert result.compute().equals(months)
    assert sum(ran_on_host().values()) == 2
    assert result[result.month > "2020-02"].compute().equals(months[2:])
    cell("error")
    with pytest.raises(NotImplementedError, match="PeriodDtype"):
        dd.from_pandas(months, npartitions=2).compute()


def test_a_result_of_the_host_is_moved_to_the_gpu(cell):
    cell("host")
    result = to_gpu(to_host(made_in_cell()) + 1)
    assert type(result.compute()) is Frame
