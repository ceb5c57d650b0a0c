"""Metrics of GPUs and workers: read once a second while somebody watches, kept, and sent to all who do."""
