"""The supervisor's process, ``python -m jupyter_gpudask.supervisor``: it hosts Dask's scheduler and nannies.

Its parent, a kernel or a Jupyter server, starts it with `jupyter_gpudask.launcher.cluster_process.ClusterProcess` and
sends it the commands of `jupyter_gpudask.protocol`.
"""
