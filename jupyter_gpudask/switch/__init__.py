"""The switch: which library Dask's collections are made of, for one cell. Runs in the kernel.

It imports no Dask by itself: `context` does, when the first cell for GPUs runs.
"""
