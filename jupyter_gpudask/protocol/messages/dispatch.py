"""Dispatch of commands: the supervisor and, for kernels, the Jupyter server carry them out through `answer`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ...errors import GpuDaskError, ProtocolError
from .. import Adapt, LogText, Refused, Release, Rename, Reset, Scale, SendLogs, SendState, StateReport, Watch

if TYPE_CHECKING:
    from .. import Answer, Command

logger = logging.getLogger(__name__)


_METHODS = {
    Adapt: "adapt",
    Release: "release",
    Rename: "rename",
    Reset: "reset",
    Scale: "scale",
    SendLogs: "log",
    SendState: "state",
    Watch: "watch",
}
"""The method of a handler that carries out a command; its parameters are the command's fields."""


async def answer(command: Command, handler: object) -> Answer | None:
    """Carry out `command`, which is neither the first nor the last one.

    Parameters
    ----------
    command
        The command.
    handler
        Carries out the commands for which it has the methods named in `_METHODS`, and refuses one by raising a
        `GpuDaskError`. They return the state of the cluster; `log` returns a text, `watch` and `rename` nothing.

    Returns
    -------
    Answer or None
        The event to send; a `Refused` for every error, after which the cluster keeps running.
    """
    try:
        return await _carry_out(command, handler)
    except GpuDaskError as error:
        return Refused.from_error(error, answers=command.id)
    except Exception as error:  # whatever Dask or the system raises
        logger.exception("The command %s failed", command.type)
        return Refused(answers=command.id, reason=f"{type(error).__name__}: {error}.")


async def _carry_out(command: Command, handler: object) -> Answer | None:
    method = getattr(handler, _METHODS.get(type(command), ""), None)
    if method is None:
        raise ProtocolError("command-not-possible", command=command.type)
    result = await method(**command.model_dump(exclude={"id", "type"}))
    match command:
        case SendLogs(worker=worker):
            return LogText(answers=command.id, worker=worker, text=result)
        case Watch() | Rename():
            return None
    return StateReport(answers=command.id, state=result)
