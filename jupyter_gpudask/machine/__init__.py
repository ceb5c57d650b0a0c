"""Resources of this machine that processes share: GPUs, leases on them, and directories. Runs in every process."""
