"""The parent's side of a supervisor: start its process and talk to it. Runs in the kernel or in the Jupyter server."""
