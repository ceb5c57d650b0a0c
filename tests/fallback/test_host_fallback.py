"""What CuPy lacks is computed on the host, block by block, and nothing else is."""

import contextvars
import functools
import operator
import sys
import threading
import types

import dask
import dask.array as da
import dask.bag as db
import numpy as np
import pytest
import toolz
from blocks import NUMBERS, array, host_only
from dask._task_spec import convert_legacy_graph
from device import MARKS, cupy
from helpers import wait_until

from jupyter_gpudask.client.kernel_client import KernelClient
from jupyter_gpudask.errors import NotOnGpuError
from jupyter_gpudask.fallback.host_call import HostFallback
from jupyter_gpudask.fallback.log import fallback_log
from jupyter_gpudask.fallback.tasks import with_fallback
from jupyter_gpudask.fallback.values import _is_installed, is_of_installed_package
from jupyter_gpudask.inspection.placement import place_of
from jupyter_gpudask.overlay import CellRecord
from jupyter_gpudask.patches.apply import patches
from jupyter_gpudask.switch.context import default_client, switched_to

pytestmark = MARKS


def block_id_only(block, block_info=None):
    assert block_info is not None
    return np.asarray(block) + block_info[0]["array-location"][0][0]


@pytest.mark.parametrize(
    ("operation", "expected", "name"),
    [
        (lambda x: x.map_blocks(host_only), NUMBERS, "host_only"),
        (lambda x: x.map_blocks(host_only, dtype=float), NUMBERS, "host_only"),
        (lambda x: x.rechunk((3, 4)).map_blocks(host_only), NUMBERS, "host_only"),
        (lambda x: x.map_blocks(host_only).blocks[0, 0], NUMBERS[:2, :2], "host_only"),
        (lambda x: x.map_blocks(functools.partial(host_only, factor=2)), NUMBERS * 2, "host_only"),
        (lambda x: x.map_blocks(lambda block: np.asarray(block) + 1), NUMBERS + 1, "lambda"),
        (
            lambda x: x.map_blocks(np.vectorize(lambda number: number + 1, otypes=[float])),
            NUMBERS + 1,
            "vectorize_lambda",
        ),
        (lambda x: da.blockwise(host_only, "ij", x, "ij", dtype=float), NUMBERS, "host_only"),
        (lambda x: x.rechunk((3, 4)).map_blocks(host_only, dtype=float), NUMBERS, "host_only"),
        (lambda x: x.sum().map_blocks(host_only, dtype=float), NUMBERS.sum(), "host_only"),
        (lambda x: x.map_overlap(host_only, depth=1, boundary="none"), NUMBERS, "host_only"),
        (lambda x: da.apply_gufunc(host_only, "()->()", x, vectorize=False, output_dtypes=float), NUMBERS, "host_only"),
        (
            lambda x: da.reduction(
                x,
                lambda block, axis, keepdims: np.nansum(np.asarray(block), axis=axis, keepdims=keepdims),
                lambda block, axis, keepdims: np.nansum(block, axis=axis, keepdims=keepdims),
                dtype=float,
            ),
            np.nansum(NUMBERS),
            None,
        ),
        (lambda x: da.nanquantile(x.rechunk((3, 2)), 0.5, axis=0), np.nanquantile(NUMBERS, 0.5, axis=0), None),
        (da.spacing, np.spacing(NUMBERS), "spacing"),
        (lambda x: x.map_blocks(block_id_only, dtype=float), np.add(NUMBERS, [[0], [0], [2]]), "block_id_only"),
        (lambda x: (x + 1).map_blocks(host_only)[:, ::2] * 2, (NUMBERS + 1)[:, ::2] * 2, "host_only"),
    ],
)
@pytest.mark.filterwarnings("ignore:All-NaN")
def test_what_cupy_lacks_is_computed_on_the_host(cell, operation, expected, name):
    log = cell()
    collection = operation(array())
    result = collection.compute()
    assert place_of(collection) == "gpu"
    assert type(result) is cupy.ndarray
    np.testing.assert_allclose(result.get(), expected)
    assert sum(log().values()) > 0
    assert name is None or name in log()


def test_each_block_is_counted_with_its_line_and_the_words_of_the_library(cell):
    before = fallback_log.blocks.copy()
    cell()
    names = {"__name__": "__main__", "array": array, "host_only": host_only}
    code = "x = array()\n\nmapped = x.map_blocks(host_only, dtype=float)\nmapped.sum()"
    exec(compile(code, "cell", "exec"), names)  # noqa: S102 - as a cell of a notebook
    names["mapped"].compute()
    ((place, blocks),) = (fallback_log.blocks - before).items()
    assert (place.operation, place.line, blocks) == ("host_only", 3, 4)
    assert place.reason.startswith("TypeError: Implicit conversion to a NumPy array is not allowed.")
    assert fallback_log.seconds[place] > 0


def test_the_metadata_is_where_the_blocks_are(cell):
    cell()
    mapped = array().map_blocks(host_only)
    assert place_of(mapped) == "gpu"
    assert {place_of(block.compute()) for block in mapped.blocks} == {"gpu"}
    texts = array().map_blocks(lambda block: np.asarray(block).astype(str))
    assert place_of(texts.compute()) == "host"


def test_results_that_the_user_wants_on_the_host_are_not_moved_back(cell):
    log = cell()
    wanted = array().map_blocks(host_only, dtype=float, meta=np.ones((1, 1)))
    added = wanted + NUMBERS
    assert (place_of(added), type(wanted.compute()), type(added.compute())) == ("host", np.ndarray, np.ndarray)
    with_info = array().map_blocks(block_id_only, dtype=float, meta=np.ones((1, 1)))  # called by a function of Dask
    assert type(with_info.compute()) is np.ndarray
    assert log() == {"host_only": 8, "block_id_only": 4}


def test_what_no_gpu_can_hold_stays_on_the_host_and_so_does_what_is_computed_from_it(cell):
    cell()
    objects = da.frompyfunc(lambda a: a + 1, 1, 1)(array())
    for collection in (objects, objects.astype(float)):
        assert (place_of(collection), type(collection.compute())) == ("host", np.ndarray)
    np.testing.assert_array_equal(objects.astype(float).compute(), NUMBERS + 1)


def test_what_cupy_has_runs_on_the_gpu_and_nothing_is_counted(cell):
    log = cell()
    assert float((array()[:, ::3] + 1).sum().compute()) == 27
    assert float(array().map_blocks(lambda block: block * 2)[0, 0].compute()) == 8
    assert log() == {}


def test_the_error_of_the_library_is_raised_if_that_is_set(cell):
    log = cell("error")
    with pytest.raises(TypeError, match="Implicit conversion"):
        array().map_blocks(host_only, dtype=float).compute()
    with pytest.raises(TypeError, match="Implicit conversion"):
        array().map_blocks(host_only).compute()
    assert log() == {}


def test_strict_refuses_in_one_sentence_with_operation_and_line(cell):
    log = cell("strict")
    mapped = array().map_blocks(host_only, dtype=float)
    with pytest.raises(NotOnGpuError) as refusal:
        mapped.compute()
    assert refusal.value.operation == "host_only"
    assert fallback_log.line_of(refusal.value.layer) > 0
    assert "host_only cannot run on the GPU: TypeError: Implicit conversion" in str(refusal.value)
    assert log() == {}


def test_what_cupy_has_no_dtype_for_stays_on_the_host(cell):
    cell()
    result = array().map_blocks(lambda block: np.asarray(block).astype(np.longdouble)).compute()
    assert (type(result), result.dtype) == (np.ndarray, np.longdouble)


def test_threads_of_a_local_scheduler_fall_back_too(cell):
    log = cell()
    with dask.config.set(scheduler="threads"):
        array().map_blocks(host_only, dtype=float).compute()
    assert log() == {"host_only": 4}


def test_outside_of_a_cell_nothing_is_changed(cell):
    log = cell()
    mapped = array().map_blocks(host_only, dtype=float)
    done = []

    def compute():
        with pytest.raises(TypeError, match="Implicit conversion"):
            mapped.compute(scheduler="sync")
        done.append(1)

    import contextvars

    thread = threading.Thread(target=contextvars.Context().run, args=(compute,))
    contextvars.Context().run(thread.start)
    thread.join(60)
    assert (done, log()) == ([1], {})


@pytest.mark.cluster
def test_a_client_submits_the_fallback_and_receives_what_ran_on_the_host():
    with (
        KernelClient(processes=False, n_workers=1, threads_per_worker=2, dashboard_address=":0") as client,
        default_client.computing_on(client),
    ):
        before = fallback_log.blocks.copy()
        first, second = CellRecord(fallback="host"), CellRecord(fallback="host")
        with switched_to("cupy", "pandas", first):
            x = array()
            result = (x.map_blocks(host_only, dtype=float) + 1)[:, 0].sum().compute()
            assert (type(result), float(result)) == (cupy.ndarray, 14)
            kept = x.map_blocks(host_only, dtype=float).persist()
            assert float(kept[0, 0].compute()) == 4
        # The other blocks are computed, and reported, after that result has come.
        wait_until(lambda: sum((fallback_log.blocks - before).values()) >= 2 + 4)
        counted = fallback_log.blocks - before
        assert {place.operation for place in counted} == {"host_only"}
        assert sum(counted.values()) == 2 + 4
        # A report is about the cell that submitted the task, whenever it arrives. Those of other kernels arrive, too.
        client.submit(HostFallback(host_only, "layer", cell="of another kernel"), cupy.ones(2), pure=False).result()
        with switched_to("cupy", "pandas", second):
            (array() + 2).map_blocks(host_only, dtype=float).compute()
        wait_until(lambda: sum(fallback_log.blocks_of(second.id).values()) == 4)
        assert fallback_log.blocks_of(first.id) == counted
        assert sum((fallback_log.blocks - before).values()) == 2 + 4 + 4
        with switched_to("cupy", "pandas", CellRecord(fallback="strict")):
            mapped = (array() + 3).map_blocks(host_only, dtype=float)
            with pytest.raises(NotOnGpuError, match=r"host_only \(line \d+\) cannot run on the GPU"):
                mapped.compute()
        with switched_to("cupy", "pandas", CellRecord()), pytest.raises(TypeError, match="Implicit conversion"):
            (array() + 4).map_blocks(host_only, dtype=float).compute()


def test_a_graph_with_the_fallback_has_the_same_tasks():
    x = da.ones((8, 8), chunks=2)
    for collection in ((x + x.T).sum(axis=0), da.fft.fft(x.rechunk((8, 2)), axis=0)):
        graph = dask.optimize(collection)[0].__dask_graph__()
        with_it = with_fallback(graph)
        assert with_it.keys() == dict(graph).keys()
        plain = convert_legacy_graph(dict(graph))
        assert all(node.dependencies == plain[key].dependencies for key, node in with_it.items())


def square_of_host(number):
    return float(np.asarray(number)) ** 2


square_of_scipy = types.FunctionType(
    square_of_host.__code__, {"float": float, "np": np, "__name__": "scipy.stats._some"}
)


def test_functions_of_scipy_in_delayed_tasks_fall_back_and_those_of_the_user_do_not(cell):
    on_host = cell()
    total = array()[2].sum()
    result = dask.delayed(square_of_scipy)(total) + 1  # as `dask.array.stats` does
    assert float(result.compute()) == NUMBERS[2].sum() ** 2 + 1
    assert on_host() == {"square_of_host": 1}
    with pytest.raises(TypeError, match="Implicit conversion"):
        dask.delayed(square_of_host)(total).compute()


def test_delayed_objects_among_data_fall_back_where_a_task_computes_them(cell):
    on_host = cell()
    squares = [dask.delayed(square_of_scipy)(array()[2].sum() * factor) for factor in (1, 2, 3)]
    bag = db.from_sequence(squares, npartitions=2).map(operator.methodcaller("compute", scheduler="sync"))
    total = bag.sum()  # as of find_objects of dask-image
    for graph in (total.__dask_graph__(), total.__dask_optimize__(total.__dask_graph__(), total.__dask_keys__())):
        outside = contextvars.Context()  # as in a worker
        result = outside.run(dask.get, with_fallback(graph), total.__dask_keys__())
        assert list(result) == [NUMBERS[2].sum() ** 2 * (1 + 4 + 9)]
    assert on_host() == {"square_of_host": 6}


@pytest.fixture
def worker_patches():
    """The patches of a worker, in this process."""
    patches.apply("worker")
    yield
    patches.undo("worker")


@pytest.mark.usefixtures("worker_patches")
def test_a_delayed_function_of_the_user_may_convert_its_blocks(cell):
    on_host = cell()
    total = array()[2].sum()
    calls = []

    def counted(number):
        calls.append(type(number))
        return square_of_host(number)

    squares = [dask.delayed(counted)(total), dask.delayed(OfUser()).square(total)]
    squares += [dask.delayed(counted)(block) for block in (total + 1).to_delayed().ravel()]
    squares += [da.from_delayed(dask.delayed(counted)(total), (), float) + 0]
    sums = NUMBERS[2].sum() + np.array([0, 0, 1, 0])
    assert [float(each.compute()) for each in squares] == (sums**2).tolist()
    assert calls == [cupy.ndarray] * 3
    assert on_host() == {}
    with pytest.raises(TypeError, match="Implicit conversion"):
        np.asarray(cupy.ones(2))


def test_functions_of_installed_packages_in_delayed_tasks_fall_back_alone_and_fused_with_others(cell):
    on_host = cell()
    block = array().to_delayed()[0, 0]
    values = dask.delayed(np.ma.masked_invalid)(block)  # NumPy's function converts the block
    assert (values.compute() == NUMBERS[:2, :2]).all()
    assert (da.from_delayed(values * 2, (2, 2), float).compute() == NUMBERS[:2, :2] * 2).all()
    assert on_host()["masked_invalid"] == 2


def call_all(functions, number):
    return [function(number) for function in functions]


call_all_of_scipy = types.FunctionType(call_all.__code__, {"__name__": "scipy.stats._some"})
CALLS = []


class OfUser:
    """A class of the user, whose method and result of a call have side effects."""

    def square(self, number):
        CALLS.append(type(number))
        return square_of_host(number)

    __call__ = square


@pytest.mark.parametrize(
    "compute",
    [
        lambda number: dask.delayed(OfUser()).square(number),
        lambda number: dask.delayed(operator.call)(dask.delayed(OfUser().square), number),
        lambda number: dask.delayed(call_all_of_scipy)(number=number, functions=[OfUser()]),
        lambda number: dask.delayed(toolz.pipe)(number, dask.delayed(OfUser())),
        lambda number: dask.delayed(call_all_of_scipy)([OfUser()], number),
        lambda number: da.from_delayed(dask.delayed(OfUser()).square(number), (), float) + 1,
    ],
)
def test_a_function_of_an_installed_package_that_calls_one_of_the_user_runs_once(cell, compute):
    cell()
    CALLS.clear()
    with pytest.raises(TypeError, match="Implicit conversion"):
        compute(array()[2].sum()).compute()
    assert [cupy.ndarray] == CALLS


def test_what_a_notebook_has_defined_is_of_the_user_in_a_worker_started_with_python_m(monkeypatch):
    main = types.SimpleNamespace(__spec__=dask.__spec__)  # as of ``python -m distributed.cli.dask_worker``
    for name in ("__main__", "__mp_main__"):
        monkeypatch.setitem(sys.modules, name, main)
        assert not is_of_installed_package(types.FunctionType(square_of_host.__code__, {"__name__": name}))


def test_what_was_sent_by_value_is_of_its_package_though_that_is_not_imported(monkeypatch):
    for name, is_installed in (("toolz", True), ("no_package_of_this_name", False)):
        monkeypatch.delitem(sys.modules, name, raising=False)
        function = types.FunctionType(square_of_host.__code__, {"__name__": f"{name}.inside"})
        _is_installed.cache_clear()
        assert is_of_installed_package(function) == is_installed


class Estimator(types.SimpleNamespace):
    """A subclass of a class of a package."""


@pytest.mark.parametrize(
    ("function", "is_installed"),
    [
        (np.asarray, True),
        (np.sin, True),
        (len, True),
        (operator.methodcaller("sum"), True),
        (functools.partial(np.sum, axis=0), True),
        (square_of_scipy, True),
        (square_of_host, False),
        (functools.partial(square_of_host), False),
        (functools.partial(np.apply_along_axis, square_of_host), False),
        (functools.wraps(np.sum)(lambda values: values), False),
        (functools.lru_cache(square_of_host), False),
        (np.vectorize(square_of_host), False),
        (np.vectorize(len), True),
        (np.random.default_rng(0).normal, True),
        (Estimator().__eq__, False),
        (dask.delayed(np.sum)([1]), True),
    ],
)
def test_what_a_function_of_an_installed_package_is(function, is_installed):
    assert is_of_installed_package(function) == is_installed
