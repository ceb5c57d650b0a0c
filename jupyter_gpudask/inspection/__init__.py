"""On which device a collection is, which code called Dask, and which library raised an error.

Runs in the kernel; functions of `placement` also run in workers.
"""
