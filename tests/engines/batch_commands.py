"""Stand-ins for the commands of PBS, Grid Engine and LSF: jobs run here, two at a time, and their queue is a folder.

There are no such systems to be had on this machine. What is real: dask-jobqueue with its job scripts, and the workers.
The commands print what their manuals say.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

COMMANDS = {"PBS": ("qsub", "qdel", "qstat"), "SGE": ("qsub", "qdel", "qstat"), "LSF": ("bsub", "bkill", "bjobs")}

PROGRAM = """#!{python}
import fcntl, os, re, signal, subprocess, sys
from pathlib import Path
folder, command, system = Path({folder!r}), {command!r}, {system!r}
lock = (folder / "lock").open("w")
fcntl.flock(lock, fcntl.LOCK_EX)

def jobs():
    return sorted(map(int, (path.name for path in folder.iterdir() if path.name.isdigit())))

def state(job):
    if (folder / f"{{job}}" / "ended").exists():
        return "ended"
    return "running" if (folder / f"{{job}}" / "pid").exists() else "waiting"

def begin():
    for job in jobs():
        if state(job) == "waiting" and sum(state(other) == "running" for other in jobs()) < 2:
            own = folder / f"{{job}}"
            script = (own / "script").read_text()
            place = re.search(r"^#\\S+ -o (.*?)/?([^/\\n]*%J[^/\\n]*)?$", script, re.M)
            log = Path(place[1]) / (place[2] or "jupyter-gpudask.o%J").replace("%J", str(job))
            run = "bash {{0}}/script; echo $? > {{0}}/ended".format(own)
            process = subprocess.Popen(["bash", "-c", run], stdout=log.open("w"), stderr=subprocess.STDOUT,
                                       stdin=subprocess.DEVNULL, start_new_session=True, close_fds=True)
            (own / "pid").write_text(str(process.pid))

if command in ("qsub", "bsub"):
    script = Path(sys.argv[1]).read_text() if len(sys.argv) > 1 else sys.stdin.read()
    if "-q nowhere" in script:
        sys.exit("qsub: Unknown queue")
    job = max(jobs(), default=0) + 1
    (folder / f"{{job}}").mkdir()
    (folder / f"{{job}}" / "script").write_text(script)
    print({{"PBS": f"{{job}}.server", "SGE": f'Your job {{job}} ("jupyter-gpudask") has been submitted',
           "LSF": f"Job <{{job}}> is submitted to default queue <normal>."}}[system])
elif command in ("qdel", "bkill"):
    for job in sys.argv[1:]:
        own = folder / job
        if (own / "pid").exists() and not (own / "ended").exists():
            os.killpg(int((own / "pid").read_text()), signal.SIGKILL)
        (own / "ended").touch()
begin()
if command in ("qstat", "bjobs"):
    for job in jobs():
        now = state(job)
        if system == "LSF":
            words = {{"waiting": "PEND", "running": "RUN", "ended": "EXIT"}}
            print(job, words[now], "normal", "Job slot limit reached" if now == "waiting" else "-", sep="|")
        elif now != "ended" and system == "PBS":
            letter = "Q" if now == "waiting" else "R"
            print(f"{{job}}.server ann workq jupyter-gp -- 1 1 300mb 00:30 {{letter}} --")
        elif now != "ended":
            print(f"{{job}} 0.55 jupyter-gp ann", {{"waiting": "qw", "running": "r"}}[now], "11/23/2026 23:00:00 1")
"""


class BatchCommands:
    """The commands of one system, and its queue.

    Parameters
    ----------
    folder
        An empty folder.
    system
        ``PBS``, ``SGE`` or ``LSF``.
    """

    def __init__(self, folder: Path, system: str) -> None:
        self.queue = folder / "queue"
        self.programs = folder / "bin"
        self.queue.mkdir()
        self.programs.mkdir()
        for command in COMMANDS[system]:
            text = PROGRAM.format(python=sys.executable, folder=str(self.queue), command=command, system=system)
            (self.programs / command).write_text(text)
            (self.programs / command).chmod(0o755)

    def jobs(self) -> list[str]:
        """The ids of the jobs that have not ended."""
        jobs = [path for path in self.queue.iterdir() if path.name.isdigit()]
        return sorted(path.name for path in jobs if not (path / "ended").exists())
