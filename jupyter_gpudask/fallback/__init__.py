"""Operations that CuPy or cuDF lack, computed on the host, block by block.

Runs in the kernel, which puts them into graphs and keeps the log, and in workers.
"""
