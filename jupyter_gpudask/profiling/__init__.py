"""Profiles of cells: the cost of each operation on the cluster, and advice. Used by ``%%gpudask --profile`` only.

Runs in the kernel, in the scheduler and in workers.
"""
