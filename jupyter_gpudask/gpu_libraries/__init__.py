"""CuPy, cuDF and RMM in a process: their preparation, their examination, and their unused memory.

Runs in the kernel, which also sends functions of it to workers.
"""
