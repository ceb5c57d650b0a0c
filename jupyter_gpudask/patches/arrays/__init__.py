"""Patches of `dask.array`. Runs in the kernel; functions of blocks run in workers."""
