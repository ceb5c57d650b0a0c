"""The Jupyter server extension: it starts and closes the clusters of kernels, and serves the REST interface.

Runs in the Jupyter server.
"""
