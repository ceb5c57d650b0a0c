"""Find the device of a collection, the user's code that called Dask, and the library that raised an error.

Runs in the kernel; functions of `placement` also run in workers.
"""
