"""Random numbers of GPU blocks. Runs in the kernel; functions of blocks run in workers."""
