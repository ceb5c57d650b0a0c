"""A Dask client for a cluster that is up."""

from __future__ import annotations

from distributed import Client, Security

from ..models import Ready
from .sealing import SealingClient


def connect(ready: Ready, *, set_as_default: bool = True, timeout: float = 30.0) -> Client:
    """A client of the cluster, with its credentials.

    Parameters
    ----------
    ready
        What the supervisor said when the cluster was up.
    set_as_default
        Whether Dask's collections compute on it from now on.
    timeout
        Seconds for the first connection.
    """
    credentials = ready.credentials
    security = None
    if credentials is not None:
        security = Security(
            require_encryption=True,
            tls_ca_file=credentials.ca,
            tls_client_cert=credentials.certificate,
            tls_client_key=credentials.key,
        )
    return SealingClient(ready.address, security=security, set_as_default=set_as_default, timeout=timeout)
