"""Dask's communication between processes of one user on one machine. Runs in kernel, supervisor and workers."""
