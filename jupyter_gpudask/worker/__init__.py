"""What runs in each Dask worker: preload, plugins and handlers."""
