"""All patches of other libraries. Runs in the kernel; parts of it in workers."""
