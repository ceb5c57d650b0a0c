"""The computations: a sum of normal random numbers, a singular value decomposition, a mean by group and a join.

Each raises an AssertionError if its result is wrong. Functions for the workers are defined inside of others, so that
they are pickled by value: workers that somebody else started do not import this module.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

GROUPS = 1_000
ROW_BYTES = 16
# Of the tables of a join: two for each of eight GPUs; a shuffle has as many tasks as the square of it.
JOIN_PARTS = 16


@dataclass(frozen=True)
class Sizes:
    """How large the computations are, in elements, rows and bytes; and the libraries for arrays and dataframes."""

    cell: int = 500_000
    cell_block: int = 10_000
    svd_rows: int = 8_000_000
    svd_block: int = 20_000
    svd_columns: int = 1_000
    group_bytes: int = 100_000_000_000
    group_parts: int = 100
    join_bytes: int = 20_000_000_000
    large_join_bytes: int = 100_000_000_000
    arrays: str = "cupy"
    frames: str = "cudf"

    def for_warm_up(self) -> Sizes:
        """The same with a tenth of everything but the cell, which warms up in full."""
        return replace(
            self,
            svd_rows=max(self.svd_rows // 10, 4 * self.svd_block),
            group_bytes=self.group_bytes // 10,
            group_parts=max(self.group_parts // 10, 8),
            join_bytes=self.join_bytes // 10,
        )


SMALL = Sizes(
    cell=2_000,
    cell_block=200,
    svd_rows=8_000,
    svd_block=500,
    svd_columns=20,
    group_bytes=16_000_000,
    group_parts=16,
    join_bytes=6_400_000,
    large_join_bytes=12_800_000,
    frames="pandas",
)


def cell(sizes: Sizes) -> None:
    """Sum every second element of every second row of normal random numbers plus 1; 2 TB in the full size."""
    import dask.array as da

    side, block = sizes.cell, sizes.cell_block
    x = da.random.normal(10, 1, size=(side, side), chunks=(block, block))
    _check_sum((x + 1)[::2, ::2].sum().compute(), side)


def verbatim(sizes: Sizes) -> None:
    """The same as published in 2019, where the code names CuPy's generator."""
    import dask.array as da

    cupy = importlib.import_module("cupy")
    side, block = sizes.cell, sizes.cell_block
    rs = da.random.RandomState(RandomState=cupy.random.RandomState)
    x = rs.normal(10, 1, size=(side, side), chunks=(block, block))
    _check_sum((x + 1)[::2, ::2].sum().compute(), side)


def _check_sum(total: Any, side: int) -> None:
    """Six standard deviations of the sum of (side / 2)² numbers from N(11, 1) are allowed."""
    count = (side // 2) ** 2
    assert abs(float(total) - 11 * count) < 6 * count**0.5, f"the sum of {count} numbers is {total}"


def svd(sizes: Sizes) -> None:
    """The singular values of a tall matrix of uniform random numbers."""
    import dask.array as da

    rows, columns = sizes.svd_rows, sizes.svd_columns
    x = da.random.random((rows, columns), chunks=(sizes.svd_block, columns))
    _, s, _ = da.linalg.svd(x)
    s = s.compute()
    # The squares add up to those of the elements, each of mean 1/3 and variance 4/45.
    squares, expected = float((s * s).sum()), rows * columns / 3
    assert s.shape == (columns,), f"{s.shape} singular values"
    assert abs(squares - expected) < 6 * (rows * columns * 4 / 45) ** 0.5, f"the squares add up to {squares}"


def group_by(sizes: Sizes) -> None:
    """Mean by group of a table that the workers make: an integer key with 1,000 values, and a number."""
    rows = sizes.group_bytes // ROW_BYTES // sizes.group_parts
    frame = _from_parts(_random_part(sizes, rows, GROUPS), sizes.group_parts)
    means = frame.groupby("key").x.mean().compute()
    average, expected = float(means.mean()), (rows * sizes.group_parts / 12) ** -0.5
    assert len(means) == GROUPS, f"{len(means)} groups"
    assert abs(average - 0.5) < 6 * max(expected, 1e-5), f"the average of the means is {average}"


def join(sizes: Sizes) -> None:
    """Join two tables that the workers make, three quarters and one quarter of `join_bytes`, by a shuffle of both."""
    _join(sizes, sizes.join_bytes)


def large_join(sizes: Sizes) -> None:
    """The same with `large_join_bytes`."""
    _join(sizes, sizes.large_join_bytes)


def _join(sizes: Sizes, size: int) -> None:
    rows = size // ROW_BYTES // (4 * JOIN_PARTS)
    library = sizes.frames
    left = _from_parts(_random_part(sizes, 3 * rows, rows * JOIN_PARTS), JOIN_PARTS)
    right = _from_parts(_unique_part(sizes, rows), JOIN_PARTS)

    def check(part: Any) -> Any:
        frames = importlib.import_module(library)
        return frames.DataFrame({"rows": [len(part)], "wrong": [int((part.key != part.weight).sum())]})

    # Dask's other shuffle keeps its data as Arrow tables on the host.
    merged = left.merge(right, on="key", shuffle_method="tasks", broadcast=False)
    meta = importlib.import_module(library).DataFrame({"rows": [0], "wrong": [0]})
    found = merged.map_partitions(check, meta=meta).compute()
    joined, wrong = int(found.rows.sum()), int(found.wrong.sum())
    assert (joined, wrong) == (3 * rows * JOIN_PARTS, 0), f"{joined} rows, {wrong} of them wrong"


def _from_parts(part: Callable[..., Any], count: int) -> Any:
    import dask.dataframe as dd

    return dd.from_map(part, range(count), meta=part(0, 1), enforce_metadata=False)


def _random_part(sizes: Sizes, rows: int, keys: int) -> Callable[..., Any]:
    """Keys from 0 to `keys`, and numbers from 0 to 1."""
    arrays, frames = _libraries(sizes)

    def part(number: int, rows: int = rows) -> Any:
        state = importlib.import_module(arrays).random.RandomState(number)
        key = (state.random_sample(rows) * keys).astype("int64")
        return importlib.import_module(frames).DataFrame({"key": key, "x": state.random_sample(rows)})

    return part


def _unique_part(sizes: Sizes, rows: int) -> Callable[..., Any]:
    """Each key once, and a copy of it."""
    arrays, frames = _libraries(sizes)

    def part(number: int, rows: int = rows) -> Any:
        key = importlib.import_module(arrays).arange(number * rows, (number + 1) * rows)
        return importlib.import_module(frames).DataFrame({"key": key, "weight": key})

    return part


def _libraries(sizes: Sizes) -> tuple[str, str]:
    return ("cupy" if sizes.frames == "cudf" else "numpy"), sizes.frames


WORKS: dict[str, Callable[[Sizes], None]] = {
    "cell": cell,
    "verbatim": verbatim,
    "SVD": svd,
    "group-by": group_by,
    "join": join,
    "large join": large_join,
}
