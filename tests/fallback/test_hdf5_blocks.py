"""Blocks of HDF5 and netCDF4 files that go to the GPU are read without HDF5, and are what HDF5 reads."""

import dask.array as da
import device
import numpy as np
import pytest
from blocks import blocks_of
from distributed import get_worker
from distributed.protocol.pickle import dumps, loads

from jupyter_gpudask.fallback import hdf5_blocks, page_locked

h5py = pytest.importorskip("h5py")

pytestmark = device.MARKS

NUMBERS = np.random.default_rng(0).integers(-300, 300, (7, 5, 6)).astype("f8")


@pytest.fixture
def reads(request, monkeypatch):
    """Whether each block was read without HDF5."""
    if device.HAS_GPU:
        monkeypatch.setattr(page_locked, "_LEAST", 1)
    else:
        request.getfixturevalue("pool")
    found, read = [], hdf5_blocks.read

    def noted(*args):
        block = read(*args)
        found.append(block is not None)
        return block

    monkeypatch.setattr(hdf5_blocks, "read", noted)
    monkeypatch.setattr(hdf5_blocks, "_LEAST", 1)
    monkeypatch.setattr(hdf5_blocks, "get_worker", lambda: None)
    return found


def of_dataset(dataset, blocks):
    """An array of a dataset, as a worker gets it."""
    return da.from_array(loads(dumps(hdf5_blocks.Hdf5Dataset(dataset))), chunks=blocks)


def stored(values=NUMBERS, chunks=(3, 2, 6), blocks=(3, 2, 6), file_options=None, **options):
    """An array in an HDF5 file."""

    def make(folder):
        with h5py.File(folder / "x.h5", "w", **(file_options or {})) as file:
            return of_dataset(file.create_dataset("a/x", data=values, chunks=chunks, **options), blocks)

    return make


def opened(change=lambda x: x, engine="netcdf4", group=None, blocks=3, **encoding_of_x):
    """A variable of a netCDF4 file that xarray opens."""

    def make(folder):
        xr = pytest.importorskip("xarray")
        pytest.importorskip({"netcdf4": "netCDF4"}.get(engine, engine))
        values = np.where(NUMBERS > 100, np.nan, NUMBERS)
        data = xr.Dataset({"x": (("time", "y", "z"), values)})
        encoding = {"x": {"chunksizes": (3, 2, 6), **encoding_of_x}}
        data.to_netcdf(folder / "x.nc", engine=engine, group=group, encoding=encoding)
        chunks = blocks and {"time": blocks}
        return change(xr.open_dataset(folder / "x.nc", engine=engine, group=group, chunks=chunks).x).data

    return make


def opened_files(folder):
    xr = pytest.importorskip("xarray")
    files = [folder / str(number) / "x.nc" for number in range(3)]
    for file in files:
        file.parent.mkdir()
        opened(zlib=True)(file.parent)
    return xr.open_mfdataset(files, combine="nested", concat_dim="time", chunks={}).x.data


DIRECT = {
    **{dtype: stored(NUMBERS.astype(dtype), compression="gzip") for dtype in ("i1", "u2", "i8", "f2", "f4")},
    "no filter": stored(),
    "shuffled": stored(compression="gzip", shuffle=True),
    "shuffled bytes": stored(NUMBERS.astype("i1"), compression="gzip", shuffle=True),
    "unlimited": stored(compression="gzip", maxshape=(None, 5, None)),
    "contiguous": stored(chunks=None),
    "contiguous, parts": stored(chunks=None, blocks=(2, 3, 6)),
    "contiguous, row": lambda folder: stored(chunks=None)(folder)[2],
    "contiguous, numbers": stored(NUMBERS.ravel(), chunks=None, blocks=50),
    "latest format": stored(compression="gzip", file_options={"libver": "latest"}),
    "other blocks": stored(compression="gzip", blocks=(4, 3, 6)),
    "blocks of several": stored(compression="gzip", blocks=(6, 5, 6)),
    "part": lambda folder: stored(compression="gzip")(folder)[1:6, 1:],
    "steps": lambda folder: stored(compression="gzip")(folder)[::2, :, 1::2],
    "row": lambda folder: stored(compression="gzip", chunks=(1, 2, 6))(folder)[2],
    "xarray": opened(zlib=True),
    "xarray, not shuffled": opened(zlib=True, shuffle=False),
    "xarray, contiguous": opened(contiguous=True, chunksizes=None),
    "xarray, scaled": opened(dtype="int16", scale_factor=0.5, add_offset=3, _FillValue=-9999, zlib=True),
    "xarray, no fill value": opened(_FillValue=None, zlib=True),
    "xarray, group": opened(group="/a/b", zlib=True),
    "xarray, part": opened(lambda x: x.isel(time=slice(1, 6), y=slice(1, None)), zlib=True),
    "xarray, reversed": opened(lambda x: x.isel(time=slice(None, None, -1)), zlib=True),
    "xarray, h5netcdf": opened(engine="h5netcdf", compression="gzip", shuffle=True),
    "xarray, h5netcdf, scaled": opened(engine="h5netcdf", dtype="int16", scale_factor=0.5, _FillValue=-9999),
    "xarray, several files": opened_files,
}


def with_gaps(folder):
    with h5py.File(folder / "x.h5", "w") as file:
        data = file.create_dataset("x", (7, 5, 6), chunks=(3, 2, 6), dtype="f4", fillvalue=7, compression="gzip")
        data[:3, :2] = 1
        return of_dataset(data, (7, 5, 6))


def with_a_chunk_that_is_not_compressed(folder):
    with h5py.File(folder / "x.h5", "w") as file:
        data = file.create_dataset("a/x", data=NUMBERS, chunks=(7, 5, 6), compression="gzip")
        data.id.write_direct_chunk((0, 0, 0), (NUMBERS * 2).tobytes(), filter_mask=1)
        return of_dataset(data, (7, 5, 6))


def in_two_files(folder):
    with h5py.File(folder / "y.h5", "w") as file:
        file["y"] = NUMBERS
    with h5py.File(folder / "x.h5", "w") as file:
        layout = h5py.VirtualLayout(NUMBERS.shape, "f8")
        layout[...] = h5py.VirtualSource(folder / "y.h5", "y", NUMBERS.shape)
        return of_dataset(file.create_virtual_dataset("x", layout), (7, 5, 6))


def longer_in_one_variable(folder):
    """NetCDF knows from another variable that this one, of which nothing was written there, is longer."""
    xr, netcdf = pytest.importorskip("xarray"), pytest.importorskip("netCDF4")
    with netcdf.Dataset(folder / "x.nc", "w") as file:
        file.createDimension("time", None)
        for name, length in (("x", 3), ("y", 6)):
            file.createVariable(name, "f8", ("time",), zlib=True, chunksizes=(6,))[:] = np.arange(length)
    return xr.open_dataset(folder / "x.nc", chunks={}).x.data


BY_HDF5 = {
    "lzf": stored(compression="lzf"),
    "checksum": stored(compression="gzip", fletcher32=True),
    "shuffled only": stored(shuffle=True),
    "scale and offset": stored(NUMBERS.astype("i4"), scaleoffset=0),
    "booleans": stored(NUMBERS > 0, compression="gzip"),
    "complex": stored(NUMBERS + 1j, compression="gzip"),
    "big-endian": stored(NUMBERS.astype(">f8"), compression="gzip"),
    "user block": stored(compression="gzip", file_options={"userblock_size": 512}),
    "empty": stored(np.zeros((7, 0, 6)), chunks=None, blocks=(7, 0, 6)),
    "small part": stored(chunks=(7, 5, 6), blocks=(1, 5, 6), compression="gzip"),
    "gaps": with_gaps,
    "chunk that is not compressed": with_a_chunk_that_is_not_compressed,
    "in two files": in_two_files,
    "xarray, list of rows": opened(lambda x: x.isel(time=[0, 2, 1]).chunk(), blocks=None, zlib=True),
    "xarray, longer": longer_in_one_variable,
}


@pytest.mark.parametrize("name", [*DIRECT, *BY_HDF5])
def test_blocks_are_what_hdf5_reads(tmp_path, cell, reads, name):
    make = {**DIRECT, **BY_HDF5}[name]
    for folder in ("plain", "cell"):
        (tmp_path / folder).mkdir()
    expected = make(tmp_path / "plain").compute(scheduler="sync")
    cell()
    for place, block in blocks_of(make(tmp_path / "cell")):
        assert block.dtype in {expected.dtype, expected.dtype.newbyteorder("=")}  # CuPy has no other
        np.testing.assert_array_equal(device.cupy.asnumpy(block) if hasattr(block, "get") else block, expected[place])
    assert set(reads) <= {name in DIRECT}
    assert reads or name not in DIRECT


def test_an_error_of_the_file_is_that_of_hdf5(tmp_path, cell, reads):
    cell()
    array = stored(compression="gzip")(tmp_path)
    with h5py.File(tmp_path / "x.h5") as file:
        place = file["a/x"].id.get_chunk_info(0)
    with (tmp_path / "x.h5").open("r+b") as file:
        file.seek(place.byte_offset)
        file.write(bytes(place.size))
    with pytest.raises(OSError, match="filter"):
        list(blocks_of(array))
    assert reads.count(False) == 1


@pytest.mark.parametrize("chunks", [(3, 2, 6), None])
def test_a_file_that_was_written_again_is_read_anew(tmp_path, cell, reads, chunks):
    cell()
    array = stored(NUMBERS, chunks, compression=chunks and "gzip")(tmp_path)
    for factor in (1, 2):
        if factor == 2:
            stored(np.vstack([NUMBERS, NUMBERS]), chunks, compression=chunks and "gzip")(tmp_path)
            array = stored(NUMBERS * factor, chunks, compression=chunks and "gzip")(tmp_path)
        for place, block in blocks_of(array):
            np.testing.assert_array_equal(device.cupy.asnumpy(block), NUMBERS[place] * factor)
    assert set(reads) == {True}


def test_in_a_kernel_hdf5_reads_what_it_has_not_written_yet(tmp_path, cell, reads, monkeypatch):
    xr, netcdf = pytest.importorskip("xarray"), pytest.importorskip("netCDF4")
    monkeypatch.setattr(hdf5_blocks, "get_worker", get_worker)
    opened(zlib=True)(tmp_path)
    cell()
    with netcdf.Dataset(tmp_path / "x.nc", "a") as file:
        file["x"][:] = NUMBERS
        for place, block in blocks_of(xr.open_dataset(tmp_path / "x.nc", engine="netcdf4", chunks={"time": 3}).x.data):
            np.testing.assert_array_equal(device.cupy.asnumpy(block), NUMBERS[place])
    assert not any(reads)
