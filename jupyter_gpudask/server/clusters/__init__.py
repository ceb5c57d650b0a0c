"""The clusters of the Jupyter server's kernels, from their order to their end."""
