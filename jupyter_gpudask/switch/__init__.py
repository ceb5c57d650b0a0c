"""The switch: which libraries Dask's new collections use, for one cell.

Runs in the kernel; functions of `gpu_libraries` also run in workers. Importing this package does not import Dask:
`context` does, when the first GPU cell runs.
"""
