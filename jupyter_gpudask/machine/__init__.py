"""What this machine has and its processes share: GPUs, leases on them, and directories. Runs in every process."""
