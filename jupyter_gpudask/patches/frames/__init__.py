"""Patches of `dask.dataframe` and of cuDF. Runs in the kernel; functions of partitions run in workers."""
