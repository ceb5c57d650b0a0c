"""The commands of ``%gpudask``: `commands` calls the `Session`; larger commands have their own modules."""
