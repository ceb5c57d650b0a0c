"""An SSH server with keys of its own, that lets the user of the tests in."""

import getpass
import shutil
import subprocess
from pathlib import Path

from slurm import free_port

CONFIGURATION = """
ListenAddress {host}
Port {port}
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
PidFile {folder}/pid
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
"""


class SshServer:
    """The server, and the options of a connection to it.

    Parameters
    ----------
    folder
        An empty folder for its keys.
    host
        The address on which it listens.
    command
        What the command line begins with, such as ``ip netns exec NAME``.
    """

    def __init__(self, folder: Path, host: str = "127.0.0.1", command: tuple[str, ...] = ()) -> None:
        self.port = free_port()
        for name in ("host", "user", "stranger"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
        key = (folder / "host.pub").read_text()
        (folder / "known_hosts").write_text(f"[{host}]:{self.port} {key}")
        (folder / "other_hosts").write_text(f"[{host}]:{self.port} {(folder / 'stranger.pub').read_text()}")
        (folder / "sshd_config").write_text(CONFIGURATION.format(folder=folder, host=host, port=self.port))
        Path("/run/sshd").mkdir(exist_ok=True)  # of its unprivileged process
        self.folder = folder
        self.process = subprocess.Popen(
            [*command, shutil.which("sshd"), "-D", "-e", "-f", str(folder / "sshd_config")],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def options(self, *, key="user", hosts_file="known_hosts", **others):
        """The ``connect_options`` of `distributed.SSHCluster`."""
        return {
            "port": self.port,
            "username": getpass.getuser(),
            "client_keys": [str(self.folder / key)],
            "known_hosts": str(self.folder / hosts_file),
        } | others

    def stop(self):
        self.process.terminate()
        self.process.wait(30)
