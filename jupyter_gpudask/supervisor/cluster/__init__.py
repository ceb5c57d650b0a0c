"""The Dask cluster of a supervisor: its start, plugins, state, scaling, dashboard and end."""
