"""The cluster of a kernel, with Dask's scheduler and nannies. Runs in its own process, the supervisor.

Its parent, a kernel or a Jupyter server, starts ``python -m jupyter_gpudask.supervisor`` with
`jupyter_gpudask.launcher.cluster.ClusterProcess` and sends it the commands of `jupyter_gpudask.protocol`.
"""
