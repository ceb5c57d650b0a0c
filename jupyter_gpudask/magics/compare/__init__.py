"""``%%gpudask --compare``: run a cell on the CPU and on the GPUs, and compare the results."""
