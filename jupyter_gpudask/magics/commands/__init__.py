"""The commands of ``%gpudask``: `commands` calls the `Session`; those that do more have a module each."""
