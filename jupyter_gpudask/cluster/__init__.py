"""The supervised cluster: a process of its own that holds the Dask cluster, and its parent's side.

``python -m jupyter_gpudask.cluster`` is the supervisor. Its parent, a kernel or a Jupyter server, starts it with
`launcher.ClusterProcess` and talks to it in the messages of `jupyter_gpudask.models`.
"""
