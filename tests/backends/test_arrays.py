"""The arrays that a cell for GPUs creates, in this process: of CuPy where there is a GPU, of the stand-in elsewhere."""

import dask.array as da
import numpy as np
import pytest
from dask.array import linspace
from device import MARKS, cupy

from jupyter_gpudask.backends import switch

pytestmark = MARKS

HOST = np.arange(12.0).reshape(3, 4)

ARRAYS = {
    "ones": lambda: da.ones((6, 6), chunks=3),
    "zeros": lambda: da.zeros((6, 6), chunks=3),
    "full": lambda: da.full((6, 6), 7.0, chunks=3),
    "arange": lambda: da.arange(20, chunks=5),
    "linspace": lambda: da.linspace(0, 1, 20, chunks=5),
    "linspace bound before": lambda: linspace(0, 1, 20, chunks=5),
    "eye": lambda: da.eye(6, chunks=3),
    "tri": lambda: da.tri(6, chunks=3),
    "diag": lambda: da.diag(np.arange(5.0)),
    "diag of arange": lambda: da.diag(da.arange(5, chunks=2)),
    "indices": lambda: da.indices((3, 4), chunks=2),
    "fromfunction": lambda: da.fromfunction(lambda i, j: i + j, shape=(4, 4), chunks=2, dtype=float),
    "meshgrid": lambda: da.meshgrid(np.arange(3.0), np.arange(4.0))[0],
    "from_array": lambda: da.from_array(HOST, chunks=2),
    "asarray": lambda: da.asarray(HOST),
    "asanyarray": lambda: da.asanyarray(HOST),
    "array": lambda: da.array(HOST),
    "tril": lambda: da.tril(da.ones((6, 6), chunks=3)),
    "ones_like": lambda: da.ones_like(da.arange(6, chunks=3)),
    "RandomState normal": lambda: da.random.RandomState(1).normal(size=(4, 4), chunks=2),
    "RandomState randint": lambda: da.random.RandomState(1).randint(0, 10, size=20, chunks=5),
    "RandomState choice": lambda: da.random.RandomState(1).choice(10, size=20, chunks=5),
    "default_rng standard_normal": lambda: da.random.default_rng(1).standard_normal(size=20, chunks=5),
    "default_rng normal": lambda: da.random.default_rng(1).normal(2, 3, size=20, chunks=5),
    "default_rng integers": lambda: da.random.default_rng(1).integers(0, 10, size=20, chunks=5),
    "default_rng choice": lambda: da.random.default_rng(1).choice(10, size=20, chunks=5),
    "default_rng permutation": lambda: da.random.default_rng(1).permutation(da.arange(20, chunks=5)),
    "default_rng triangular": lambda: da.random.default_rng(1).triangular(0, 1, 2, size=20, chunks=5),
}

SAME_ON_BOTH = {name for name in ARRAYS if "random" not in name.lower() and "rng" not in name}


@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_is_cupy_in_meta_in_blocks_and_in_the_result(name):
    with switch.to("cupy", "pandas"):
        x = ARRAYS[name]()
    assert type(x._meta) is cupy.ndarray
    assert type(x.compute(scheduler="sync")) is cupy.ndarray
    block = x.to_delayed().ravel()[0].compute(scheduler="sync")
    assert type(block) is cupy.ndarray


@pytest.mark.parametrize("name", sorted(SAME_ON_BOTH))
def test_an_array_has_the_values_of_numpy(name):
    expected = ARRAYS[name]().compute(scheduler="sync")
    with switch.to("cupy", "pandas"):
        x = ARRAYS[name]()
    np.testing.assert_array_equal(x.compute(scheduler="sync").get(), expected)
    assert type(expected) is np.ndarray


@pytest.mark.parametrize("name", ARRAYS)
def test_no_key_is_shared_between_numpy_and_cupy_and_an_honest_repeat_keeps_its_own(name):
    on_cpu = ARRAYS[name]()
    with switch.to("cupy", "pandas"):
        on_gpu = ARRAYS[name]()
        again = ARRAYS[name]()
    assert on_cpu.name != on_gpu.name
    assert on_gpu.name == again.name


@pytest.mark.parametrize("name", ["arange", "RandomState normal", "RandomState choice", "RandomState randint"])
@pytest.mark.parametrize("first", ["cpu", "gpu"])
def test_each_backend_gives_its_own_data_when_the_other_is_persisted(name, first):
    from distributed import Client, wait

    def on_gpu():
        with switch.to("cupy", "pandas"):
            return ARRAYS[name]()

    with Client(processes=False, dashboard_address=None, threads_per_worker=1, n_workers=1):
        one, other = (ARRAYS[name], on_gpu) if first == "cpu" else (on_gpu, ARRAYS[name])
        kept = one().persist()
        wait(kept)
        kinds = [type(one().compute()), type(other().compute())]
        del kept
    assert kinds == ([np.ndarray, cupy.ndarray] if first == "cpu" else [cupy.ndarray, np.ndarray])


@pytest.mark.parametrize("make", [np.arange(3).astype(str), np.array([None, 1], dtype=object)])
def test_what_cupy_has_no_type_for_stays_on_the_host(make):
    with switch.to("cupy", "pandas"):
        assert type(da.from_array(make, chunks=1)._meta) is np.ndarray


def test_a_collection_from_outside_stays_what_it_is():
    outside = da.ones(4, chunks=2)
    with switch.to("cupy", "pandas"):
        assert type(da.asarray(outside)._meta) is np.ndarray
        assert type(da.diag(outside)._meta) is np.ndarray
    assert type(da.linspace(0, 1, 5)._meta) is np.ndarray


def test_an_identity_made_in_the_cell_mixes_with_what_else_is_made_there():
    with switch.to("cupy", "pandas"):
        x = da.random.random((20, 20), chunks=10)
        rest = abs((x + da.eye(20, chunks=10)) @ da.eye(20, chunks=10) - x - da.eye(20, chunks=10)).max()
        assert float(rest.compute(scheduler="sync")) < 1e-12
