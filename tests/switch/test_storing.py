"""Arrays are stored in what only the kernel has, and read from HDF5 files, with workers in processes of their own."""

import io

import dask.array as da
import numpy as np
import pytest
import zarr
from device import MARKS
from distributed import LocalCluster

from jupyter_gpudask.client.kernel_client import KernelClient
from jupyter_gpudask.overlay.cell_record import CellRecord
from jupyter_gpudask.switch.context import switched_to
from jupyter_gpudask.switch.default_client import default_client

pytestmark = [*MARKS, pytest.mark.cluster]

NUMBERS = np.arange(24.0).reshape(4, 6)


class OpenFile:
    """A file that cannot be sent to workers, as those of h5py and netCDF4."""

    def __init__(self):
        self.values = np.zeros((4, 6))

    def __setitem__(self, key, value):
        self.values[key] = value

    def __reduce__(self):
        raise TypeError("it cannot be pickled")


class Target:
    """An object of the user, which only has ``__setitem__``."""

    __module__ = "__main__"

    def __init__(self):
        self.written = []

    def __setitem__(self, key, value):
        self.written.append((key, type(value)))


@pytest.fixture(scope="module")
def client():
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
        KernelClient(cluster) as client,
    ):
        yield client


@pytest.fixture(params=["cupy", "numpy"])
def cell(client, request):
    with (
        default_client.computing_on(client),
        switched_to(request.param, "pandas", CellRecord(results="host", fallback="host")),
    ):
        yield


@pytest.fixture
def x(cell):  # noqa: ARG001 - it is made in the cell
    return da.from_array(NUMBERS, chunks=(3, 2)) * 2


def test_targets_in_memory_get_the_values(x, tmp_path):
    array, in_memory = np.zeros((4, 6)), zarr.zeros((4, 6), chunks=(3, 2))
    mapped = np.memmap(tmp_path / "mapped", dtype=float, mode="w+", shape=(4, 6))
    assert da.store([x, x, x], [array, in_memory, mapped]) is None
    mapped.flush()
    for stored in (array, in_memory[:], np.fromfile(tmp_path / "mapped").reshape(4, 6)):
        np.testing.assert_array_equal(stored, NUMBERS * 2)


def test_a_region_and_the_stored_arrays_are_those_of_dask(x):
    target = np.zeros((6, 8))
    stored = x.store(target, regions=(slice(1, 5), slice(0, 6)), return_stored=True)
    np.testing.assert_array_equal(target[1:5, :6], NUMBERS * 2)
    assert not target[0].any()
    assert not target[:, 6:].any()
    assert stored.chunks == x.chunks
    np.testing.assert_array_equal(stored.compute(), NUMBERS * 2)


def test_an_object_of_the_user_gets_blocks_of_numpy(x):
    target = Target()
    da.store(x, target)
    assert len(target.written) == 6
    assert {kind for _, kind in target.written} == {np.ndarray}


def test_a_file_that_cannot_be_sent_to_workers_is_written_by_the_kernel(x):
    target = OpenFile()
    da.store(x, target)
    np.testing.assert_array_equal(target.values, NUMBERS * 2)


def test_zarr_arrays_in_memory_are_written_as_without_a_cluster(x):
    target = zarr.zeros((4, 6), chunks=(2, 3))
    da.to_zarr(x, target)
    np.testing.assert_array_equal(target[:], NUMBERS * 2)


def test_workers_write_into_files_that_they_reach_by_name(x, tmp_path, monkeypatch):
    target = zarr.open(tmp_path / "x.zarr", mode="w", shape=(4, 6), chunks=(3, 2), dtype=float)
    monkeypatch.setattr("jupyter_gpudask.patches.arrays.storing._write", None)
    da.store(x, target)
    np.testing.assert_array_equal(target[:], NUMBERS * 2)


def test_hdf5_files_are_written_and_read(x, tmp_path):
    h5py = pytest.importorskip("h5py")
    da.to_hdf5(tmp_path / "x.h5", {"/x": x, "/y": x.astype("f4")})
    with h5py.File(tmp_path / "x.h5") as file:
        back = da.from_array(file["x"], chunks=(3, 2))
        assert back.dtype == float
        np.testing.assert_array_equal((back + 1).compute(), NUMBERS * 2 + 1)
        np.testing.assert_array_equal(da.from_array(file["y"])[1:, ::2].compute(), NUMBERS[1:, ::2] * 2)


def test_a_file_that_is_open_for_writing_is_read_as_it_is(x, tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = NUMBERS
        assert da.from_array(file["x"], chunks=2).sum().compute() == NUMBERS.sum()
        da.store(x, file["x"])
        np.testing.assert_array_equal(file["x"][:], NUMBERS * 2)


def test_what_was_written_into_an_open_file_after_the_array_was_made_is_read(x, tmp_path, monkeypatch):
    h5py = pytest.importorskip("h5py")
    monkeypatch.chdir(tmp_path)  # the workers have another directory
    with h5py.File("x.h5", "w") as file:
        file["x"] = np.zeros((4, 6))
        back = da.from_array(file["x"], chunks=2)
        file["x"][:] = NUMBERS
        for scheduler in (None, "threads", "sync"):
            assert float(back.sum().compute(scheduler=scheduler)) == NUMBERS.sum()
        da.store(x, file["x"])
        assert float(back.sum().compute()) == NUMBERS.sum() * 2
    assert float(back.sum().compute()) == NUMBERS.sum() * 2


def test_a_file_in_memory_or_a_dataset_without_a_name_is_left_to_dask(cell, tmp_path):  # noqa: ARG001 - in a cell
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "x.h5", "w") as file, h5py.File(io.BytesIO(), "w") as in_memory:
        in_memory["x"] = NUMBERS
        for dataset in (in_memory["x"], file.create_dataset(None, data=NUMBERS)):
            assert float(da.from_array(dataset, chunks=2).sum().compute(scheduler="sync")) == NUMBERS.sum()
