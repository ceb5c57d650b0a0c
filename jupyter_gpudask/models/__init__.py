"""What crosses a process border, as pydantic models: the spec of a cluster, its state, and the messages."""

from .messages import (
    PROTOCOL_VERSION,
    Close,
    Closed,
    Command,
    Event,
    Failed,
    LogText,
    Progress,
    Ready,
    Refused,
    SendLogs,
    SendState,
    Start,
    StateReport,
    Watch,
    parse_command,
    parse_event,
)
from .spec import ClusterSpec
from .state import ClusterState, GpuProcess, GpuState, TlsCredentials, WorkerState

__all__ = [
    "PROTOCOL_VERSION",
    "Close",
    "Closed",
    "ClusterSpec",
    "ClusterState",
    "Command",
    "Event",
    "Failed",
    "GpuProcess",
    "GpuState",
    "LogText",
    "Progress",
    "Ready",
    "Refused",
    "SendLogs",
    "SendState",
    "Start",
    "StateReport",
    "TlsCredentials",
    "Watch",
    "WorkerState",
    "parse_command",
    "parse_event",
]
