"""Rows of dataframes: 80 million rows of Parquet, 200 million strings, and a join of 20 GB that is shuffled."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask.dataframe as dd
import numpy as np
import pandas as pd
from distributed import wait

from . import Seconds, row

if TYPE_CHECKING:
    from collections.abc import Callable

_PARTS = 16
_TEXTS = 100_000


def _parquet(large: bool) -> str:
    return parquet("large" if large else "small", _part, (80_000_000 if large else 400_000) // _PARTS)


def parquet(name: str, make_part: Callable[[int, int], pd.DataFrame], count: int) -> str:
    """A folder of 16 Parquet files of `count` rows, made once; several programs can have ``SPEED_DATA`` in common."""
    folder = Path(os.environ["SPEED_DATA"]) / name
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(dir=folder.parent))
        for part in range(_PARTS):
            make_part(part, count).to_parquet(unfinished / f"part-{part:02}.parquet")
        with suppress(OSError):  # another program was first
            unfinished.rename(folder)
        shutil.rmtree(unfinished, ignore_errors=True)
    return str(folder)


def _part(part: int, count: int) -> pd.DataFrame:
    rng = np.random.default_rng(part)
    return pd.DataFrame({"key": rng.integers(0, 10_000, count), "x": rng.random(count), "y": rng.random(count)})


@row("Parquet: mean by group", files=_parquet)
def group_by(large: bool) -> Any:
    return dd.read_parquet(_parquet(large)).groupby("key").x.mean().compute()


@row("Parquet: merge", files=_parquet)
def merge(large: bool) -> Any:
    frame = dd.read_parquet(_parquet(large))
    means = frame.groupby("key").y.mean().rename("mean").reset_index()
    return frame.merge(means, on="key").x.sum().compute()


@row("Parquet: sort", files=_parquet)
def sort(large: bool) -> Any:
    return dd.read_parquet(_parquet(large)).sort_values("x").head(10)


def _libraries(large: bool) -> tuple[Any, Any]:
    """The libraries of arrays and of dataframes with which a worker makes its own data."""
    if large:
        import cudf
        import cupy

        return cupy, cudf
    return np, pd


def _texts(part: int, count: int, large: bool) -> Any:
    """`count` rows of a text of 12 characters, one of `_TEXTS`, and a number."""
    arrays, frames = _libraries(large)
    random = arrays.random.RandomState(part)
    texts = frames.Series(random.randint(0, _TEXTS, count)).astype(str)
    return frames.DataFrame({"text": "item " + texts.str.zfill(7), "x": random.random_sample(count)})


def _persisted_texts(large: bool) -> Any:
    """200 million rows on GPUs and 400,000 on the CPU, made by the workers and kept by them."""
    count = (200_000_000 if large else 400_000) // _PARTS
    frame = dd.from_map(_texts, range(_PARTS), count=count, large=large, meta=_texts(0, 1, large)).persist()
    wait(frame)
    return frame, count * _PARTS


@row("200 million strings on GPUs, 400,000 on the CPU: value_counts")
def value_counts(large: bool) -> Seconds:
    frame, rows = _persisted_texts(large)
    start = time.perf_counter()
    counts = frame.text.value_counts().compute()
    seconds = time.perf_counter() - start
    assert int(counts.sum()) == rows
    return Seconds(seconds)


@row("200 million strings on GPUs, 400,000 on the CPU: mean by text")
def mean_by_text(large: bool) -> Seconds:
    frame, _ = _persisted_texts(large)
    start = time.perf_counter()
    means = frame.groupby("text").x.mean().compute()
    seconds = time.perf_counter() - start
    assert 0 < len(means) <= _TEXTS
    return Seconds(seconds)


def _keyed(part: int, count: int, total: int, column: str, large: bool) -> Any:
    """`count` rows of a key below `total` and a number."""
    arrays, frames = _libraries(large)
    random = arrays.random.RandomState(part)
    keys = (random.random_sample(count) * total).astype("int64")
    return frames.DataFrame({"key": keys, column: random.random_sample(count)})


@row("mean by group of 100 GB on GPUs, 16 MB on the CPU, made by the workers")
def mean_of_made(large: bool) -> Any:
    parts, count = (100, 62_500_000) if large else (16, 62_500)
    made = {"count": count, "total": 1_000, "column": "x", "large": large}
    frame = dd.from_map(_keyed, range(parts), **made, meta=_keyed(0, 1, 1, "x", large))
    means = frame.groupby("key").x.mean().compute()
    assert len(means) == 1_000
    return means


@row("shuffle join of two frames, 20 GB on GPUs and 13 MB on the CPU")
def shuffle_join(large: bool) -> Any:
    parts, count = (64, 10_000_000) if large else (16, 25_000)
    total = parts * count

    def frame(column: str, first: int) -> Any:
        shape = {"count": count, "total": total, "column": column, "large": large}
        meta = _keyed(0, 1, 1, column, large)
        return dd.from_map(_keyed, range(first, first + parts), **shape, meta=meta)

    joined = frame("x", 0).merge(frame("y", parts), on="key")
    found = float((joined.x * joined.y).sum().compute())
    assert abs(found / total - 0.25) < 0.02, found  # each row has one partner on average
    return found
