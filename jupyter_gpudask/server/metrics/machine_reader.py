"""Read the metrics of the machine's processors, memory, disks and network."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class MachineState:
    """The state of the machine at one time; counters start when it was booted.

    Attributes
    ----------
    cpu_busy, cpu_total
        Seconds that all processors were busy, and that have passed for them.
    memory_used, memory_total
        Host memory in bytes; what the system can free at once, such as cached files, is not used.
    disk_bytes
        Bytes read from and written to disks; `None` if the system does not report them.
    network_bytes
        Bytes sent and received over network interfaces other than the loopback interface; `None` if there are none.
    """

    cpu_busy: float
    cpu_total: float
    memory_used: int
    memory_total: int
    disk_bytes: int | None
    network_bytes: int | None


def read_machine() -> MachineState:
    """The state of the machine; in a container, that of the machine on which it runs."""
    cpu, memory = psutil.cpu_times(), psutil.virtual_memory()
    total = sum(cpu) - cpu.guest - cpu.guest_nice  # these two are also part of `user` and `nice`
    disks = _hardware(psutil.disk_io_counters(perdisk=True) or {}, Path("/sys/block"))
    return MachineState(
        cpu_busy=total - cpu.idle - cpu.iowait,
        cpu_total=total,
        memory_used=memory.total - memory.available,
        memory_total=memory.total,
        disk_bytes=sum(disk.read_bytes + disk.write_bytes for disk in disks.values()) if disks else None,
        network_bytes=_network_bytes(),
    )


def _network_bytes() -> int | None:
    interfaces = psutil.net_io_counters(pernic=True)
    interfaces.pop("lo", None)
    # A container has virtual interfaces only.
    counted = _hardware(interfaces, Path("/sys/class/net")) or interfaces
    return sum(each.bytes_sent + each.bytes_recv for each in counted.values()) if counted else None


def _hardware(devices: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The devices that are hardware: bytes of partitions, bridges and the like are also counted by their device."""
    return {name: counters for name, counters in devices.items() if (folder / name / "device").exists()}
