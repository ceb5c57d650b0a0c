"""Start a supervisor and communicate with it. Runs in its parent: a kernel or the Jupyter server."""
