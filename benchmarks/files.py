"""Reads, analyses and writes arrays in files: in GPU cells, with plain Dask on the cores, and by hand with CuPy.

python benchmarks/files.py --engine cuda --gigabytes 4 --out benchmarks/results/NAME.json
python benchmarks/files.py --engine cpu --gigabytes 0.1 --only "Zarr;climatology"

Plain Dask is a `distributed.LocalCluster` with a worker of two threads for each two cores. By hand is what users of
CuPy write: a loop over the blocks with a pool of threads that read, in one process; in one side of the reads, with the
GPU buffers of Zarr. All sides start first, and then run each row one after the other: once to warm up, with the files
in the page cache, and then `--repeat` times, of which the median counts. The results of the sides are compared.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from dask.system import CPU_COUNT  # those that this process may use
from harness import BY_HAND, OURS, Process, chosen, header, parser, private_environment, publish

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Work = Callable[[Path], Any]

CORES = "plain Dask on the cores"
WITH_BUFFERS = f"{BY_HAND}, with Zarr's GPU buffers"
CODECS = ("none", "zstd", "blosc-lz4")
TOLERANCE = 1e-3

IMAGE = 2048
ROWS, COLUMNS = 181, 360
"""Of an image, and of the grid of the climate data, in elements."""

STEP = 180
"""Days of a chunk of the climate data."""

NETCDF_FILES = 8


def make(folder: Path, gigabytes: float, names: list[str]) -> None:
    """Write the files of these rows."""
    with ThreadPoolExecutor(CPU_COUNT) as pool, ThreadPoolExecutor(3) as kinds:
        made = []
        if any("Zarr" in name for name in names):
            made.append(kinds.submit(_make_zarr, folder, gigabytes, pool))
        if any("images" in name for name in names):
            made.append(kinds.submit(_make_images, folder, gigabytes / 2, pool))
        if any("netCDF" in name for name in names):
            made.append(kinds.submit(_make_netcdf, folder, gigabytes))
        if not all(any(kind in name for kind in ("Zarr", "images", "netCDF")) for name in names):
            made.append(kinds.submit(_make_climate, folder, gigabytes))
        for each in made:
            each.result()


def _make_zarr(folder: Path, gigabytes: float, pool: ThreadPoolExecutor) -> None:
    import zarr
    from zarr.codecs import BloscCodec, ZstdCodec

    side = 4096 if gigabytes >= 1 else 512
    blocks = max(4, int(gigabytes * 1e9 / (side**2 * 4)))
    # Few digits, as measured values have; noise in all bits cannot be compressed.
    block = (np.random.default_rng(0).normal(size=(side, side)) * 100).round(0).astype("float32")
    for name, codec in zip(CODECS, (None, ZstdCodec(level=1), BloscCodec(cname="lz4")), strict=True):
        array = zarr.create_array(
            folder / f"{name}.zarr",
            shape=(blocks * side, side),
            chunks=(side, side),
            dtype="float32",
            compressors=codec,
        )

        def write(number: int, array: Any = array) -> None:
            array[number * side : (number + 1) * side] = block + number

        list(pool.map(write, range(blocks)))


def _make_climate(folder: Path, gigabytes: float) -> None:
    import pandas as pd
    import xarray as xr

    days = max(365, int(gigabytes * 1e9 / (ROWS * COLUMNS * 4)))
    values = np.random.default_rng(0).normal(280, 9, (STEP, ROWS, COLUMNS)).round(1).astype("float32")
    values = np.tile(values, (-(-days // STEP), 1, 1))[:days]
    data = xr.Dataset({"t2m": (("time", "lat", "lon"), values)}, {"time": pd.date_range("1980-01-01", periods=days)})
    encoding: dict[str, Any] = {"t2m": {"chunks": (STEP, ROWS, COLUMNS)}}
    data.chunk(time=STEP).to_zarr(folder / "climate.zarr", mode="w", encoding=encoding)


def _make_netcdf(folder: Path, gigabytes: float) -> None:
    days = max(1, round(gigabytes * 1e9 / NETCDF_FILES / (STEP * ROWS * COLUMNS * 4))) * STEP
    with ProcessPoolExecutor(min(CPU_COUNT, NETCDF_FILES), get_context("spawn")) as processes:
        list(processes.map(_write_netcdf, [folder] * NETCDF_FILES, range(NETCDF_FILES), [days] * NETCDF_FILES))


def _write_netcdf(folder: Path, number: int, days: int) -> None:
    import xarray as xr

    values = np.random.default_rng(number).normal(280, 9, (STEP, ROWS, COLUMNS)).round(1).astype("float32")
    variable = ("time", "lat", "lon"), np.tile(values, (days // STEP, 1, 1))
    encoding: dict[str, Any] = {
        "zlib": {"chunksizes": (STEP, ROWS, COLUMNS), "zlib": True, "complevel": 1},
        "contiguous": {"contiguous": True},
    }
    data = xr.Dataset(dict.fromkeys(encoding, variable), {"time": np.arange(days) + number * days})
    data.to_netcdf(folder / f"{number}.nc", engine="netcdf4", encoding=encoding)


def _make_images(folder: Path, gigabytes: float, pool: ThreadPoolExecutor) -> None:
    import tifffile

    size = IMAGE if gigabytes >= 0.5 else 512
    (folder / "images").mkdir()

    def write(number: int) -> None:
        random = np.random.default_rng(number)
        image = random.normal(100, 5, (size, size)).astype("float32")
        for row, column in random.integers(8, size - 8, (size // 16, 2)):
            image[row - 4 : row + 5, column - 4 : column + 5] += 400
        tifffile.imwrite(folder / "images" / f"{number:05}.tif", image.astype("uint16"))

    list(pool.map(write, range(max(4, int(gigabytes * 1e9 / (size**2 * 2))))))


def read_and_reduce(codec: str) -> Work:
    def work(folder: Path) -> Any:
        import dask.array as da

        x = da.from_zarr(str(folder / f"{codec}.zarr"))
        return (x - 1).mean(axis=1).compute()

    return work


def read_by_hand(codec: str, *, gpu_buffers: bool = False) -> Work:
    def work(folder: Path) -> Any:
        import zarr

        xp = _array_module()
        with zarr.config.enable_gpu() if gpu_buffers else ExitStack():
            array = zarr.open_array(folder / f"{codec}.zarr", mode="r")
            side = array.chunks[0]
            places = [slice(start, start + side) for start in range(0, array.shape[0], side)]
            with ThreadPoolExecutor(CPU_COUNT) as pool:
                means = [(xp.asarray(block) - 1).mean(axis=1) for block in pool.map(array.__getitem__, places)]
        return _on_host(xp.concatenate(means))

    return work


def copy_zarr(folder: Path) -> Any:
    import dask.array as da

    target = _target(folder)
    (da.from_zarr(str(folder / "zstd.zarr")) * 2).to_zarr(target, overwrite=True)
    return da.from_zarr(target)[:, ::64].mean(axis=0).compute()


def anomaly(folder: Path) -> Any:
    import xarray as xr

    t2m = xr.open_zarr(folder / "climate.zarr").t2m
    groups = t2m.groupby("time.dayofyear")
    result = (groups - groups.mean()).drop_encoding().chunk(time=STEP)
    target = _target(folder)
    result.rename("anomaly").to_dataset().to_zarr(target, mode="w")
    return xr.open_zarr(target).anomaly.std("time").to_numpy()


def anomaly_by_hand(folder: Path) -> Any:
    import xarray as xr
    import zarr

    xp = _array_module()
    stored = xr.open_zarr(folder / "climate.zarr").t2m
    array = zarr.open_group(folder / "climate.zarr", mode="r")["t2m"]
    step, length = array.chunks[0], array.shape[0]
    places = [slice(start, min(start + step, length)) for start in range(0, length, step)]
    days = xp.asarray(stored.time.dt.dayofyear.to_numpy() - 1)
    with ThreadPoolExecutor(CPU_COUNT) as pool:
        whole = xp.concatenate([xp.asarray(block) for block in pool.map(array.__getitem__, places)])
        mean = xp.zeros((366, *whole.shape[1:]), "float32")
        for day in range(366):
            chosen_days = days == day
            if bool(chosen_days.any()):
                mean[day] = whole[chosen_days].mean(axis=0)
        target = zarr.create_array(_target(folder), shape=whole.shape, chunks=array.chunks, dtype="float32")

        def write(place: slice) -> Any:
            part = whole[place] - mean[days[place]]
            target[place] = _on_host(part)
            return part.sum(axis=0, dtype="float64"), (part**2).sum(axis=0, dtype="float64")

        sums = list(pool.map(write, places))
    total, squares = (sum(parts) / length for parts in zip(*sums, strict=True))
    return _on_host(xp.sqrt(squares - total**2))


def rolling(folder: Path) -> Any:
    import xarray as xr

    t2m = xr.open_zarr(folder / "climate.zarr").t2m
    return t2m.rolling(time=30, center=True).mean().mean("time").to_numpy()


def resample(folder: Path) -> Any:
    import xarray as xr

    return xr.open_zarr(folder / "climate.zarr").t2m.resample(time="MS").mean().std("time").to_numpy()


def quantile(folder: Path) -> Any:
    import xarray as xr

    t2m = xr.open_zarr(folder / "climate.zarr").t2m.chunk(time=-1, lat=61, lon=60)
    return t2m.groupby("time.month").quantile(0.9).mean("month").to_numpy()


def read_netcdf(name: str) -> Work:
    def work(folder: Path) -> Any:
        import xarray as xr

        files = sorted(folder.glob("*.nc"))
        data = xr.open_mfdataset(files, combine="nested", concat_dim="time", chunks={"time": STEP}, engine="netcdf4")
        return data[name].mean("time").to_numpy()

    return work


def _images(folder: Path) -> Any:
    import tifffile
    from dask.array.image import imread

    return imread(f"{folder}/images/*.tif", imread=tifffile.imread).astype("float32")


def gaussian(folder: Path) -> Any:
    from scipy import ndimage

    images = _images(folder).map_overlap(ndimage.gaussian_filter, {1: 16, 2: 16}, "reflect", sigma=(0, 3, 3))
    return images.max(axis=0).compute()


def median(folder: Path) -> Any:
    from scipy import ndimage

    images = _images(folder).map_overlap(ndimage.median_filter, {1: 2, 2: 2}, "reflect", size=(1, 5, 5))
    return images.mean(axis=0).compute()


def _count(block: Any) -> Any:
    from scipy import ndimage

    return np.array([[[ndimage.label(block[0] > 300)[1]]]])


def label(folder: Path) -> Any:
    return _images(folder).map_blocks(_count, dtype="int64", chunks=(1, 1, 1)).ravel().compute()


def images_by_hand(name: str) -> Work:
    def work(folder: Path) -> Any:
        import tifffile

        xp = _array_module()
        ndimage = _ndimage()
        names = sorted((folder / "images").glob("*.tif"))
        result: Any = None
        counts = []
        with ThreadPoolExecutor(CPU_COUNT) as pool:
            for image in pool.map(tifffile.imread, names):
                block = xp.asarray(image).astype("float32")
                if name == "label":
                    counts.append(int(ndimage.label(block > 300)[1]))
                elif name == "gaussian":
                    block = ndimage.gaussian_filter(block, 3)
                    result = block if result is None else xp.maximum(result, block)
                else:
                    block = ndimage.median_filter(block, 5) / len(names)
                    result = block if result is None else result + block
        return np.array(counts) if name == "label" else _on_host(result)

    return work


WORK: dict[str, dict[str, Work]] = {
    **{
        f"read Zarr, {codec}: (x - 1).mean(axis=1)": {
            OURS: read_and_reduce(codec),
            CORES: read_and_reduce(codec),
            BY_HAND: read_by_hand(codec),
            WITH_BUFFERS: read_by_hand(codec, gpu_buffers=True),
        }
        for codec in CODECS
    },
    "copy Zarr, zstd: (x * 2).to_zarr": {OURS: copy_zarr, CORES: copy_zarr},
    "images: gaussian": {OURS: gaussian, CORES: gaussian, BY_HAND: images_by_hand("gaussian")},
    "images: median": {OURS: median, CORES: median, BY_HAND: images_by_hand("median")},
    "images: threshold and label": {OURS: label, CORES: label, BY_HAND: images_by_hand("label")},
    **{f"read netCDF4, {name}": {OURS: read_netcdf(name), CORES: read_netcdf(name)} for name in ("zlib", "contiguous")},
    "resample to months": {OURS: resample, CORES: resample},
    "climatology and anomaly by day, written back": {OURS: anomaly, CORES: anomaly, BY_HAND: anomaly_by_hand},
    "quantile by month": {OURS: quantile, CORES: quantile},
    "rolling mean of 30 days": {OURS: rolling, CORES: rolling},
}


def _target(folder: Path) -> str:
    """A place for one result, empty."""
    place = folder / "written.zarr"
    shutil.rmtree(place, ignore_errors=True)
    return str(place)


def _array_module() -> Any:
    if os.environ.get("FILES_ENGINE") != "cuda":
        return np
    import cupy

    return cupy


def _ndimage() -> Any:
    if os.environ.get("FILES_ENGINE") != "cuda":
        from scipy import ndimage
    else:
        from cupyx.scipy import ndimage
    return ndimage


def _on_host(value: Any) -> Any:
    return value.get() if hasattr(value, "get") else value


@contextmanager
def _cluster(side: str, engine: str) -> Iterator[None]:
    if side == OURS:
        import jupyter_gpudask

        options: dict[str, Any] = {} if engine == "cuda" else {"workers": 1}
        with jupyter_gpudask.gpu(engine=engine, **options):
            yield
    elif side == CORES:
        from distributed import Client, LocalCluster

        workers = max(1, int(CPU_COUNT) // 2)
        with LocalCluster(workers, threads_per_worker=2, dashboard_address="127.0.0.1:0") as made, Client(made):
            yield
    else:
        yield


def measure(side: str, engine: str, folder: str, repeat: int) -> Iterator[Any]:
    """First nothing, when the side has started; then the seconds of the runs, and a file with the result, of each row.

    The names of the rows come line by line from the standard input.
    """
    with _cluster(side, engine):
        yield None
        for line in sys.stdin:
            name, took = line.strip(), []
            try:
                for _ in range(repeat + 1):
                    began = time.perf_counter()
                    result = WORK[name][side](Path(folder))
                    took.append(round(time.perf_counter() - began, 3))
                file = Path(folder, f"result-{len(list(Path(folder).glob('result-*')))}.npy")
                np.save(file, np.asarray(_on_host(result)))
                yield took, str(file)
            except Exception as error:  # noqa: BLE001 - reported in the table
                yield f"{type(error).__name__}: {str(error)[:500]}", None


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--gigabytes", type=float, default=4.0, help="of each array; the images take half of it")
    made.add_argument("--seconds", type=float, default=600.0, help="no row begins later after all sides have started")
    made.add_argument("--repeat", type=int, default=3, help="runs after the first one")
    options = made.parse_args()
    os.environ["FILES_ENGINE"] = options.engine
    names = chosen(list(WORK), options.only)
    rows: dict[str, dict[str, Any]] = {name: {"seconds": {}, "runs": {}} for name in names}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, "files")
        folder.mkdir()
        began = time.monotonic()
        make(folder, options.gigabytes, names)
        _tell(f"files: {time.monotonic() - began:.0f} s")
        variables = private_environment(Path(place))
        sides = list(dict.fromkeys(side for name in names for side in WORK[name]))
        if options.engine == "cpu" and WITH_BUFFERS in sides:
            sides.remove(WITH_BUFFERS)
        given = {"engine": options.engine, "folder": str(folder), "repeat": options.repeat}
        processes = {side: Process(measure, variables, side=side, **given) for side in sides}
        for side, process in processes.items():
            next(process)
            _tell(f"{side}: started after {time.monotonic() - began:.0f} s")
        end = time.monotonic() + options.seconds
        for name, row in rows.items():
            results = {}
            for side in sides:
                if side in WORK[name] and time.monotonic() < end:
                    runs, file = processes[side].ask(name)
                    row["runs"][side], row["seconds"][side] = runs, statistics.median(runs[1:]) if file else runs
                    _tell(f"{name}: {side}: {runs}")
                    if file:
                        results[side] = np.load(file)
            row["largest difference"] = _differences(results)
            _save(options.out, _report(options.gigabytes, rows))  # what follows may take too long
        for process in processes.values():
            process.end()
    rows = {name: row for name, row in rows.items() if row["seconds"]}
    for name, row in rows.items():
        sides_of = ", ".join(f"{side} {seconds}" for side, seconds in row["seconds"].items())
        print(f"{name:50} {sides_of}; difference {row['largest difference']}")
    publish(_report(options.gigabytes, rows), options.out, hide="rows")
    if any(value > TOLERANCE for row in rows.values() for value in row["largest difference"].values()):
        sys.exit("The results differ.")


def _report(gigabytes: float, rows: dict[str, dict[str, Any]]) -> dict[str, Any]:
    measured = {name: row for name, row in rows.items() if row["seconds"]}
    return header() | {"cores": int(CPU_COUNT), "gigabytes": gigabytes, "rows": measured}


def _save(out: Path | None, report: dict[str, Any]) -> None:
    if out:
        out.write_text(json.dumps(report, indent=1))


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _differences(found: dict[str, Any]) -> dict[str, float]:
    """The largest relative difference of each side from plain Dask on the cores."""
    if CORES not in found:
        return {}
    expected = np.asarray(found[CORES], "float64")
    scale = float(np.nanmax(np.abs(expected))) or 1.0
    others = {side: np.asarray(value, "float64") for side, value in found.items() if side != CORES}
    return {side: float(np.nanmax(np.abs(value - expected))) / scale for side, value in others.items()}


if __name__ == "__main__":
    main()
