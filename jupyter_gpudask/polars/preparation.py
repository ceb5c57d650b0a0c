"""Let workers import cudf-polars as soon as the kernel is connected, while the kernel imports it, too."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ..worker.polars_rank import prepare_rank

if TYPE_CHECKING:
    from distributed import Client


def prepare(client: Client) -> None:
    """Let the workers on GPUs import cudf-polars, if the user has imported Polars; this does not wait for them."""

    async def prepare_ranks() -> None:
        with suppress(Exception):  # the first call in a worker shows the error
            await client._run(prepare_rank, on_error="ignore")  # noqa: SLF001

    if "polars" in sys.modules:
        loop: Any = client.loop
        asyncio.run_coroutine_threadsafe(prepare_ranks(), loop.asyncio_loop)
