"""The rows of `speed.py`: what is computed, on which cluster, and by which sides."""
