"""The clusters of the Jupyter server's kernels: start, limits, idle timeout, restart and close."""
