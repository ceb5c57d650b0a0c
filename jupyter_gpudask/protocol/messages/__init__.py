"""What kernels, the Jupyter server and supervisors send to each other: JSON lines over pipes or a Unix socket."""
