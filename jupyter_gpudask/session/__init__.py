"""The kernel's one cluster: started, attached to, asked and stopped. Runs in the kernel; needs no IPython."""
