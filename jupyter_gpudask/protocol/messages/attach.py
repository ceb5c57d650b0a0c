"""The first message of a kernel to its Jupyter server: a request for the kernel's cluster.

What follows are commands and events, as between a supervisor and its parent.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Literal

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from .events import Joined
from .message import PROTOCOL_VERSION, Folders, Message, Variables, check_protocol, parse_message


class Attach(Message):
    """Attach to the kernel's cluster.

    Attributes
    ----------
    kernel_id
        The kernel that asks.
    options
        The options of the cluster to start if there is none, as attributes of a spec; `None` to start none.
    joined
        The cluster of somebody else to which the kernel is connected, which is to be shown: the server then sends
        commands, and the kernel answers them; `None` for a cluster of the kernel.
    check
        Whether to only check the options, as those of a cluster that would replace the existing one.
    python, environment, path, settings
        The kernel's interpreter and settings: see `jupyter_gpudask.server.clusters.kernels.Interpreter`.
    """

    type: Literal["attach"] = "attach"
    protocol: int = PROTOCOL_VERSION
    kernel_id: str
    options: dict[str, Any] | None = None
    joined: Joined | None = None
    check: bool = False
    python: str
    environment: Variables
    path: Folders = ()
    settings: dict[str, Any] = Field(default_factory=dict)

    def __repr__(self) -> str:  # an environment can hold secrets
        return f"Attach(kernel_id={self.kernel_id!r})"

    __str__ = __repr__


class _Version(BaseModel):
    protocol: int


_attach = TypeAdapter(Attach)


def parse_attach(line: bytes) -> Attach:
    """Parse the first line from a kernel.

    Raises
    ------
    ProtocolError
        The line is not an `Attach`, or of a version that is not understood.
    """
    with suppress(ValidationError):
        version = _Version.model_validate_json(line).protocol
        check_protocol(version, receiver="Jupyter server", sender="kernel")
    attach: Attach = parse_message(_attach, line)
    return attach
