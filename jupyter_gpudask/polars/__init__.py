"""Polars in a cell for GPUs: its queries run on the GPUs of the kernel's cluster, by cudf-polars.

Runs in the kernel; `worker.polars_rank` is the part in the workers. Polars is never imported from here before the user
imports it.
"""
