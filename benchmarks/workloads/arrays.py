"""Rows of arrays: random numbers, reductions, many small tasks, singular values and spilling."""

from __future__ import annotations

import time
from typing import Any

import dask.array as da
from distributed import wait

from . import Seconds, row, without_dask

SEED_CELL = "normal numbers, 2 TB on GPUs and 200 MB on the CPU: (x + 1)[::2, ::2].sum()"


def _seed_size(large: bool) -> tuple[int, int]:
    """The length of the array of the 2 TB cell, and of its blocks, in both directions."""
    return (500_000, 10_000) if large else (5_000, 100)


@row(SEED_CELL)
def seed_cell(large: bool) -> Any:
    size, chunk = _seed_size(large)
    x = da.random.normal(10, 1, size=(size, size), chunks=(chunk, chunk))
    return (x + 1)[::2, ::2].sum().compute()


@without_dask(SEED_CELL)
def seed_loop(large: bool) -> float:
    """A loop tuned by hand: one generator, re-seeded for each block, and a contiguous copy before the sum."""
    size, chunk = _seed_size(large)
    if large:
        import cupy as xp

        method = xp.cuda.curand.CURAND_RNG_PSEUDO_PHILOX4_32_10
        generator = xp.random.RandomState(0, method=method)
    else:
        import numpy as xp  # noqa: ICN001 - or CuPy

        generator = xp.random.RandomState(0)
    total = xp.zeros(())
    for block in range((size // chunk) ** 2):
        generator.seed(block)
        x = generator.normal(10, 1, (chunk, chunk))
        total += xp.ascontiguousarray((x + 1)[::2, ::2]).sum()
    total = float(total)  # waits for the GPU
    assert abs(total / (size // 2) ** 2 - 11) < 0.01, total
    return total


@row("the same with RandomState(RandomState=cupy.random.RandomState)", needs_gpu=True)
def seed_cell_verbatim(large: bool) -> Any:
    import cupy

    size, chunk = _seed_size(large)
    rs = da.random.RandomState(RandomState=cupy.random.RandomState)
    x = rs.normal(10, 1, size=(size, size), chunks=(chunk, chunk))
    return (x + 1)[::2, ::2].sum().compute()


def _normal(large: bool) -> Any:
    size, chunk = (200_000, 10_000) if large else (4_000, 200)
    return da.random.normal(10, 1, size=(size, size), chunks=(chunk, chunk))


@row("mean")
def mean(large: bool) -> Any:
    return _normal(large).mean().compute()


@row("standard deviation")
def standard_deviation(large: bool) -> Any:
    return _normal(large).std().compute()


@row("2,500 tiny tasks: da.ones((2500, 10), chunks=(1, 10)).sum()")
def tiny_tasks(_: bool) -> Any:
    return da.ones((2500, 10), chunks=(1, 10)).sum().compute()


@row("(x + x.T)[1:, 1:].mean(axis=0).sum() in 400 blocks")
def transposed(large: bool) -> Any:
    size, chunk = (40_000, 2_000) if large else (4_000, 200)
    x = da.random.random((size, size), chunks=(chunk, chunk))
    return (x + x.T)[1:, 1:].mean(axis=0).sum().compute()


@row("2,500 blocks of 1 MB persisted, five element-wise steps each")
def element_wise(_: bool) -> Seconds:
    x = da.ones((2500 * 125, 1000), chunks=(125, 1000)).persist()
    wait(x)
    start = time.perf_counter()
    y = (((x + 1) * 2 - 3) ** 2 / 4).persist()
    wait(y)
    return Seconds(time.perf_counter() - start)


@row("SVD")
def svd(large: bool) -> Any:
    rows, chunk, columns = (1_000_000, 20_000, 1_000) if large else (20_000, 500, 50)
    _, s, _ = da.linalg.svd(da.random.random((rows, columns), chunks=(chunk, columns)))
    return s.compute()


@row("singular values of (8000000, 1000) on GPUs, (80000, 50) on the CPU")
def singular_values(large: bool) -> Any:
    rows, chunk, columns = (8_000_000, 20_000, 1_000) if large else (80_000, 500, 50)
    return da.linalg.svd(da.random.random((rows, columns), chunks=(chunk, columns)))[1].compute()


@row("an array 3 times the workers' device memory: persisted, rechunked, reduced", cluster="little memory")
def larger_than_memory(large: bool) -> Any:
    """62 GB where each worker has 20 GB of device memory; 2.6 GB where it has 800 MB of host memory."""
    size, chunk = (88_000, 4_000) if large else (18_000, 1_000)
    x = da.random.random((size, size), chunks=(chunk, chunk)).persist()
    wait(x)
    means = x.rechunk((chunk // 8, size)).mean(axis=1).compute()
    assert means.shape == (size,)
    assert float(abs(means - 0.5).max()) < 0.1
    return means


@row("columns standardized: ((x - x.mean(axis=0)) / x.std(axis=0)).max()")
def standardized(large: bool) -> Any:
    size, chunk = (100_000, 5_000) if large else (4_000, 200)
    x = da.random.random((size, size), chunks=(chunk, chunk))
    return ((x - x.mean(axis=0)) / x.std(axis=0)).max().compute()
