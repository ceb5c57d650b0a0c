"""Blocks of Zarr arrays that go to the GPU are read into page-locked memory, and are what Zarr reads."""

import resource

import dask
import dask.array as da
import device
import numpy as np
import pytest
import zarr
from blocks import blocks_of
from dask.array.core import slices_from_chunks
from helpers import small_disk
from numcodecs import Delta, Zlib
from zarr.codecs import BloscCodec, Crc32cCodec, GzipCodec, TransposeCodec, ZstdCodec

from jupyter_gpudask.fallback import page_locked, zarr_blocks

pytestmark = device.MARKS

NUMBERS = np.random.default_rng(0).normal(size=(7, 5)) * 100


@pytest.fixture
def reads(request, monkeypatch):
    """The shapes of the blocks that are read into page-locked memory, and those of all arrays there; of the blocks
    whether they are read without Zarr; and the shapes of chunks that are read for a part of them."""
    if device.HAS_GPU:
        monkeypatch.setattr(page_locked, "_LEAST", 1)
    else:
        request.getfixturevalue("pool")
    blocks, arrays, files, scratch = [], [], [], []

    def noted(function, shapes):
        def call(*args):
            made = function(*args)
            if made is not None:
                shapes.append(getattr(made, "shape", made))
            return made

        return call

    monkeypatch.setattr(zarr_blocks, "_read", noted(zarr_blocks._read, blocks))
    monkeypatch.setattr(zarr_blocks, "_read_files", noted(zarr_blocks._read_files, files))
    monkeypatch.setattr(page_locked, "empty", noted(page_locked.empty, arrays))
    monkeypatch.setattr(page_locked, "scratch", noted(page_locked.scratch, scratch))
    return blocks, arrays, files, scratch


def in_file(folder, values=NUMBERS, chunks=(3, 2), **options):
    array = zarr.create_array(folder / "x.zarr", shape=values.shape, chunks=chunks, dtype=values.dtype, **options)
    array[...] = values
    return array


def in_store(store, **options):
    array = zarr.create_array(store, shape=NUMBERS.shape, chunks=(3, 2), dtype=NUMBERS.dtype, **options)
    array[...] = NUMBERS
    return array


def obstore(url):
    store = pytest.importorskip("obstore.store")
    return zarr.storage.ObjectStore(store.from_url(url, **({"mkdir": True} if url.startswith("file") else {})))


def stored(folder, *args, **options):
    return da.from_zarr(in_file(folder, *args, **options))


def of_dtype(dtype):
    return lambda folder: stored(folder, NUMBERS.astype(dtype))


def with_gaps(fill_value):
    def read(folder):
        array = zarr.create_array(
            folder / "x.zarr", shape=(7, 5), chunks=(3, 2), dtype=type(fill_value), fill_value=fill_value
        )
        array[3:5, 1:3] = 7
        return da.from_zarr(array)

    return read


def opened(folder, make, **encoding):
    """A variable of a dataset that xarray opens."""
    xr = pytest.importorskip("xarray")
    values = np.where(NUMBERS > 100, np.nan, NUMBERS.round())
    made = xr.Dataset({"x": (("time", "y"), values)})
    made.to_zarr(folder, consolidated=False, encoding={"x": {"chunks": (3, 2), **encoding}})
    return make(xr.open_zarr(folder, consolidated=False).x).data


READ = {
    **{dtype: of_dtype(dtype) for dtype in ("bool", "int8", "uint64", "float16", "float32", "complex64")},
    "no codec": lambda folder: stored(folder, compressors=None),
    "zstd": lambda folder: stored(folder, compressors=ZstdCodec()),
    "blosc": lambda folder: stored(folder, compressors=BloscCodec(cname="lz4")),
    "gzip and checksum": lambda folder: stored(folder, compressors=[GzipCodec(), Crc32cCodec()]),
    "transposed": lambda folder: stored(folder, filters=[TransposeCodec(order=(1, 0))]),
    "shards": lambda folder: stored(folder, chunks=(3, 1), shards=(6, 5)),
    "format 2": lambda folder: stored(folder, zarr_format=2),
    "format 2, zlib": lambda folder: stored(folder, zarr_format=2, compressors=Zlib()),
    "format 2, filter": lambda folder: stored(folder, zarr_format=2, filters=[Delta("f8")]),
    "gzip": lambda folder: stored(folder, compressors=GzipCodec()),
    "in memory": lambda folder: da.from_zarr(in_store(zarr.storage.MemoryStore())),
    "fsspec": lambda folder: da.from_zarr(zarr.storage.FsspecStore.from_url(f"file://{in_file(folder).store.root}")),
    "fsspec, in memory": lambda folder: da.from_zarr(in_store(f"memory://{folder}")),
    "obstore": lambda folder: da.from_zarr(in_store(obstore(f"file://{folder}"))),
    "obstore, in memory": lambda folder: da.from_zarr(in_store(obstore("memory://"))),
    "group": lambda folder: da.from_zarr(in_store(str(folder), name="a/b")),
    "file": lambda folder: da.from_zarr(str(in_file(folder).store_path)),
    "gaps": with_gaps(5),
    "gaps of NaN": with_gaps(np.nan),
    "other chunks": lambda folder: stored(folder).rechunk((4, 3)),
    "chunks of several": lambda folder: da.from_zarr(in_file(folder), chunks=(6, 5)),
    "part": lambda folder: stored(folder)[1:6, 1:],
    "steps": lambda folder: stored(folder)[::2, 1::3],
    "row": lambda folder: stored(folder)[2],
    "new axis": lambda folder: stored(folder)[:, None],
    "xarray": lambda folder: opened(folder, lambda x: x, _FillValue=None),
    "xarray, part": lambda folder: opened(folder, lambda x: x.isel(time=slice(1, 6), y=2), _FillValue=None),
    "xarray, steps": lambda folder: opened(folder, lambda x: x.isel(time=slice(None, None, 2)), _FillValue=None),
    "xarray, other chunks": lambda folder: opened(folder, lambda x: x.chunk(time=2), _FillValue=None),
    "xarray, masked": lambda folder: opened(folder, lambda x: x),
    "xarray, scaled": lambda folder: opened(folder, lambda x: x, dtype="int16", scale_factor=0.5, _FillValue=-9999),
}


DECODED = {"xarray, scaled"}

BY_ZARR = {
    *("gzip and checksum", "transposed", "shards", "format 2, filter", "in memory", "fsspec, in memory"),
    "obstore, in memory",
}


@pytest.mark.parametrize("name", READ)
def test_blocks_are_what_zarr_reads_and_are_read_into_page_locked_memory(tmp_path, cell, reads, name):
    expected = READ[name](tmp_path / "plain")
    cell()
    for place, block in blocks_of(READ[name](tmp_path / "cell")):
        assert isinstance(block, device.cupy.ndarray)
        wanted = np.asarray(expected[place])
        assert block.dtype == wanted.dtype
        np.testing.assert_array_equal(device.cupy.asnumpy(block), wanted)
    blocks, arrays, files, scratch = reads
    assert blocks
    assert set(files) == {name not in BY_ZARR}
    # What xarray decodes after that is copied there again, and nothing else.
    assert len(arrays) - len(scratch) == len(blocks) * (1 + (name in DECODED))


OTHERS = {
    "texts": lambda folder: stored(folder, NUMBERS.astype("U5"), zarr_format=2),
    "big-endian": lambda folder: stored(folder, NUMBERS.astype(">f8")),
    "format 2, big-endian": lambda folder: stored(folder, NUMBERS.astype(">f8"), zarr_format=2),
    "times": lambda folder: stored(folder, NUMBERS.astype("M8[s]")),
    "structured": lambda folder: stored(folder, NUMBERS.astype([("a", "i4"), ("b", "f8")]), zarr_format=2),
    "order of Fortran": lambda folder: stored(folder, zarr_format=2, order="F"),
    "list of rows": lambda folder: da.from_array(
        in_file(folder), chunks=(7, 5), getitem=lambda array, key: array.oindex[[0, 4, 2], key[1]]
    )[:3],
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_arrays_are_read_as_before(tmp_path, cell, reads, name):
    expected = OTHERS[name](tmp_path / "plain")
    cell()
    for place, block in blocks_of(OTHERS[name](tmp_path / "cell")):
        np.testing.assert_array_equal(device.cupy.asnumpy(block) if hasattr(block, "get") else block, expected[place])
    assert not reads[0]


@pytest.mark.usefixtures("reads")
@pytest.mark.parametrize("key", [(slice(None, None, 2), 3), (-2, slice(1, -1)), (6, 0)])
def test_parts_with_steps_and_single_places_are_those_of_zarr(tmp_path, key):
    array = in_file(tmp_path)
    np.testing.assert_array_equal(zarr_blocks.Reader(array, array)[key], NUMBERS[key])
    with pytest.raises(IndexError):
        zarr_blocks.Reader(array, array)[7, 0]


def test_an_error_of_the_file_is_that_of_zarr(tmp_path, cell, reads):
    cell()
    array = stored(tmp_path)
    for file in (tmp_path / "x.zarr" / "c").glob("*/*"):
        file.write_bytes(b"damaged")
    with pytest.raises(RuntimeError, match=r"[Zz]std"):
        list(blocks_of(array))
    assert not reads[0]


@pytest.mark.parametrize("codec", [None, ZstdCodec(), BloscCodec(), GzipCodec()])
def test_a_file_with_too_few_or_too_many_elements_is_refused_by_zarr(tmp_path, cell, reads, codec):
    in_file(tmp_path, NUMBERS[:2], chunks=(2, 2), compressors=codec)
    cell()
    for chunks in ((3, 2), (1, 2)):
        array = stored(tmp_path / str(chunks), NUMBERS[:2], chunks=chunks, compressors=codec)
        for file in (tmp_path / str(chunks) / "x.zarr" / "c").glob("*/*"):
            file.write_bytes((tmp_path / "x.zarr" / "c" / "0" / "0").read_bytes())
        with pytest.raises(ValueError, match="reshape"):
            list(blocks_of(array))
    assert not reads[0]


def test_zarr_configured_for_arrays_on_gpus_is_left_as_it_is(tmp_path, cell, reads):
    cell()
    array = stored(tmp_path)
    with zarr.config.set({"ndbuffer": "zarr.buffer.gpu.NDBuffer", "buffer": "zarr.buffer.gpu.Buffer"}):
        assert zarr_blocks._read(zarr.open_array(tmp_path / "x.zarr"), (slice(0, 3), slice(0, 2))) is None
    assert len(list(blocks_of(array))) == len(reads[0]) == 9


@pytest.mark.parametrize("key", [(slice(0, 3), slice(0, 2)), (slice(1, 6), slice(None)), (slice(None), 4), ([0, 4], 1)])
def test_a_target_takes_what_zarr_takes(tmp_path, key):
    plain, array = (in_file(tmp_path / name, zarr_format=2) for name in ("plain", "cell"))
    target = zarr_blocks.with_threads(array)
    assert isinstance(target, zarr_blocks.Target)
    assert dask.base.tokenize(target) == dask.base.tokenize(array)
    plain[key] = target[key] = NUMBERS[key] + 1
    np.testing.assert_array_equal(array[:], plain[:])
    with pytest.raises(ValueError, match=r"shape|elements"):
        target[key] = np.ones((2, 9))


WRITTEN = {
    "no codec": {"compressors": None},
    "default": {},
    "zstd with checksum": {"compressors": ZstdCodec(level=1, checksum=True)},
    "blosc": {"compressors": BloscCodec(cname="zstd", shuffle="bitshuffle")},
    "gzip": {"compressors": GzipCodec()},
    "format 2": {"zarr_format": 2},
    "format 2, zlib": {"zarr_format": 2, "compressors": Zlib()},
    "all chunks": {"config": {"write_empty_chunks": True}},
    "gaps of NaN": {"fill_value": np.nan},
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_task_writes_the_files_that_zarr_writes(tmp_path, monkeypatch, name):
    values = np.vstack([NUMBERS, np.full((3, 5), WRITTEN[name].get("fill_value", 0))])
    values[:3, :2] = values[-1, -1]
    plain, array = (in_file(tmp_path / each, np.ones((10, 5)), **WRITTEN[name]) for each in ("plain", "cell"))
    plain[...] = values
    target = zarr_blocks.with_threads(array)
    monkeypatch.setattr(zarr_blocks, "asyncio", None)
    for place in slices_from_chunks(((3, 6, 1), (4, 1))):
        target[place] = values[place]
    np.testing.assert_array_equal(array[...], values)
    files = [
        {file.relative_to(folder) for file in folder.rglob("*")} for folder in (tmp_path / "plain", tmp_path / "cell")
    ]
    assert files[0] == files[1]


@pytest.mark.parametrize("name", ["shards", "transposed", "part of a chunk"])
def test_zarr_writes_other_blocks(tmp_path, name):
    options = {"shards": {"shards": (6, 4)}, "transposed": {"filters": [TransposeCodec(order=(1, 0))]}}.get(name, {})
    array = in_file(tmp_path, NUMBERS * 0, **options)
    part = (slice(0, 4 if name == "part of a chunk" else 6), slice(0, 4))
    zarr_blocks.with_threads(array)[part] = NUMBERS[part]
    np.testing.assert_array_equal(array[part], NUMBERS[part])


def test_blocks_of_whole_chunks_need_no_lock(tmp_path):
    target = zarr_blocks.with_threads(in_file(tmp_path))
    assert target.has_chunks_of(da.from_array(NUMBERS, chunks=(6, 4)))
    assert not target.has_chunks_of(da.from_array(NUMBERS, chunks=(4, 2)))
    assert not target.has_chunks_of(da.from_array(NUMBERS[:6], chunks=(3, 2)))
    shards = zarr_blocks.with_threads(in_file(tmp_path / "shards", shards=(6, 4)))
    assert not shards.has_chunks_of(da.from_array(NUMBERS, chunks=(3, 2)))


def test_files_that_were_written_before_the_disk_takes_no_more_are_whole(tmp_path):
    values = np.random.default_rng(0).integers(0, 99, (2, 10**6))
    values[0] = 7
    array = zarr.create_array(tmp_path / "x.zarr", shape=values.shape, chunks=(1, 10**6), dtype=int)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10**5, limit[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            zarr_blocks.with_threads(array)[:, :] = values
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert (array[0] == 7).all()
    assert not array[1].any()
    assert not list(tmp_path.rglob("*.partial"))


def test_a_lost_mount_is_an_error_and_nothing_is_written_below_it(tmp_path):
    with small_disk(tmp_path / "disk") as disk:
        target = zarr_blocks.with_threads(in_file(disk))
    with pytest.raises(FileNotFoundError, match=r"disk/x\.zarr'$"):
        target[0:3, 0:2] = NUMBERS[:3, :2]
    assert not list((tmp_path / "disk").iterdir())
