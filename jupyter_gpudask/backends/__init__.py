"""The switch: which library Dask's collections are made of, for one cell."""

from .client import default_client
from .kernel import prepare_gpu_backends
from .memory import release_memory
from .moving import host_collections, moved
from .origin import library_behind
from .placement import to_host
from .switch import check_backends, switched_to
from .versions import Examined, examine_process, try_libraries
from .watch import Watch

__all__ = [
    "Examined",
    "Watch",
    "check_backends",
    "default_client",
    "examine_process",
    "host_collections",
    "library_behind",
    "moved",
    "prepare_gpu_backends",
    "release_memory",
    "switched_to",
    "to_host",
    "try_libraries",
]
