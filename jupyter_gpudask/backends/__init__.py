"""The switch: which library Dask's collections are made of, for one cell."""

from .kernel import prepare_gpu_backends
from .switch import BackendSwitch, check_backends, switch

__all__ = ["BackendSwitch", "check_backends", "prepare_gpu_backends", "switch"]
