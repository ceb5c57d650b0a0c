"""Messages between kernels, the Jupyter server and supervisors: JSON lines over pipes or a Unix socket."""
