"""Every change that this package makes to the code of others. Runs in the kernel; parts of it in workers."""
