"""The kernel's cluster: start it, attach to it, query it and stop it. Runs in the kernel and does not need IPython."""
