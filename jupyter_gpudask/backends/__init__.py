"""The switch: which library Dask's collections are made of, for one cell."""

from .client import default_client
from .kernel import prepare_gpu_backends
from .switch import check_backends, switched_to

__all__ = ["check_backends", "default_client", "prepare_gpu_backends", "switched_to"]
