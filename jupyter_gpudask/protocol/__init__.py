"""Messages between processes: their models, as pydantic classes, and their transport. Runs in every process."""
