"""Messages between processes: their models, as pydantic classes, and their transport. Runs in every process."""

from .cluster.cluster_class import ClassProfile, ClusterClass
from .cluster.missing_workers import JobState, LostHost
from .cluster.spec import ClusterSpec
from .cluster.state import (
    ClusterState,
    GpuProcess,
    GpuState,
    JoinedState,
    JoinedWorkerState,
    TlsCredentials,
    WorkerExit,
    WorkerState,
)
from .messages.events import (
    Answer,
    Closed,
    Event,
    Failed,
    Joined,
    LogText,
    Progress,
    Ready,
    Refused,
    StateReport,
    parse_event,
)
from .messages.message import PROTOCOL_VERSION
from .messages.verbs import VERBS, Close, ClusterVerbs, Command, Start, parse_command

__all__ = [
    "PROTOCOL_VERSION",
    "VERBS",
    "Answer",
    "ClassProfile",
    "Close",
    "Closed",
    "ClusterClass",
    "ClusterSpec",
    "ClusterState",
    "ClusterVerbs",
    "Command",
    "Event",
    "Failed",
    "GpuProcess",
    "GpuState",
    "JobState",
    "Joined",
    "JoinedState",
    "JoinedWorkerState",
    "LogText",
    "LostHost",
    "Progress",
    "Ready",
    "Refused",
    "Start",
    "StateReport",
    "TlsCredentials",
    "WorkerExit",
    "WorkerState",
    "parse_command",
    "parse_event",
]
