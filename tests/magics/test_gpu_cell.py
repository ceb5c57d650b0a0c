"""A `%%gpudask` cell that computes on CuPy arrays, on a real cluster for pretend GPUs, with the stand-in for CuPy."""

import pytest
from conftest import Kernel, fake_gpu_environment


@pytest.fixture(scope="module")
def kernel():
    kernel = Kernel(fake_gpu_environment(cupy=True, FAKE_GPUS="2"))
    kernel.ok("%load_ext jupyter_gpudask")
    kernel.ok("import cupy, dask.array as da\nstarted = %gpudask start\nclient = started.client")
    yield kernel
    kernel.shutdown()


def test_the_cell_gives_cupy_and_the_cells_around_it_numpy(kernel):
    cell = "x = da.random.random((40, 40), chunks=10)\ny = (x + da.eye(40, chunks=10)).mean(axis=0)\ntype(y.compute())"
    assert kernel.ok(cell).value == "numpy.ndarray"
    assert kernel.ok(f"%%gpudask --dataframe pandas\n{cell}").value == "cupy.ndarray"
    assert kernel.ok("type(y.compute()), type(da.ones(3).compute())").value == "(cupy.ndarray, numpy.ndarray)"


def test_the_blocks_on_the_workers_are_cupy(kernel):
    kernel.ok("%%gpudask --dataframe pandas\nkept = da.random.normal(size=(40, 40), chunks=20).persist()")
    kernel.ok("from distributed import wait; wait(kept)")
    kinds = "client.run(lambda dask_worker: [type(value).__module__ for value in dask_worker.data.values()])"
    assert kernel.ok(f"sorted(sum({kinds}.values(), []))").value == str(["cupy"] * 4)


def test_an_array_of_numpy_from_outside_is_refused_beside_them(kernel):
    kernel.ok("outside = da.ones(4, chunks=2)")
    reply = kernel.run("%%gpudask --dataframe pandas\n(da.ones(4, chunks=2) + outside).compute()")
    assert reply.error == "TypeError"
    assert "Unsupported type <class 'numpy.ndarray'>" in reply.error_value
