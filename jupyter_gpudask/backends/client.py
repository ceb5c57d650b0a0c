"""Which client Dask computes with, for one cell."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from distributed import client as distributed_client

if TYPE_CHECKING:
    from collections.abc import Iterator

    from distributed import Client


@contextmanager
def computing_on(client: Client) -> Iterator[None]:
    """Have collections compute with `client`, also when the user has made another client Dask's default.

    `Client.as_current` would do for a ``with``; but a cell with ``await`` begins and ends in different contexts.
    """
    before = distributed_client._get_global_client()  # noqa: SLF001
    if before is client:
        yield
        return
    distributed_client._set_global_client(client)  # noqa: SLF001
    try:
        yield
    finally:
        if before is not None and before.status == "running":
            distributed_client._set_global_client(before)  # noqa: SLF001
