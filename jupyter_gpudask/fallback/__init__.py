"""Fallback to the host: operations that CuPy or cuDF lack are computed on the host, block by block.

Runs in the kernel, which adds the fallback to graphs and keeps the log, and in workers.
"""
