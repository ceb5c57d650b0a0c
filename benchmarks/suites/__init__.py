"""Tests of Dask, run twice and compared; see ../dask_tests.py."""
