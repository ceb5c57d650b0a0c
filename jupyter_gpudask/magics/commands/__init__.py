"""Commands of ``%gpudask`` that do more than ask the session."""
