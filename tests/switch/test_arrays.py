"""The arrays that a cell for GPUs creates, in this process: of CuPy where there is a GPU, of the stand-in elsewhere."""

import copy
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import dask
import dask.array as da
import numpy as np
import pytest
from dask.array import core, dispatch, linspace
from dask.array.lib.stride_tricks import sliding_window_view
from device import MARKS, block_of, cupy
from distributed import Client, wait
from draws import ALL, draw

from jupyter_gpudask.switch.context import switched_to

# NumPy's `random_integers` says so, on the CPU.
pytestmark = [*MARKS, pytest.mark.filterwarnings("ignore:.*Please call randint:DeprecationWarning")]

HOST = np.arange(12.0).reshape(3, 4)
LATER = dask.delayed(np.ones)(3)
STACK = tempfile.TemporaryDirectory()


@pytest.fixture(scope="module", autouse=True)
def stack_on_disk():
    array = core.from_array(HOST, chunks=2)
    core.to_npy_stack(STACK.name, array)
    array.to_zarr(f"{STACK.name}/zarr")
    yield
    STACK.cleanup()


@pytest.fixture(scope="module")
def client():
    with Client(
        processes=False, dashboard_address=":0", threads_per_worker=1, n_workers=1, set_as_default=False
    ) as client:
        yield client


ARRAYS = {
    "arange": lambda: da.arange(20, chunks=5),
    "array": lambda: da.array(HOST),
    "asanyarray": lambda: da.asanyarray(HOST),
    "asarray": lambda: da.asarray(HOST),
    "block": lambda: da.block([[HOST, HOST]]),
    "concatenate": lambda: da.concatenate([HOST, HOST]),
    "diag": lambda: da.diag(np.arange(5.0)),
    "diag of arange": lambda: da.diag(da.arange(5, chunks=2)),
    "diagonal": lambda: da.diagonal(HOST),
    "dstack": lambda: da.dstack([HOST, HOST]),
    "empty": lambda: da.empty((6, 6), chunks=3) * 0,
    "empty_like": lambda: da.empty_like(HOST) * 0,
    "eye": lambda: da.eye(6, chunks=3),
    "fft.fftfreq": lambda: da.fft.fftfreq(9, chunks=3),
    "fft.rfftfreq": lambda: da.fft.rfftfreq(9, chunks=3),
    "from_array": lambda: da.from_array(HOST, chunks=2),
    "from_delayed": lambda: da.from_delayed(LATER, (3,), dtype=float),
    "from_npy_stack": lambda: da.from_npy_stack(STACK.name),
    "from_zarr": lambda: da.from_zarr(f"{STACK.name}/zarr"),
    "fromfunction": lambda: da.fromfunction(lambda i, j: i + j, shape=(4, 4), chunks=2, dtype=float),
    "full": lambda: da.full((6, 6), 7.0, chunks=3),
    "full_like": lambda: da.full_like(HOST, 7),
    "hstack": lambda: da.hstack([HOST, HOST]),
    "indices": lambda: da.indices((3, 4), chunks=2),
    "linspace": lambda: da.linspace(0, 1, 20, chunks=5),
    "linspace bound before": lambda: linspace(0, 1, 20, chunks=5),
    "meshgrid": lambda: da.meshgrid(np.arange(3.0), np.arange(4.0))[0],
    "ones": lambda: da.ones((6, 6), chunks=3),
    "ones_like": lambda: da.ones_like(HOST),
    "ones_like arange": lambda: da.ones_like(da.arange(6, chunks=3)),
    "pad": lambda: da.pad(HOST, 1, mode="edge"),
    "pad ones": lambda: da.pad(da.ones((4, 4), chunks=2), 1, mode="linear_ramp"),
    "stack": lambda: da.stack([HOST, HOST]),
    "tile": lambda: da.tile(HOST, 2),
    "tri": lambda: da.tri(6, chunks=3),
    "tril": lambda: da.tril(da.ones((6, 6), chunks=3)),
    "tril_indices": lambda: da.tril_indices(4)[0],
    "triu_indices": lambda: da.triu_indices(4, chunks=2)[1],
    "vstack": lambda: da.vstack([HOST, HOST]),
    "zeros": lambda: da.zeros((6, 6), chunks=3),
    "zeros_like": lambda: da.zeros_like(HOST),
}


@pytest.mark.parametrize("make", ARRAYS.values(), ids=ARRAYS)
def test_an_array_is_cupy_in_meta_in_blocks_and_in_the_result(make):
    """It has the values of NumPy; its key is never that of the array of NumPy, and always that of an honest repeat."""
    on_cpu = make()
    with switched_to("cupy", "pandas"):
        on_gpu, again = make(), make()
    expected, result = on_cpu.compute(scheduler="sync"), on_gpu.compute(scheduler="sync")
    assert type(on_gpu._meta) is type(result) is type(block_of(on_gpu, (0,) * on_gpu.ndim)) is cupy.ndarray
    assert type(expected) is np.ndarray
    np.testing.assert_array_equal(result.get(), expected)
    assert on_cpu.name != on_gpu.name == again.name


def test_what_is_in_memory_that_is_not_initialized_is_no_part_of_a_name(monkeypatch):
    contents = iter(range(100))
    monkeypatch.setattr(cupy, "empty", lambda shape, dtype=float: cupy.asarray(np.full(shape, next(contents), dtype)))
    with switched_to("cupy", "pandas"):
        for make in (da.ones, da.zeros, da.empty, lambda shape: da.full(shape, 7), lambda _: da.arange(5)):
            assert make((4, 4)).name == make((4, 4)).name
        x = da.arange(5)
        assert da.quantile(x, 0.5).name == da.quantile(x, 0.5).name


@pytest.mark.parametrize("first", ["numpy", "cupy"])
def test_each_backend_gives_its_own_data_when_the_other_is_persisted(client, first):
    draws = {pair: partial(draw, *pair, size=20, chunks=10) for pair in ALL if "multivariate" not in pair[1]}

    def make(backend):
        with switched_to(backend, "pandas"):
            return [make() for make in (ARRAYS | draws).values()]

    with client.as_current():
        kept = client.persist(make(first))
        wait(kept)
        for backend, kind in (("numpy", np.ndarray), ("cupy", cupy.ndarray)):
            results = client.gather(client.compute(make(backend)))
            assert {type(result) for result in results} == {kind}
        del kept


@pytest.mark.parametrize("make", [np.arange(3).astype(str), np.array([None, 1], dtype=object)])
def test_what_cupy_has_no_type_for_stays_on_the_host(make):
    with switched_to("cupy", "pandas"):
        assert type(da.from_array(make, chunks=1)._meta) is np.ndarray


def test_a_collection_from_outside_stays_what_it_is():
    outside = da.ones(4, chunks=2)
    with switched_to("cupy", "pandas"):
        for array in (
            da.asarray(outside),
            da.diag(outside),
            da.diag(v=outside),
            da.stack([outside, outside]),
            da.block([[outside, outside]]),
            da.ones_like(outside),
            da.sum(outside),
        ):
            assert type(array._meta) is np.ndarray
    assert type(da.linspace(0, 1, 5)._meta) is np.ndarray


def test_an_identity_made_in_the_cell_mixes_with_what_else_is_made_there():
    with switched_to("cupy", "pandas"):
        x = da.random.random((20, 20), chunks=10)
        rest = abs((x + da.eye(20, chunks=10)) @ da.eye(20, chunks=10) - x - da.eye(20, chunks=10)).max()
        assert float(rest.compute(scheduler="sync")) < 1e-12


def test_threads_of_one_cell_create_on_its_backend_at_the_same_time():
    with switched_to("cupy", "pandas"), ThreadPoolExecutor(8) as pool:
        copy.deepcopy(dask.config.config)  # which a copy of the whole configuration does not end
        arrays = list(pool.map(lambda _: [da.ones(4), da.arange(4), da.random.random(4), da.eye(4)], range(50)))
        assert {type(array._meta) for made in arrays for array in made} == {cupy.ndarray}
        assert dask.config.get("array.backend") == "cupy"


def test_quantiles_have_the_blocks_that_dask_chooses_so_that_each_fits_in_memory():
    def chunks():
        x = da.ones((4000, 2000), chunks=(500, 2000))
        with dask.config.set({"array.chunk-size": "1MiB"}):
            quantiles = [da.quantile(x, [0.2, 0.5], axis=0), da.median(x, axis=0), da.quantile(x, 0.5, axis=1)]
            quantiles.append(da.quantile(x, 0.5, axis=0, keepdims=True))
        return [quantile.chunks for quantile in quantiles]

    on_cpu = chunks()
    assert len(on_cpu[0][1]) > 1
    with switched_to("cupy", "pandas"):
        assert chunks() == on_cpu


def test_blocks_on_gpus_are_rechunked_by_tasks_and_others_as_dask_chooses(client):
    def way(array, **method):
        graph = array.rechunk((1000, 10), **method).__dask_graph__()
        return "p2p" if any("p2p" in str(key) for key in dict(graph)) else "tasks"

    with client.as_current():
        with switched_to("cupy", "pandas"):
            inside = da.ones((1000, 1000), chunks=(10, 1000))
        outside = da.ones((1000, 1000), chunks=(10, 1000))
        assert (way(inside), way(outside)) == ("tasks", "p2p")
        with dask.config.set({"array.rechunk.method": "p2p"}):
            assert (way(inside), way(outside)) == ("tasks", "p2p")
        assert (way(inside, method="p2p"), way(outside, method="tasks")) == ("tasks", "tasks")


def test_windows_on_gpus_have_larger_blocks_up_to_a_limit():
    """Dask splits blocks of 8 MB, so that the 30 windows of each are no larger than that."""

    def blocks(size, **options):
        x = da.ones((200, size, 100), chunks=(100, size, 100), dtype=float)
        return sliding_window_view(x, 30, axis=0, **options).numblocks[1:]

    def narrow():
        x = da.ones((10, 121), chunks=(2, 121))
        return sliding_window_view(da.pad(x, ((0, 0), (5, 5))), 11, axis=1, automatic_rechunk=True)

    on_cpu, joined = blocks(100), narrow().chunks[1:]
    with switched_to("cupy", "pandas"):
        assert narrow().chunks[1:] == joined, "blocks that are smaller than a window are joined"
        assert narrow().sum().compute(scheduler="sync") == 121 * 11 * 10 - 2 * 10 * sum(range(6))
        on_gpu, larger, unchanged = blocks(100), blocks(10_000), blocks(10_000, automatic_rechunk=False)
        windows = sliding_window_view(da.arange(40, chunks=10).reshape(8, 5), 3, axis=0)
        found = windows.mean(axis=-1).compute(scheduler="sync")
    assert on_cpu[:2] > on_gpu[:2] == unchanged[:2] == (1, 1)
    assert larger[:2] > (1, 1)
    expected = np.lib.stride_tricks.sliding_window_view(np.arange(40).reshape(8, 5), 3, axis=0).mean(axis=-1)
    np.testing.assert_array_equal(cupy.asnumpy(found), expected)


def test_percentiles_are_those_of_dask_whatever_another_library_registers(monkeypatch):
    def other(*_):
        raise AssertionError("another library's")

    monkeypatch.setitem(dispatch.percentile_lookup._lookup, cupy.ndarray, other)
    with switched_to("cupy", "pandas"):
        percentiles = da.percentile(da.arange(101, chunks=50), [25, 50])
    expected = da.percentile(da.arange(101, chunks=50), [25, 50]).compute(scheduler="sync")
    assert percentiles.compute(scheduler="sync").tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("chunks", "depth", "boundary", "tasks"),
    [
        pytest.param((1, 4, 5), {1: 2, 2: 3}, "reflect", 6, id="images"),
        pytest.param((3, 4, 5), {0: 1, 1: 4, 2: 2}, {0: "periodic", 1: "nearest", 2: 7}, 2, id="one block"),
        pytest.param((1, 4, 2), {0: 1, 1: 2, 2: 1}, {0: "nearest", 1: "periodic", 2: 7}, None, id="two axes of blocks"),
        pytest.param((1, 4, 5), {0: 1, 1: 2, 2: (1, 0)}, {0: 5, 1: 9, 2: "none"}, None, id="two numbers"),
        pytest.param((3, 4, 5), {1: 2, 2: (3, 1)}, "none", 1, id="no border"),
    ],
)
def test_borders_are_those_of_dask(chunks, depth, boundary, tasks):
    """In blocks with their borders, before these are cut off, also in the corners; with a task for each block."""
    values = np.arange(60.0).reshape(3, 4, 5)
    expected = da.overlap.overlap(da.from_array(values, chunks), depth, boundary)
    with switched_to("cupy", "pandas"):
        array = da.overlap.overlap(da.from_array(values, chunks).persist(scheduler="sync"), depth, boundary)
        assert array.chunks == expected.chunks
        np.testing.assert_array_equal(cupy.asnumpy(array.compute(scheduler="sync")), expected.compute())
    assert tasks is None or len(array.dask) == tasks


MASK = np.array([True, False] * 6).reshape(3, 4)


@pytest.mark.parametrize(
    "index",
    [
        (np.s_[2:6:4],),
        (..., np.s_[2:6:4]),
        (None, 0, np.s_[-10:-4:4]),
        (0, np.s_[1:9:3]),
        (np.s_[2:6:4], slice(None), [1, 0]),
        (MASK[0, :3], np.s_[2:6:4]),
        (np.s_[6:2:3],),
        (np.s_[7:1:-3],),
    ],
    ids=str,
)
def test_a_slice_with_a_step_has_no_empty_blocks(index):
    values = np.arange(300.0).reshape(10, 10, 3) if isinstance(index[0], slice) else np.arange(30.0).reshape(3, 10)
    expected = values[index]
    with switched_to("cupy", "pandas"):
        part = da.from_array(values, chunks=5)[index]
        found = (part + 1).compute(scheduler="sync")
    assert not expected.size or 0 not in {length for of_axis in part.chunks for length in of_axis}
    np.testing.assert_array_equal(cupy.asnumpy(found), expected + 1)


def test_elements_at_steps_are_assigned():
    numbers = np.arange(10.0)
    with switched_to("cupy", "pandas"):
        array = da.from_array(numbers, chunks=5)
        array[2:6:4] = array[2:6:4] * 2
        found = array.compute(scheduler="sync")
    numbers[2:6:4] *= 2
    np.testing.assert_array_equal(cupy.asnumpy(found), numbers)
