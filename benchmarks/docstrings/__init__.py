"""The examples in docstrings, run twice and compared; see ../docstring_examples.py."""
