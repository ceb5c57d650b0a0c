"""Optimization of task graphs of arrays. Runs where graphs are materialized: in a worker, or in the scheduler."""
