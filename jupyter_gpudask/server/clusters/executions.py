"""Detect which kernels execute cells, from the status messages of their IOPub channels.

The ``execution_state`` of a kernel's manager is the state of the last answer, whatever the request was. During a cell
it becomes ``idle`` when the kernel answers a message of a widget, which JupyterLab sends to a subshell, or a request on
the control channel, such as those of jupyter-resource-usage.
"""

from __future__ import annotations

import json
import logging
import time
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from jupyter_client.session import Session
from zmq import ZMQError

logger = logging.getLogger(__name__)


@dataclass
class _Watched:
    port: int
    stream: Any
    session: Session
    running: set[str] = field(default_factory=set)
    last_end: float = 0.0


class Executions:
    """Listens to kernels."""

    def __init__(self) -> None:
        self._watched: dict[str, _Watched] = {}

    def __contains__(self, kernel_id: str) -> bool:
        return kernel_id in self._watched

    def watch(self, kernel_id: str, kernel: Any) -> None:
        """Listen to a kernel that has started, or has started again; its manager is `kernel`."""
        watched = self._watched.get(kernel_id)
        if watched is not None and watched.port == kernel.iopub_port:  # ZeroMQ has connected to it again
            watched.running.clear()
            return
        self.forget(kernel_id)
        if not kernel.iopub_port:  # a kernel of a gateway
            return
        try:
            stream = kernel.connect_iopub()
        except (ZMQError, OSError) as error:
            logger.debug("The kernel %s cannot be listened to: %s", kernel_id, error)
            return
        session = Session(config=kernel.session.config, key=kernel.session.key)
        watched = self._watched[kernel_id] = _Watched(kernel.iopub_port, stream, session)
        stream.on_recv(partial(_read, watched))

    def forget(self, kernel_id: str) -> None:
        """Listen no more to a kernel."""
        watched = self._watched.pop(kernel_id, None)
        if watched is not None:
            watched.stream.close()

    def are_running(self, kernel_id: str) -> bool:
        """Whether the kernel executes a cell."""
        watched = self._watched.get(kernel_id)
        return watched is not None and bool(watched.running)

    def last_end(self, kernel_id: str) -> float:
        """When the kernel last ended a cell, on the clock of `time.monotonic`; 0 if it has not."""
        watched = self._watched.get(kernel_id)
        return 0.0 if watched is None else watched.last_end


def _read(watched: _Watched, frames: list[bytes]) -> None:
    """Read one message. Source: "Messaging in Jupyter", wire protocol and kernel status."""
    try:
        _, parts = watched.session.feed_identities(frames)
        header: Any = parts[1]
        if json.loads(header).get("msg_type") != "status":  # outputs are not worth a check of their signatures
            return
        message = watched.session.deserialize(parts)
    except (ValueError, TypeError, IndexError):  # not signed by this kernel
        return
    parent = message["parent_header"]
    if parent.get("msg_type") != "execute_request":
        return
    if message["content"].get("execution_state") == "busy":
        watched.running.add(parent["msg_id"])
    else:
        watched.running.discard(parent["msg_id"])
        watched.last_end = time.monotonic()
