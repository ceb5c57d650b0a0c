"""Plugins and handlers of Dask's scheduler. Runs in the supervisor, which hosts the scheduler."""
