"""A server extension that shows a recording of the stream in the place of this machine's GPUs and clusters.

Made by `record.py`; named by ``GPUDASK_RECORDING``. What was recorded until the second
``GPUDASK_UNTIL`` is shown at once. If ``GPUDASK_FILM`` is set, the rest follows once the file of that name exists,
``GPUDASK_SLOWER`` times as slowly as it came. The kernel of a notebook that is open here stands for that of the
recorded one.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any

from jupyter_gpudask.protocol.rest import StreamMessage
from jupyter_gpudask.server.stream import StreamHandler

NOTHING = {"gpus": None, "clusters": [], "removed": [], "history": []}


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": "replay"}]


def _load_jupyter_server_extension(app: Any) -> None:
    recording = json.loads(Path(os.environ["GPUDASK_RECORDING"]).read_text())
    until = float(os.environ.get("GPUDASK_UNTIL", "1e9"))
    film = os.environ.get("GPUDASK_FILM")
    slower = float(os.environ.get("GPUDASK_SLOWER", "1"))
    # With the fields that messages have today, of which an older recording may lack some.
    recorded = [
        (moment, StreamMessage.model_validate(message).model_dump(mode="json"))
        for moment, message in recording["messages"]
    ]
    past = [message for moment, message in recorded if moment <= until]
    rest = [(slower * (moment - until), message) for moment, message in recorded if moment > until] if film else []
    messages = [*past, *(message for _, message in rest)]
    names = {cluster["kernel_id"]: cluster["name"] for message in messages for cluster in message["clusters"]}

    def begin_of_film() -> float:
        """When the file was made, which each stream of the page counts from; 0 before."""
        return Path(film).stat().st_mtime if film and Path(film).exists() else 0

    async def replay(handler: StreamHandler) -> None:
        sessions = await app.session_manager.list_sessions()
        kernels = {session["name"]: session["kernel"]["id"] for session in sessions}

        async def send(message: dict[str, Any], begin: float) -> None:
            """Send a message as if the second `until` of the recording had been at the time `begin`."""
            text = json.dumps(_moved(message, begin - past[-1]["time"]))
            for kernel_id, name in names.items():
                text = text.replace(kernel_id, kernels.get(name, kernel_id))
            await handler.write_message(text)

        now = time.time()
        for message in past:
            await send(message, begin_of_film() or now)
        while rest and not begin_of_film():  # as the server does, if nothing changes
            await send(past[-1], time.time())
            await asyncio.sleep(0.5)
        begin = begin_of_film()
        for seconds, message in rest:
            await asyncio.sleep(max(0, begin + seconds - time.time()))
            await send(message, begin)
        while True:  # nothing changes any more, and the server is there
            await asyncio.sleep(1)
            await handler.write_message(json.dumps(past[-1] | {"type": "changes"} | NOTHING))

    def start(handler: StreamHandler, *_: Any) -> None:
        handler.replaying = asyncio.ensure_future(replay(handler))  # type: ignore[attr-defined]

    StreamHandler.open = start  # type: ignore[method-assign]


def _moved(part: Any, seconds: float) -> Any:
    """The same, so much later."""
    if isinstance(part, list):
        return [_moved(each, seconds) for each in part]
    if isinstance(part, dict):
        return {
            key: value + seconds if key in ("time", "since", "began") and value else _moved(value, seconds)
            for key, value in part.items()
        }
    return part
