"""What processes send to each other: the models, as pydantic classes, and the transport. Runs in every process."""

from .cluster.cluster_class import ClassProfile, ClusterClass
from .cluster.missing_workers import JobState, LostHost
from .cluster.spec import ClusterSpec
from .cluster.state import ClusterState, GpuProcess, GpuState, TlsCredentials, WorkerExit, WorkerState
from .messages.commands import (
    Adapt,
    Close,
    Command,
    Release,
    Rename,
    ReportAutomatic,
    Reset,
    Scale,
    SendLogs,
    SendState,
    Start,
    Watch,
    parse_command,
)
from .messages.events import Answer, Closed, Event, Failed, LogText, Progress, Ready, Refused, StateReport, parse_event
from .messages.message import PROTOCOL_VERSION

__all__ = [
    "PROTOCOL_VERSION",
    "Adapt",
    "Answer",
    "ClassProfile",
    "Close",
    "Closed",
    "ClusterClass",
    "ClusterSpec",
    "ClusterState",
    "Command",
    "Event",
    "Failed",
    "GpuProcess",
    "GpuState",
    "JobState",
    "LogText",
    "LostHost",
    "Progress",
    "Ready",
    "Refused",
    "Release",
    "Rename",
    "ReportAutomatic",
    "Reset",
    "Scale",
    "SendLogs",
    "SendState",
    "Start",
    "StateReport",
    "TlsCredentials",
    "Watch",
    "WorkerExit",
    "WorkerState",
    "parse_command",
    "parse_event",
]
