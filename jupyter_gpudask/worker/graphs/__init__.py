"""Graphs that a worker materializes for the scheduler, whose tasks stay pickled until they run."""
