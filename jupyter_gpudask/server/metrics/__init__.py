"""Metrics of GPUs and workers: read on request and once a second for browsers, stored and broadcast."""
