"""``python -m jupyter_gpudask cluster``: a cluster of a terminal, which notebooks share and which outlives them."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shlex
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ..errors import ClusterLostError, ClusterStartError, GpuDaskError
from ..launcher.cluster import ClusterProcess
from ..protocol.messages import Progress, Ready
from ..protocol.spec import ClusterSpec, fields_of, start_options
from .launch import import_path

_FILE = "--scheduler-file"
# Kernels get no credentials, and only a Jupyter server knows presets.
_LEFT_OUT = ("--protocol", "--preset")
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a cluster until it is interrupted or terminated, or ends; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m jupyter_gpudask cluster",
        description="Start a cluster to which any number of notebooks of this user can connect.",
        allow_abbrev=False,
    )
    parser.add_argument(
        _FILE, dest=_FILE, metavar="FILE", help="write the address into FILE, which is removed at the end"
    )
    for flag, option in start_options().items():
        if flag not in _LEFT_OUT:
            text = option.help.replace("%", "%%")
            parser.add_argument(flag, metavar=option.metavar, help=text, **option.parsing)
    given = {flag: value for flag, value in vars(parser.parse_args(arguments)).items() if value is not None}
    file = given.pop(_FILE, "")
    try:
        return asyncio.run(_run(ClusterSpec.parse(fields_of(given)), file))
    except GpuDaskError as error:
        sys.stderr.write(f"{error}\n")
        return 1


async def _run(spec: ClusterSpec, file: str) -> int:
    loop = asyncio.get_running_loop()
    end: asyncio.Future[ClusterLostError | None] = loop.create_future()

    def end_with(loss: ClusterLostError | None = None) -> None:
        if not end.done():
            end.set_result(loss)

    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as `nohup` sets it
            loop.add_signal_handler(number, end_with)
    starting = asyncio.create_task(
        ClusterProcess.start(
            spec,
            environment=spec.shared_environment(os.environ),
            path=import_path(),
            holder=_holder(),
            on_progress=_show_notes,
            on_lost=end_with,
        )
    )
    first: list[asyncio.Future[Any]] = [starting, end]
    await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        return 0
    cluster = starting.result()
    try:
        if not cluster.ready.address.startswith("unix://"):
            raise ClusterStartError("no-unix-sockets", folder=tempfile.gettempdir())
        with _written(file, cluster.ready):
            _show(cluster.ready, file)
            loss = await end
    finally:
        await cluster.close()
    if loss is not None:
        sys.stderr.write(f"{loss.reason}\n")
    return 0 if loss is None else 1


def _holder() -> str:
    """The name under which others see that the GPUs are reserved; empty without a terminal."""
    try:
        terminal = os.ttyname(sys.stdin.fileno())
    except (OSError, ValueError, AttributeError):
        return ""
    return f"terminal {terminal.removeprefix('/dev/')}"


def _show_notes(progress: Progress) -> None:
    sys.stderr.writelines(f"{note}\n" for note in progress.notes)  # on the place in the line for GPUs


def _show(ready: Ready, file: str) -> None:
    to = f"{_FILE} {shlex.quote(str(Path(file).expanduser().absolute()))}" if file else ready.address
    parts = [ready.describe(), ready.cpu_reason, f"Type in notebooks: %gpudask connect {to}"]
    if ready.dashboard_link:
        parts.append(f"Dask's dashboard: {ready.dashboard_link}")
    sys.stdout.write(" · ".join(filter(None, [*parts, "Ctrl-C ends it."])) + "\n")
    sys.stdout.flush()


@contextmanager
def _written(file: str, ready: Ready) -> Iterator[None]:
    """Write the scheduler file, which only this user can read, and remove it at the end; nothing without a name."""
    if not file:
        yield
        return
    path = Path(file).expanduser().absolute()
    content = json.dumps({"address": ready.address, "id": ready.scheduler_id})
    try:
        path.unlink(missing_ok=True)
        with open(path, "x", opener=lambda name, flags: os.open(name, flags, 0o600)) as opened:
            opened.write(content)
    except OSError as error:
        raise ClusterStartError("scheduler-file-not-written", file=file, error=error.strerror) from None
    try:
        yield
    finally:
        with suppress(OSError):
            if path.read_text() == content:  # else another cluster has written it meanwhile
                path.unlink()
