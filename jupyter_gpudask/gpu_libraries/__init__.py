"""Prepare CuPy, cuDF and RMM in a process, check them, and release their unused memory.

Runs in the kernel, which also sends some of its functions to workers.
"""
