"""The parts of benchmarks/random_programs.py: random programs, how they are run, compared and made smaller."""
