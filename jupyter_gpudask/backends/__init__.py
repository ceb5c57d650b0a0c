"""The switch: which library Dask's collections are made of, for one cell."""

from .client import default_client
from .computing import Watch
from .kernel import prepare_gpu_backends
from .moving import host_collections, moved
from .switch import check_backends, switched_to

__all__ = [
    "Watch",
    "check_backends",
    "default_client",
    "host_collections",
    "moved",
    "prepare_gpu_backends",
    "switched_to",
]
