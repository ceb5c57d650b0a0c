"""Hosts that are network namespaces of this machine, on one bridge, each with an address and a cable to pull."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress


class Network:
    """The bridge of this machine, which has the first address, and its hosts.

    Parameters
    ----------
    hosts
        The number of hosts.

    Attributes
    ----------
    here
        The address of this machine.
    hosts
        The addresses of the hosts.
    """

    def __init__(self, hosts: int) -> None:
        number = os.getpid() % 200 + 20  # two runs do not share addresses
        self._bridge = f"gd{os.getpid() % 10**6}"
        self.here = f"10.213.{number}.1"
        self.hosts = [f"10.213.{number}.{2 + index}" for index in range(hosts)]
        self._names = {address: f"{self._bridge}-{index}" for index, address in enumerate(self.hosts)}
        try:
            ip("link", "add", self._bridge, "type", "bridge")
            ip("address", "add", f"{self.here}/24", "dev", self._bridge)
            ip("link", "set", self._bridge, "up")
            for address, name in self._names.items():
                self._add(address, name)
        except BaseException:
            self.close()
            raise

    def _add(self, address: str, name: str) -> None:
        ip("netns", "add", name)
        ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
        ip("link", "set", name, "master", self._bridge, "up")
        ip("-n", name, "address", "add", f"{address}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            ip("-n", name, "link", "set", device, "up")

    def command(self, address: str) -> tuple[str, ...]:
        """What the command line of a process on a host begins with."""
        return "ip", "netns", "exec", self._names[address]

    def pull(self, address: str) -> None:
        """Let a host vanish from the network; its processes continue."""
        ip("link", "set", self._names[address], "down")

    def close(self) -> None:
        """Kill the processes of the hosts, and remove the hosts and the bridge."""
        for name in self._names.values():
            with suppress(subprocess.CalledProcessError):
                for pid in ip("netns", "pids", name).split():
                    with suppress(ProcessLookupError):
                        os.kill(int(pid), signal.SIGKILL)
                ip("netns", "delete", name)  # with its device
        with suppress(subprocess.CalledProcessError):
            ip("link", "delete", self._bridge)


def ip(*arguments: str) -> str:
    return subprocess.run(["ip", *arguments], capture_output=True, text=True, check=True).stdout


def has_namespaces() -> bool:
    """Whether this process may create network namespaces."""
    with suppress(OSError, subprocess.CalledProcessError):
        name = f"gd{os.getpid()}-probe"
        ip("netns", "add", name)
        ip("netns", "delete", name)
        return True
    return False
