"""Preload module, plugins and handlers of Dask's workers. Runs in each worker, and `exit_report` in its nanny."""
