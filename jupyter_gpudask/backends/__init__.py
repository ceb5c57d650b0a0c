"""The switch: which library Dask's collections are made of, for one cell."""

from .client import computing_on
from .kernel import prepare_gpu_backends
from .switch import BackendSwitch, check_backends, switch

__all__ = ["BackendSwitch", "check_backends", "computing_on", "prepare_gpu_backends", "switch"]
