"""The switch: which libraries Dask's new collections use, for one cell.

Runs in the kernel. Importing this package does not import Dask: `context` does, when the first GPU cell runs.
"""
