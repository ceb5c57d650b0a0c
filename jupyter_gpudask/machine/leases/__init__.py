"""Leases: which cluster holds which GPUs, for one user (`folder`) and for all users of a machine (`registry`)."""

from .folder import THIS_KERNEL, HeldLease, Lease, LeaseFolder, holders_of, leases_of_others

__all__ = ["THIS_KERNEL", "HeldLease", "Lease", "LeaseFolder", "holders_of", "leases_of_others"]
