"""How a kernel asks its Jupyter server for its cluster: the first line on the socket between them.

What follows is the supervisor's own protocol: the server stands between the kernel and the supervisor.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from ..errors import ProtocolError
from .messages import PROTOCOL_VERSION, Folders, Variables


class Join(BaseModel):
    """The kernel's cluster, please.

    Attributes
    ----------
    kernel_id
        Who asks.
    options
        What cluster to start if there is none, as attributes of a spec; `None` to start none.
    check
        Whether the options are only to be checked: as a cluster in place of the one that there is.
    python, environment, path
        What runs the kernel: see `jupyter_gpudask.server.clusters.kernels.Interpreter`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["join"] = "join"
    protocol: int = PROTOCOL_VERSION
    kernel_id: str
    options: dict[str, Any] | None = None
    check: bool = False
    python: str
    environment: Variables
    path: Folders = ()

    def __repr__(self) -> str:  # an environment can hold secrets
        return f"Join(kernel_id={self.kernel_id!r})"

    __str__ = __repr__


def parse_join(line: bytes) -> Join:
    """Read the first line of a kernel.

    Raises
    ------
    ProtocolError
        It is none, or of another version.
    """
    try:
        join = Join.model_validate_json(line)
    except ValidationError:
        join = None
    if join is None or join.protocol != PROTOCOL_VERSION:
        raise ProtocolError(
            f"The kernel and the Jupyter server do not understand each other; the server speaks {PROTOCOL_VERSION}.",
            "Install the same jupyter_gpudask in both environments.",
        )
    return join
