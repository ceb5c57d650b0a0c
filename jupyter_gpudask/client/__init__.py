"""The Dask client of the kernel. Runs in the kernel; needs no IPython."""
