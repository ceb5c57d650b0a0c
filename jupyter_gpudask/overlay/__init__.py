"""Dask's configuration for one cell: the backends, what the cell asks for, and its threads. Runs in the kernel."""
