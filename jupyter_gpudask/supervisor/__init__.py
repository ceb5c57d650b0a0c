"""The supervisor: a process that holds one Dask cluster, ``python -m jupyter_gpudask.supervisor``.

Its parent, a kernel or a Jupyter server, starts it with `launcher.ClusterProcess` and talks to it in the messages of
`jupyter_gpudask.protocol`.
"""
