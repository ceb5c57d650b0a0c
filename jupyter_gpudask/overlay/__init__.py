"""Dask's configuration for one cell: the backends, the options of the cell, and its threads. Runs in the kernel."""
