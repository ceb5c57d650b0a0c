"""Arrays are stored in what only the kernel has, and read from HDF5 files, with workers in processes of their own."""

import io
import uuid

import dask
import dask.array as da
import numpy as np
import pytest
import zarr
from device import MARKS, cupy
from distributed import LocalCluster, wait
from helpers import small_disk, wait_until

from jupyter_gpudask.client.kernel_client import KernelClient
from jupyter_gpudask.overlay import CellRecord
from jupyter_gpudask.patches.arrays import storing
from jupyter_gpudask.switch.context import default_client, switched_to

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


class InMemory:
    """An object of an imported module, which can be sent to workers."""

    def __init__(self):
        self.values = np.zeros((4, 6))

    def __setitem__(self, key, value):
        self.values[key] = value


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


def in_memory(store=None):
    return zarr.create_array(store or zarr.storage.MemoryStore(), shape=(4, 6), chunks=(3, 2), dtype=float)


# Each is given a folder, and the function gives what has been stored in it.
TARGETS = {
    "NumPy": (lambda _: np.zeros((4, 6)), np.asarray),
    "CuPy": (lambda _: cupy.zeros((4, 6)), cupy.asnumpy),
    "file in memory": (lambda folder: np.memmap(folder / "x", float, "w+", shape=(4, 6)), np.asarray),
    "Zarr": (lambda _: zarr.zeros((4, 6), chunks=(3, 2)), np.asarray),
    "memory of fsspec": (
        lambda _: in_memory(zarr.storage.FsspecStore.from_url(f"memory://{uuid.uuid4()}")),
        np.asarray,
    ),
    "wrapped": (lambda _: in_memory(zarr.storage.WrapperStore(zarr.storage.MemoryStore())), np.asarray),
    "file that cannot be sent to workers": (lambda _: OpenFile(), lambda target: target.values),
    "object of an imported class": (lambda _: InMemory(), lambda target: target.values),
}


@pytest.mark.parametrize(("make", "stored_in"), TARGETS.values(), ids=TARGETS)
def test_targets_in_memory_get_the_values(x, tmp_path, make, stored_in):
    target = make(tmp_path)
    assert da.store(x, target) is None
    np.testing.assert_array_equal(stored_in(target), NUMBERS * 2)


def test_a_region_and_the_stored_arrays_are_those_of_dask(x):
    target = np.zeros((6, 8))
    stored = x.store(target, regions=(slice(1, 5), slice(0, 6)), return_stored=True)
    again = da.store(x, cupy.zeros((4, 6)), return_stored=True)
    np.testing.assert_array_equal(target[1:5, :6], NUMBERS * 2)
    assert not target[0].any()
    assert not target[:, 6:].any()
    assert stored.chunks == x.chunks
    for each in (stored, again):
        np.testing.assert_array_equal(each.compute(), NUMBERS * 2)


def test_an_object_of_the_user_gets_blocks_of_numpy(x):
    target = Target()
    da.store(x, target)
    assert len(target.written) == 6
    assert {kind for _, kind in target.written} == {np.ndarray}


def test_zarr_arrays_in_memory_are_written_as_without_a_cluster(x):
    target = zarr.zeros((4, 6), chunks=(2, 3))
    da.to_zarr(x, target)
    np.testing.assert_array_equal(target[:], NUMBERS * 2)


def test_an_array_in_a_zip_file_has_one_writer(x, tmp_path):
    with zarr.storage.ZipStore(tmp_path / "x.zip", mode="w") as store:
        da.store(x, in_memory(store))
    with zarr.storage.ZipStore(tmp_path / "x.zip", mode="r") as store:
        np.testing.assert_array_equal(zarr.open_array(store, mode="r")[:], NUMBERS * 2)


@pytest.mark.parametrize(("size", "numbers"), [(2**26, [6]), (100, [2, 2, 2]), (1, [1] * 6)])
def test_small_blocks_are_gathered_together(client, x, monkeypatch, size, numbers):
    def finished(*args):
        blocks = begin(*args)
        wait([future for future, _ in blocks.values()])
        return blocks

    begin, gather, found = storing._blocks, client.gather, []
    monkeypatch.setattr(storing, "_blocks", finished)
    monkeypatch.setattr(storing, "_GATHERED", size)
    monkeypatch.setattr(client, "gather", lambda futures: (found.append(len(futures)), gather(futures))[1])
    target = np.zeros((4, 6))
    da.store(x, target)
    np.testing.assert_array_equal(target, NUMBERS * 2)
    assert found == numbers


def test_what_several_sources_share_is_computed_once(client, cell):  # noqa: ARG001 - in a cell
    number = dask.delayed(draw, pure=False)()
    shared = da.from_delayed(number, (2, 3), float).rechunk((1, 3))
    targets = np.zeros((2, 3)), np.zeros((2, 3))
    da.store([shared, shared + 1], list(targets), retries=1)
    np.testing.assert_array_equal(targets[0] + 1, targets[1])
    wait_until(lambda: not client.futures)


def draw():
    return np.full((2, 3), uuid.uuid4().int % 2**40, float)


def test_targets_of_workers_and_of_the_kernel_in_one_call(x, tmp_path):
    on_disk = zarr.open(tmp_path / "x.zarr", mode="w", shape=(4, 6), chunks=(3, 2), dtype=float)
    array = np.zeros((4, 6))
    first, second = da.store([x, x + 1], [on_disk, array], return_stored=True)
    np.testing.assert_array_equal(first.compute(), NUMBERS * 2)
    np.testing.assert_array_equal(second.compute(), NUMBERS * 2 + 1)
    np.testing.assert_array_equal(on_disk[:] + 1, array)


def test_after_an_error_no_block_is_kept_on_the_cluster(client, x, monkeypatch):
    monkeypatch.setattr(storing, "_GATHERED", 1)  # Dask keeps those that it gathers with the one that has failed

    def fail(block, block_info=None):
        if block_info[0]["chunk-location"] == (1, 2):
            raise ValueError("no")
        return block

    failing = x.map_blocks(fail, dtype=float)
    with pytest.raises(ValueError, match="no") as error:
        da.store(failing, np.zeros((4, 6)))
    wait_until(lambda: {future.status for future in client.futures.values()} <= {"error"})
    assert error.traceback


def test_sources_that_are_no_arrays_are_refused_before_anything_is_written(x):
    target = np.zeros((4, 6))
    with pytest.raises(ValueError, match="must be dask array objects"):
        da.store([x, NUMBERS], [target, np.zeros((4, 6))])
    assert not target.any()


def test_a_warning_says_that_a_later_computation_does_not_reach_a_target_in_memory(x, tmp_path):
    with pytest.warns(UserWarning, match="nothing arrives in it"):
        da.store(x, np.zeros((4, 6)), compute=False)
    later = da.store(
        x, zarr.open(tmp_path / "x.zarr", mode="w", shape=(4, 6), chunks=(3, 2), dtype=float), compute=False
    )
    later.compute()


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


@pytest.mark.parametrize("inline_array", [False, True])
def test_a_file_is_written_after_all_that_is_read_from_it(cell, tmp_path, monkeypatch, inline_array):  # noqa: ARG001
    h5py = pytest.importorskip("h5py")
    numbers = np.random.default_rng(0).integers(0, 1000, (64, 64))
    waited = []
    monkeypatch.setattr(storing, "wait", lambda futures: (waited.append(len(futures)), wait(futures)))
    with h5py.File(tmp_path / "x.h5", "w") as file:
        data = file.create_dataset("x", data=numbers, chunks=(4, 64), compression="gzip", maxshape=(None, None))
        da.store(da.from_array(data, chunks=(4, 64), inline_array=inline_array) * 3, data)
        assert waited == [16]
        np.testing.assert_array_equal(data[:], numbers * 3)
        da.store(da.ones((64, 64), chunks=(4, 64)), data)
    assert waited == [16]


@pytest.mark.usefixtures("cell")
def test_workers_open_a_tiff_file_that_the_kernel_has_open(tmp_path):
    tifffile = pytest.importorskip("tifffile")
    values = np.arange(2 * 3 * 32 * 16, dtype="uint16").reshape(2, 3, 32, 16)
    with tifffile.TiffWriter(tmp_path / "series.tif") as file:
        for series in values:
            file.write(series, tile=(16, 16), photometric="minisblack")
    for series in range(2):
        array = da.from_zarr(tifffile.imread(tmp_path / "series.tif", series=series, aszarr=True))
        np.testing.assert_array_equal((array + 1).compute(), values[series] + 1)
    tifffile.imwrite(tmp_path / "series.tif", values[0] * 2, photometric="minisblack")
    np.testing.assert_array_equal(da.from_zarr(tifffile.imread(tmp_path / "series.tif", aszarr=True)), values[0] * 2)


def test_locks_of_a_file_are_acquired_in_one_order():
    acquired = []

    class LockOfDask:
        """With a name, as Dask's; each task has another object."""

        name = "file"

        def acquire(self):
            acquired.append("cluster")

        def release(self):
            acquired.append("released")

    class LockOfProcess(LockOfDask):
        name = "hdf5"

        def acquire(self):
            acquired.append("process")

    for locks in ([LockOfDask(), LockOfProcess()], [LockOfProcess(), LockOfDask()]):
        acquired.clear()
        with storing.LocksInOrder(locks):
            pass
        assert acquired == ["cluster", "process", "released", "released"]


@pytest.mark.parametrize("engine", ["h5netcdf", "netcdf4"])
def test_threads_of_a_worker_write_one_netcdf_file(tmp_path, engine):
    xr = pytest.importorskip("xarray")
    pytest.importorskip({"netcdf4": "netCDF4"}.get(engine, engine))
    file = tmp_path / "data.nc"
    with (
        LocalCluster(n_workers=1, threads_per_worker=4, dashboard_address="127.0.0.1:0") as cluster,
        KernelClient(cluster) as client,
        default_client.computing_on(client),
        switched_to("numpy", "pandas", CellRecord(results="host", fallback="host")),
    ):
        values = da.arange(64 * 100, chunks=100, dtype="f8").reshape(64, 100)
        xr.Dataset({"x": (("t", "y"), values)}).to_netcdf(file, engine=engine)
    np.testing.assert_array_equal(xr.open_dataset(file, engine=engine).x, np.arange(6400.0).reshape(64, 100))


@pytest.mark.parametrize("engine", ["h5netcdf", "netcdf4"])
def test_a_full_disk_is_the_error_of_a_netcdf_file(tmp_path, engine):
    xr = pytest.importorskip("xarray")
    pytest.importorskip({"netcdf4": "netCDF4"}.get(engine, engine))
    with (
        small_disk(tmp_path / "disk", size="4m") as disk,
        LocalCluster(n_workers=1, threads_per_worker=2, dashboard_address="127.0.0.1:0") as cluster,
        KernelClient(cluster) as client,
        default_client.computing_on(client),
        switched_to("numpy", "pandas", CellRecord(results="host", fallback="host")),
    ):
        data = xr.Dataset({"x": (("t", "y"), da.ones((64, 2**14), chunks=(8, -1)))})
        with pytest.raises(OSError, match=r"^\[Errno 28\] No space left on device: '/.*x\.nc'$"):
            data.to_netcdf(disk / "x.nc", engine=engine)
