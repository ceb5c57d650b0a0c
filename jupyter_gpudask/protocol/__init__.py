"""What processes send to each other: the models, as pydantic classes, and the transport. Runs in every process."""

from .cluster_class import ClassProfile, ClusterClass
from .commands import (
    Adapt,
    Close,
    Command,
    Keep,
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
from .events import Answer, Closed, Event, Failed, Kept, LogText, Progress, Ready, Refused, StateReport, parse_event
from .messages import PROTOCOL_VERSION
from .missing_workers import JobState, LostHost
from .spec import ClusterSpec
from .state import ClusterState, GpuProcess, GpuState, TlsCredentials, WorkerExit, WorkerState

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
    "Keep",
    "Kept",
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
