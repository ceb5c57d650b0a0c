"""Let workers import what the kernel uses first, cudf-polars or cuDF, as soon as it is connected."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ..worker.imports import prepare_cudf
from ..worker.polars_rank import prepare_rank

if TYPE_CHECKING:
    from distributed import Client


def prepare(client: Client) -> None:
    """Let the workers on GPUs import cudf-polars, if the user has imported Polars, or cuDF; does not wait for them."""
    function: Any = prepare_rank if "polars" in sys.modules else prepare_cudf

    async def prepare_workers() -> None:
        with suppress(Exception):  # the first call in a worker shows the error
            await client._run(function, on_error="ignore")  # noqa: SLF001

    loop: Any = client.loop
    asyncio.run_coroutine_threadsafe(prepare_workers(), loop.asyncio_loop)
