"""The commands ``%gpudask doctor`` and ``%gpudask free``; the other commands are methods of `Session`."""
