"""The switch: which library Dask's collections are made of, for one cell."""

from .switch import BackendSwitch, check_backends, switch

__all__ = ["BackendSwitch", "check_backends", "switch"]
