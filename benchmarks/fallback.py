"""Cells whose work runs on the host: on GPUs, beside plain Dask on the cores of the same machine.

python benchmarks/fallback.py --engine cuda --out benchmarks/results/NAME.json
python benchmarks/fallback.py --engine cuda --gpus 2 --only "SciPy;zarr"

What the cells compute, CuPy and cuDF lack; or they read or write files. On GPUs their blocks are copied to the host
and back; plain Dask has them in memory. There are two sides of it: one worker with a thread for each core, and
what `distributed.LocalCluster` chooses, several workers with several threads each, which run Python code
in parallel as well.

Each side runs in a process of its own, one after the other; each cell once to warm up, and then ``--repeat`` times.
The table has the medians, and the ratio of ours to plain Dask with threads: above 1, ours is slower. What the sides
return must agree. It needs SciPy, scikit-learn, Zarr and h5py.
"""

from __future__ import annotations

import math
import os
import shutil
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cloudpickle
import dask.array as da
import dask.dataframe as dd
import h5py
import numpy as np
import pandas as pd
import scipy.ndimage
import scipy.stats
from distributed import wait
from harness import OURS, Process, chosen, header, parser, private_environment, publish
from sklearn.ensemble import RandomForestClassifier

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    Cell = Callable[[Any, Path], float]

THREADS, PROCESSES = "plain Dask, threads", "plain Dask, processes"
CELLS: dict[str, tuple[str, Cell]] = {}


def cell(name: str, given: str) -> Callable[[Cell], Cell]:
    """A cell, whose function gets the `data` of that name and an empty folder, and returns a number."""

    def add(function: Cell) -> Cell:
        CELLS[name] = given, function
        return function

    return add


def data(name: str, *, on_gpus: bool, large: bool) -> Any:
    """What cells get: an ``image`` in 64 blocks, ``rows`` of 20 numbers, a ``frame``, ``chunks``, an ``HDF5 file``.

    The workers make the collections, with the same values on each side, and keep them, on GPUs in device memory.
    """
    if name == "HDF5 file":
        return _hdf5_file(*((12_000, 1_500) if large else (800, 100)))
    if name == "frame":
        made: Any = dd.from_map(_rows_of_frame, range(64), count=50_000 if large else 100)
    else:
        shape, chunks, repeats = {
            "image": ((16_000, 16_000), (2_000, 2_000), 1),
            "rows": ((3_200_000, 20), (50_000, 20), 1),
            "chunks": ((20_000, 20_000), (2_000, 2_000), 4),  # 100 of 32 MB
        }[name]
        if not large:
            shape, chunks = (tuple(max(20, size // 20) for size in sizes) for sizes in (shape, chunks))
        zeros = da.zeros(shape, chunks=chunks)
        made = zeros.map_blocks(_numbers, repeats, dtype=float, meta=np.zeros((0, 0)))
        made = made.to_backend("cupy" if on_gpus else "numpy")
    kept = made.persist()
    wait(kept)
    return kept


def _numbers(block: Any, repeats: int, block_info: Any = None) -> Any:
    """A block of random numbers; with `repeats` above 1 of three digits, so many equal ones beside each other."""
    place = block_info[0]["chunk-location"]
    rows, columns = block.shape
    numbers = np.random.default_rng(place).random((rows, columns // repeats))
    return numbers if repeats == 1 else np.repeat(numbers.round(3), repeats, axis=1)


def _rows_of_frame(part: int, count: int) -> pd.DataFrame:
    rng = np.random.default_rng(part)
    words = np.array(["alpha", "beta", "gamma", "delta"])
    texts = pd.Series(words[rng.integers(0, 4, count)]) + " " + pd.Series(rng.integers(0, 10_000, count)).astype(str)
    return pd.DataFrame({"text": texts, "x": rng.random(count), "y": rng.integers(0, 1000, count)})


def _hdf5_file(side: int, block: int) -> Path:
    path = Path(tempfile.mkdtemp()) / "image.h5"
    values = np.repeat(np.random.default_rng(0).random((side, side // 4)).round(3), 4, axis=1)
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=values, chunks=(block, block), compression="gzip", compression_opts=1)
    return path


@cell("SciPy: distances to the background", "image")
def distances(image: Any, _: Path) -> float:
    return float((image > 0.1).map_blocks(scipy.ndimage.distance_transform_cdt, dtype="i4").mean().compute())


@cell("SciPy: ranks", "image")
def ranks(image: Any, _: Path) -> float:
    return float(image[::2, ::2].map_blocks(scipy.stats.rankdata, axis=1, dtype=float)[:, ::7].std().compute())


@cell("NumPy: a function that asks for arrays of NumPy", "image")
def spreads(image: Any, _: Path) -> float:
    def spread(block: Any) -> Any:
        ordered = np.sort(np.asarray(block), axis=1)
        return ordered - ordered[:, ::-1]

    return float(image.map_blocks(spread, dtype=float).max().compute())


@cell("scikit-learn: predict of a random forest", "rows")
def predict(rows: Any, _: Path) -> float:
    rng = np.random.default_rng(1)
    train = rng.random((2_000, 20))
    forest = RandomForestClassifier(20, random_state=0).fit(train, train[:, 0] + train[:, 1] > 1)
    return float(rows.map_blocks(forest.predict, drop_axis=1, dtype=bool).mean().compute())


@cell("map_partitions: rolling quantile of pandas", "frame")
def rolling(frame: Any, _: Path) -> float:
    def quantiles(part: pd.DataFrame) -> pd.Series:
        return part["x"].rolling(101, min_periods=1).quantile(0.9)

    return float(frame.map_partitions(quantiles, meta=("x", "f8")).mean().compute())


@cell("regular expression with a look-ahead", "frame")
def expression(frame: Any, _: Path) -> float:
    return float(frame["text"].str.contains(r"a (?=\d+7$)", regex=True).sum().compute())


@cell("apply of a Python function", "frame")
def apply(frame: Any, _: Path) -> float:
    def score(text: str) -> int:
        return sum(map(ord, text.rpartition(" ")[2][::-1])) % 7

    return float(frame["text"].apply(score, meta=("text", "i8")).sum().compute())


@cell("zarr: write and read", "chunks")
def zarr(chunks: Any, folder: Path) -> float:
    chunks.to_zarr(str(folder / "array.zarr"))
    return float(da.from_zarr(str(folder / "array.zarr")).mean().compute())


@cell("HDF5: read and decompress", "HDF5 file")
def hdf5(path: Any, _: Path) -> float:
    with h5py.File(path) as file:
        shape, chunks = file["x"].shape, file["x"].chunks
    places = da.zeros(shape, chunks=chunks)

    def read(block: Any, block_info: Any = None) -> Any:
        with h5py.File(path) as file:
            return np.asarray(block) + file["x"][tuple(slice(*part) for part in block_info[0]["array-location"])]

    return float(places.map_blocks(read, dtype=float).mean().compute())


@cell("CSV: write", "frame")
def write_csv(frame: Any, folder: Path) -> float:
    files = frame.to_csv(str(folder / "part-*.csv"))
    return float(sum(Path(file).stat().st_size for file in files))


@contextmanager
def cluster(side: str, engine: str) -> Iterator[Any]:
    """A client of a cluster of this side."""
    from distributed import Client, LocalCluster

    import jupyter_gpudask

    with ExitStack() as stack:
        if side == OURS:
            yield stack.enter_context(jupyter_gpudask.gpu(engine=engine))
            return
        options = {"n_workers": 1, "threads_per_worker": os.cpu_count()} if side == THREADS else {}
        made = stack.enter_context(LocalCluster(dashboard_address="127.0.0.1:0", **options))
        yield stack.enter_context(Client(made))


def measure(side: str, engine: str, repeat: int, names: Sequence[str]) -> Iterator[Any]:
    """Run cells on one side, on one cluster: the name of each, its seconds and what it returned."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # as functions of a notebook
    with cluster(side, engine):
        for given in dict.fromkeys(CELLS[name][0] for name in names):
            kept = data(given, on_gpus=side == OURS and engine == "cuda", large=engine == "cuda")
            for name in (name for name in names if CELLS[name][0] == given):
                try:
                    runs = [_run_once(CELLS[name][1], kept) for _ in range(repeat + 1)]
                    yield name, [seconds for seconds, _ in runs], runs[-1][1]
                except Exception as error:  # noqa: BLE001 - reported in the table
                    yield name, f"{type(error).__name__}: {error}", None
            del kept


def _run_once(function: Cell, given: Any) -> tuple[float, float]:
    folder = Path(tempfile.mkdtemp())
    try:
        start = time.perf_counter()
        value = function(given, folder)
        return time.perf_counter() - start, value
    finally:
        shutil.rmtree(folder)


def compare(names: Sequence[str], options: argparse.Namespace, variables: dict[str, str]) -> dict[str, Any]:
    """For each cell the runs, the medians, the values, and ours divided by plain Dask with threads."""
    table: dict[str, Any] = {name: {"runs": {}, "seconds": {}, "values": {}} for name in names}
    for side in (THREADS, PROCESSES, OURS):
        process = Process(measure, variables, side=side, engine=options.engine, repeat=options.repeat, names=names)
        for name, runs, value in process:
            print(f"{side}: {name}: {runs}", file=sys.stderr, flush=True)
            table[name]["runs"][side], table[name]["values"][side] = runs, value
            if isinstance(runs, list):
                table[name]["seconds"][side] = statistics.median(runs[1:] or runs)
        process.end()
    for row in table.values():
        values = [value for value in row["values"].values() if value is not None]
        row["agrees"] = bool(values) and all(math.isclose(value, values[0], rel_tol=1e-9) for value in values)
        if row["seconds"].keys() >= {OURS, THREADS}:
            row["ratio"] = round(row["seconds"][OURS] / row["seconds"][THREADS], 2)
    return table


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--gpus", type=int, help="use the first GPUS of the visible GPUs; without it, all of them")
    made.add_argument("--repeat", type=int, default=3)
    options = made.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        table = compare(chosen(CELLS, options.only), options, private_environment(Path(folder), options.gpus))
    for name, row in table.items():
        sides = [f"{side} {seconds:.4}" for side, seconds in row["seconds"].items()]
        print(f"{name:45} {row.get('ratio', ''):>6}  {'' if row['agrees'] else 'DIFFERS  '}{', '.join(sides)}")
    publish(header() | {"rows": table}, options.out, hide="rows")


if __name__ == "__main__":
    main()
