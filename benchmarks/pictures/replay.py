"""A server extension that shows a recording of the stream in the place of this machine's GPUs and clusters.

Made by ``benchmarks/record_stream.py``; named by ``GPUDASK_RECORDING``, and shown from its begin to the second
``GPUDASK_UNTIL``, all at once. The kernel of a notebook that is open here stands for that of the recorded one.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any

from jupyter_gpudask.server.api.stream import StreamHandler


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": "replay"}]


def _load_jupyter_server_extension(app: Any) -> None:
    recording = json.loads(Path(os.environ["GPUDASK_RECORDING"]).read_text())
    until = float(os.environ.get("GPUDASK_UNTIL", "1e9"))
    messages = [message for moment, message in recording["messages"] if moment <= until]
    names = {cluster["kernel_id"]: cluster["name"] for message in messages for cluster in message["clusters"]}

    async def replay(handler: StreamHandler) -> None:
        sessions = await app.session_manager.list_sessions()
        text = json.dumps(_moved(messages, time.time() - messages[-1]["time"]))
        for kernel_id, name in names.items():
            for session in sessions:
                if session["name"] == name:
                    text = text.replace(kernel_id, session["kernel"]["id"])
        for message in json.loads(text):
            await handler.write_message(json.dumps(message))

    def start(handler: StreamHandler, *_: Any) -> None:
        handler.replaying = asyncio.ensure_future(replay(handler))  # type: ignore[attr-defined]

    StreamHandler.open = start  # type: ignore[method-assign]


def _moved(part: Any, seconds: float) -> Any:
    """The same, so much later."""
    if isinstance(part, list):
        return [_moved(each, seconds) for each in part]
    if isinstance(part, dict):
        return {
            key: value + seconds if key in ("time", "since") and value else _moved(value, seconds)
            for key, value in part.items()
        }
    return part
