"""A function that falls back to the host: which errors count, which arguments are copied, and where its results are."""

import functools
import gc
import pickle
import sys
import weakref
from contextlib import contextmanager
from dataclasses import dataclass
from types import FunctionType, SimpleNamespace

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import sklearn.preprocessing
from blocks import NUMBERS, array, host_only
from dask._collections import new_collection
from dask.dataframe.dask_expr._expr import Elemwise
from dask.dataframe.rolling import CombinedOutput
from device import MARKS, cupy

from jupyter_gpudask.errors import NotOnGpuError
from jupyter_gpudask.fallback import host_call
from jupyter_gpudask.fallback.host_call import HostFallback
from jupyter_gpudask.fallback.log import Fallback, FallbackLog
from jupyter_gpudask.fallback.values import frame_to_gpu

pytestmark = MARKS


CALLS = []


def fails(block):
    if block.size:
        CALLS.append(1)
        raise ValueError(f"no block of {block.shape}")
    return block


def fails_on_the_host_too(block):
    return np.asarray(block).no_such_attribute


def fails_in_its_own_words(block):
    if block.size:
        CALLS.append(1)
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")
    return block


def runs_out_of_memory(block):
    if block.size:
        CALLS.append(1)
        raise MemoryError("Out of memory allocating 8 bytes")
    return block


def test_a_dataframe_that_a_function_makes_of_an_array_stays_one_of_pandas():
    result = HostFallback(lambda block: pd.DataFrame({"a": np.asarray(block)}))(cupy.ones(2))
    assert type(result) is pd.DataFrame


@pytest.mark.parametrize(
    ("function", "error", "text"),
    [
        (fails, ValueError, r"no block of \(2, 2\)"),
        (fails_in_its_own_words, TypeError, "Implicit conversion"),
        (runs_out_of_memory, MemoryError, "Out of memory"),
    ],
)
def test_an_error_of_the_user_is_raised_and_the_function_does_not_run_again(cell, function, error, text):
    log = cell()
    CALLS.clear()
    with pytest.raises(error, match=text):
        array()[:2, :2].map_blocks(function, dtype=float).compute()
    assert (len(CALLS), log()) == (1, {})


def test_what_fails_on_the_cpu_too_raises_the_error_of_the_cpu_alone(cell):
    log = cell()
    with pytest.raises(AttributeError, match=r"'numpy.ndarray' object has no attribute") as failure:
        array().map_blocks(fails_on_the_host_too, dtype=float).compute()
    assert failure.value.__cause__ is None
    assert failure.value.__context__ is None
    assert log() == {}


def test_a_function_for_gpus_alone_raises_the_first_error(cell):
    def for_gpus(block):
        if type(block) is np.ndarray:
            return cupy.ones(2) + block
        return cupy.asarray(np.asarray(block))

    cell()
    with pytest.raises(TypeError, match="Implicit conversion"):
        array().map_blocks(for_gpus, dtype=float).compute()


def changes_its_block(block):
    CALLS.append(type(block))
    block += 1
    return np.asarray(block)


def test_a_function_that_changes_its_block_before_it_fails_does_so_once(cell):
    cell()
    CALLS.clear()
    x = array() + 5
    result = x.map_blocks(changes_its_block, dtype=float, meta=x._meta).compute()
    np.testing.assert_array_equal(result.get(), NUMBERS + 6)
    # The other blocks are not tried on the GPU.
    assert [cupy.ndarray, *[np.ndarray] * 4] == CALLS


def changes_its_block_and_wants_its_place(block, block_info=None):  # Dask calls it from a function of its own
    assert block_info is not None
    block += 1
    return np.asarray(block)


def test_a_function_that_dask_calls_for_the_user_changes_its_block_once(cell):
    cell()
    x = array() + 5
    result = x.map_blocks(changes_its_block_and_wants_its_place, dtype=float, meta=x._meta).compute()
    np.testing.assert_array_equal(result.get(), NUMBERS + 6)


def test_a_function_that_fails_for_a_later_block_alone_changes_it_once(cell):
    def change(block):
        block += 1
        return block if float(block.sum()) < 100 else np.asarray(block)

    cell()
    x = da.from_array(np.array([[100.0, 200], [1, 2], [300, 400]]), chunks=(1, 2)) + 0
    result = x.map_blocks(change, dtype=float, meta=x._meta)
    for block, expected in ((1, [[2, 3]]), (0, [[101, 201]]), (2, [[301, 401]])):
        np.testing.assert_array_equal(result.blocks[block].compute().get(), expected)


def test_copies_keep_the_layout_of_blocks(cell):
    cell()
    x = array().rechunk((3, 4))
    layouts = x.T.map_blocks(
        lambda block: cupy.ones((1, 1)) * block.flags.f_contiguous, chunks=((1,), (1,)), dtype=float
    )
    assert float(layouts.sum().compute()) == 1


def test_delayed_functions_run_once(cell):
    cell()

    @dask.delayed
    def with_side_effects(block):
        CALLS.append(1)
        return np.einsum_path("ij->", block)  # which CuPy has not

    for argument in (array().to_delayed()[0, 0], array().rechunk((3, 4)) + 1):
        CALLS.clear()
        with pytest.raises(TypeError, match="no implementation found"):
            with_side_effects(argument).compute()
        assert len(CALLS) == 1


def scaled_by_a_library_of_the_host(block):
    CALLS.append(type(block))
    return sklearn.preprocessing.scale(block)


def scaled_by_hand(block):
    CALLS.append(type(block))
    return sklearn.preprocessing.scale(block.get())


@pytest.mark.parametrize("kind", [np.ndarray, cupy.ndarray])
def test_a_delayed_function_that_calls_a_library_of_the_host_and_knows_of_no_gpus_gets_blocks_there(cell, kind):
    cell()
    CALLS.clear()
    function = scaled_by_a_library_of_the_host if kind is np.ndarray else scaled_by_hand
    for argument in (array().to_delayed()[0, 0], array().rechunk((3, 4)) + 1):
        value = dask.delayed(lambda block: function(block) + 0)(argument)
        np.testing.assert_array_equal(value.compute(), sklearn.preprocessing.scale(argument.compute().get()))
    assert [kind] * 2 == CALLS


def test_a_failed_attempt_keeps_no_block_alive():
    class Marked(cupy.ndarray):
        pass

    block = cupy.ones(3)
    alive = weakref.ref(block)
    gc.disable()
    try:
        HostFallback(host_only)(block)
        del block
        assert alive() is None
    finally:
        gc.enable()


def test_it_has_the_name_the_token_and_the_signature_of_the_function_and_travels():
    from dask.base import tokenize
    from dask.utils import funcname, has_keyword

    wrapped = HostFallback(changes_its_block_and_wants_its_place, "layer", cell="cell", refuse=True)
    copied = pickle.loads(pickle.dumps(wrapped))  # noqa: S301 - our own
    assert (copied.function, copied.layer, copied.cell, copied.refuse) == (
        changes_its_block_and_wants_its_place,
        "layer",
        "cell",
        True,
    )
    assert tokenize(wrapped) == tokenize(changes_its_block_and_wants_its_place)
    assert (funcname(wrapped), has_keyword(wrapped, "block_info")) == ("changes_its_block_and_wants_its_place", True)


def test_the_log_forgets_the_oldest_cells_and_lines_alone(monkeypatch):
    monkeypatch.setattr("jupyter_gpudask.fallback.log._MOST_CELLS", 2)
    monkeypatch.setattr("jupyter_gpudask.fallback.log._MOST_LINES", 2)
    log = FallbackLog()
    for cell in ("first", "second", "third"):
        for _ in range(3):  # submits, and makes a collection again
            log.note_cell(cell)
            log.note_line(cell, 1, cell)
        log.add(Fallback("sort", cell, cell, "words", 1.0))
    assert [sum(log.blocks_of(cell).values()) for cell in ("first", "second", "third")] == [0, 1, 1]
    assert [log.line_of(cell) for cell in ("first", "second", "third")] == [0, 1, 1]


def test_nested_arguments_and_results_are_moved():
    def several(blocks, *, options):
        np.asarray(options["weights"])
        return {"sum": sum(map(np.asarray, blocks)), "text": "a", "scalar": np.float64(2)}

    result = HostFallback(several)([cupy.ones(2), cupy.ones(2)], options={"weights": cupy.ones(2)})
    assert result["sum"].tolist() == [2, 2]
    assert [type(part) for part in result.values()] == [cupy.ndarray, str, cupy.ndarray]


@dataclass(frozen=True)
class State:
    last: object
    count: int


def test_fields_of_dataclasses_are_moved():
    def doubled(state):
        return State(np.asarray(state.last) * 2, state.count)

    result = HostFallback(doubled)(State(cupy.ones(2), 1))
    assert (type(result.last), result.last.tolist(), result.count) == (cupy.ndarray, [2, 2], 1)


class Cache:
    """Keeps what it was asked for, as the cache of splits of dask-ml's searches."""

    def __init__(self):
        self.kept = {}

    def part(self, block):
        return self.kept.setdefault(len(block), block[:2])


def test_what_an_object_kept_in_the_first_attempt_is_moved_and_the_object_stays_as_it_is():
    def total(cache, block):
        return float(np.asarray(cache.part(block)).sum())

    cache = Cache()
    assert HostFallback(total)(cache, cupy.ones(3)) == 2
    assert type(cache.kept[3]) is cupy.ndarray


def test_tuples_of_dask_are_moved():
    def first(given):
        return type(given)((np.asarray(given[0]), *given[1:]))

    result = HostFallback(first)(CombinedOutput((cupy.ones(2), 1, None)))
    assert (type(result), type(result[0]), *result[1:]) == (CombinedOutput, cupy.ndarray, 1, None)


def test_functions_of_linear_algebra_and_of_the_user_are_called_with_cupys_checks(monkeypatch):
    checks = []

    @contextmanager
    def errstate(*, linalg):
        checks.append(linalg)
        yield
        checks.append("before")

    def solved(_block):
        return checks[-1] if checks else "without"

    block = cupy.ones(2)
    monkeypatch.setitem(sys.modules, "cupyx", SimpleNamespace(errstate=errstate))
    of_numpy, of_dask = (
        FunctionType(solved.__code__, {"checks": checks}, name, None, solved.__closure__) for name in "ab"
    )
    of_numpy.__module__, of_dask.__module__ = "numpy.linalg", "dask.array.core"
    assert HostFallback(of_dask)(block) == "without"
    for function in (of_numpy, functools.partial(of_numpy), solved):
        assert HostFallback(function)(block) == "raise"
        assert checks[-1] == "before"


def test_a_singular_matrix_raises_the_error_of_numpy():
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        HostFallback(np.linalg.inv)(cupy.ones((2, 2)))


class ToCudfBackend:
    """Stands for dask_cudf's expression, whose function moves a partition to the GPU."""

    @staticmethod
    def operation(frame, options):
        assert (list(frame), options) == (["a"], {})
        error = TypeError("Cannot create column with mixed types")
        exec("raise error", {"__name__": "cudf.core.column", "error": error})  # noqa: S102


def test_a_partition_that_cudf_cannot_hold_stays_on_the_host_and_is_reported(monkeypatch):
    reports = []
    monkeypatch.setattr(host_call, "report", reports.append)
    frame = pd.DataFrame({"a": [1, "b"]})
    assert HostFallback(ToCudfBackend.operation, "layer", cell="cell")(frame, {}) is frame
    assert [(each.operation, each.layer, each.reason) for each in reports] == [
        ("from_pandas", "layer", "TypeError: Cannot create column with mixed types")
    ]
    with pytest.raises(NotOnGpuError, match="from_pandas"):
        HostFallback(ToCudfBackend.operation, "layer", refuse=True)(frame, {})


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"n": [1, 2], "t": [None, (1, 2)]}),
        pd.DataFrame({"t": [float("nan"), pd.NA, pd.NaT, (1, 2)]}, dtype=object),
        pd.Series([(1,), (2,)]),
        pd.Series([[1.5], None, [2.5, float("nan")]]),
        pd.DataFrame({"t": [[pd.NaT, pd.Timestamp(0)]]}),
        pd.Series([[], [1, pd.NA]]),
        pd.Series([[pd.Timedelta("1h")]]),
        pd.Series([[pd.Timestamp(0)], None]),
    ],
)
def test_tuples_and_lists_of_times_or_with_missing_values_stay_on_the_host_because_cudf_has_others(frame):
    assert frame_to_gpu(frame) is frame


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([2.0, pd.NA, -0.0], "Float64"),
        ([None, 1.5], "float64"),
        ([None, 2**53 + 1], "Int64"),
        ([None, 2**70], object),
        ([1.5, "a"], object),
        ([pd.NaT, 1.5], object),
    ],
)
def test_objects_that_are_numbers_or_missing_are_moved_as_numbers(monkeypatch, values, dtype):
    monkeypatch.setitem(sys.modules, "cudf", SimpleNamespace(from_pandas=lambda frame: frame))
    column = pd.Series(values, name="a", dtype=object)
    pd.testing.assert_series_equal(frame_to_gpu(column), column.astype(dtype))
    frame = pd.DataFrame({"a": column, "b": 1})
    pd.testing.assert_frame_equal(frame_to_gpu(frame), frame.astype({"a": dtype}))
    assert frame.a.dtype == object


def test_objects_beside_a_column_that_is_all_missing_stay_objects(monkeypatch):
    monkeypatch.setitem(sys.modules, "cudf", SimpleNamespace(from_pandas=lambda frame: frame))
    frame = pd.DataFrame({"a": [1.5], "b": [pd.NA]}, dtype=object)
    assert frame_to_gpu(frame) is frame


class Moved(Elemwise):
    """An expression with the function of dask_cudf, which refuses numbers among strings."""

    _parameters = ["frame", "options"]  # noqa: RUF012 - as in Dask

    @staticmethod
    def operation(frame, options):
        return ToCudfBackend.operation(frame, options) if "b" in frame.a.tolist() else frame


Moved.operation.__qualname__ = "ToCudfBackend.operation"


def test_such_a_partition_is_computed_on_in_a_fused_task(cell):
    log = cell()
    data = pd.DataFrame({"a": [1, 2, 3, "b"]}, dtype=object)
    moved = new_collection(Moved(dd.from_pandas(data, npartitions=2), {}))
    assert moved.map_partitions(lambda part: part.a.astype(str) + "!", meta=("a", object)).compute().tolist() == [
        "1!",
        "2!",
        "3!",
        "b!",
    ]
    assert log() == {"from_pandas": 1}
