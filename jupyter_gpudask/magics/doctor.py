"""``%gpudask doctor``: check the driver, GPUs, packages and workers, with what to type if something is wrong."""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from importlib.metadata import version
from typing import Literal

from ..errors import BackendUnavailableError, BrokenContextError, GpuUnavailableError
from ..gpu_libraries import Examined
from ..installation import pip_install
from ..protocol.state import GpuState
from ..quantities import format_bytes, format_count
from ..session.launch import RunningCluster
from .output import Html, View, format_table, html_table, state_at

Verdict = Literal["ok", "note", "problem"]

_GPU_LIBRARIES = {"cupy": "CuPy", "cudf": "cuDF", "rmm": "RMM", "dask_cudf": "dask-cudf", "dask_cuda": "dask-cuda"}
_MIN_FREE = 0.1
_RESPONSE_TIMEOUT = 10.0
_SIGNS = {"ok": "✓", "note": "•", "problem": "✗"}


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    subject: str  # what was checked
    verdict: Verdict  # ``ok``, ``problem``, or ``note`` for something that may be intended
    text: str  # what the check found
    fix: str = ""  # what to type


class DoctorView(View):
    """The results of all checks, as a table."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        self.findings = tuple(findings)
        self._caption = state_at(time.time())

    def __str__(self) -> str:
        rows = [(_SIGNS[each.verdict], each.subject, f"{each.text} {each.fix}".strip()) for each in self.findings]
        return f"{format_table(self._heads(), rows)}\n{self._caption}"

    def to_html(self) -> str:
        """The table, with each verdict as a word for screen readers."""
        rows = [_row(each) for each in self.findings]
        return html_table(self._heads(), rows, align="left", caption=self._caption)

    def _heads(self) -> tuple[str, str, str]:
        return "", "check", self._headline()

    def _headline(self) -> str:
        problems = sum(finding.verdict == "problem" for finding in self.findings)
        return f"{format_count(problems, 'problem')} found." if problems else "All is well."


def _row(finding: Finding) -> tuple[Html, Html, Html]:
    verdict, fix = finding.verdict, f" <code>{escape(finding.fix)}</code>" if finding.fix else ""
    return (
        Html(f'<span role="img" title="{verdict}" aria-label="{verdict}">{_SIGNS[verdict]}</span>'),
        Html(f'<span style="white-space: nowrap">{escape(finding.subject)}</span>'),  # also with a hyphen
        Html(escape(finding.text) + fix),
    )


def examine(cluster: RunningCluster | None) -> DoctorView:
    """Run all checks: driver, GPUs, packages, patches, settings, and whether the workers have the kernel's versions."""
    from ..client.calls import run_on_workers
    from ..gpu_libraries import examine_process

    workers: dict[str, Examined] = {}
    if cluster is not None:
        workers = run_on_workers(cluster.client, examine_process, _RESPONSE_TIMEOUT)
    return DoctorView(
        [
            *_check_driver(cluster),
            *_check_packages(workers.values()),
            *_check_settings(),
            *_check_patches(),
            *_check_kernel(cluster),
            *_check_workers(cluster, workers),
        ]
    )


def _check_driver(cluster: RunningCluster | None) -> Iterator[Finding]:
    from ..machine import gpus
    from ..machine.leases import LeaseFolder, holders_of

    try:
        found = gpus.list_gpus()
        cuda = gpus.cuda_driver_version()
        yield Finding("driver", "ok", f"{gpus.driver_version()}, for CUDA {cuda} and older")
    except GpuUnavailableError as error:
        yield Finding("driver", "problem", error.reason, error.fix)
        return
    visible = gpus.visible_gpus()
    if not found:
        yield Finding("GPUs", "problem", "The driver finds none.", "Type in a shell: nvidia-smi")
    elif not visible:
        names = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        yield Finding("GPUs", "problem", f"CUDA_VISIBLE_DEVICES={names} hides all {len(found)}.", "Unset it.")
    else:
        hidden = f" of {len(found)}" if len(visible) < len(found) else ""
        yield Finding("GPUs", "ok", f"{len(visible)}{hidden}: {', '.join(sorted({gpu.name for gpu in visible}))}")
    supervisor = None if cluster is None else cluster.ready.pid
    holders = holders_of(LeaseFolder().read(), own=(os.getpid(), supervisor))
    for gpu in visible:
        yield from _check_gpu(gpu, holders.get(gpu.uuid, ()))


def _check_gpu(gpu: GpuState, holders: Sequence[str]) -> Iterator[Finding]:
    from ..machine.leases import THIS_KERNEL

    subject = f"GPU {gpu.index}"
    if gpu.uuid.startswith("MIG-"):
        yield Finding(subject, "note", f"is the MIG instance {gpu.uuid}; it has its own memory.")
    if gpu.memory_total is None or gpu.memory_used is None:
        yield Finding(subject, "note", "does not report its memory.")
        return
    free = gpu.memory_total - gpu.memory_used
    text = f"{format_bytes(free)} of {format_bytes(gpu.memory_total)} free"
    if holders:
        text += f"; reserved by {' and '.join(holders)}"
    if gpu.processes:
        text += f"; used by {', '.join(_describe_process(process.pid) for process in gpu.processes)}"
    if free < _MIN_FREE * gpu.memory_total:
        is_ours = THIS_KERNEL in holders or os.getpid() in _pids(gpu)
        yield Finding(subject, "problem", text, "Type: %gpudask free" if is_ours else "")
    else:
        yield Finding(subject, "ok" if set(holders) <= {THIS_KERNEL} else "note", text)


def _describe_process(pid: int) -> str:
    import psutil

    try:
        process = psutil.Process(pid)
        return f"{process.name()} (pid {pid} of {process.username()})"
    except psutil.Error:
        return f"pid {pid}"


def _check_packages(workers: Iterable[Examined]) -> Iterator[Finding]:
    from ..gpu_libraries import examine_process, try_libraries
    from ..machine.gpus import extra_for_gpus

    if not (extra := extra_for_gpus()):
        yield Finding("GPU packages", "note", "were not checked: they need a driver.")
        return
    here = examine_process(compute=False).place
    # A worker in this environment has imported most of them already; importing takes seconds.
    answers = {name: (True, own.versions[name]) for own in workers if own.place == here for name in own.working}
    there = [name for name in _GPU_LIBRARIES if importlib.util.find_spec(name) is not None]
    answers |= try_libraries([name for name in there if name not in answers])
    for name, title in _GPU_LIBRARIES.items():
        works, text = answers.get(name, (False, "is not installed."))
        fix = "" if works else f"Type: {pip_install(extra)} and restart the kernel."
        yield Finding(title, "ok" if works else "problem", text, fix)


def _check_settings() -> Iterator[Finding]:
    from ..switch.context import check_arrays

    try:
        check_arrays()
    except BackendUnavailableError as error:
        yield Finding("Dask", "problem", error.reason, error.fix)
    else:
        yield Finding("Dask", "ok", version("dask"))


def _check_patches() -> Iterator[Finding]:
    from ..patches.apply import patches

    rows = list(patches.examine("kernel"))
    misfit = next((misfit for _, _, misfit in rows if misfit is not None), None)
    if misfit is not None:
        yield Finding("patches", "problem", misfit.reason, misfit.fix)
        return
    names = [name for name, why, _ in rows if not why]
    when = "" if patches.are_applied("kernel") else ", by the first GPU cell"
    skipped = [f"{name} ({why})" for name, why, _ in rows if why]
    not_needed = f"; not needed: {', '.join(skipped)}" if skipped else ""
    yield Finding("patches", "ok", f"{len(names)} changes of other libraries{when}: {', '.join(names)}{not_needed}")


def _check_kernel(cluster: RunningCluster | None) -> Iterator[Finding]:
    from ..machine.gpus import list_gpus
    from ..switch.context import check_context

    try:
        check_context()
    except BrokenContextError as error:
        yield Finding("kernel", "problem", error.reason, error.fix)
    if cluster is None or not cluster.ready.gpus:
        return
    own = {gpu.uuid for gpu in cluster.ready.gpus}
    astray = [gpu.index for gpu in list_gpus() if gpu.uuid not in own and os.getpid() in _pids(gpu)]
    if astray:
        fix = "Restart the kernel, and start the cluster before anything else uses CUDA."
        yield Finding("kernel", "problem", f"uses GPU {astray[0]}, which its cluster has not reserved.", fix)


def _pids(gpu: GpuState) -> set[int]:
    return {process.pid for process in gpu.processes}


def _check_workers(cluster: RunningCluster | None, workers: dict[str, Examined]) -> Iterator[Finding]:
    if cluster is None:
        yield Finding("cluster", "note", "This kernel has none.", "Type: %gpudask start")
        return
    from ..gpu_libraries import examine_process

    here, there = examine_process(compute=False).versions, [own.versions for own in workers.values()]
    asked = len(cluster.client.scheduler_info(-1)["workers"])
    silent = asked - len(there)
    if silent > 0:
        yield Finding("workers", "problem", f"{silent} of {asked} do not respond.", "Type: %gpudask logs")
    exits = cluster.state().worker_exits
    if exits:
        counted = f"{format_count(len(exits), 'worker')} {'was' if len(exits) == 1 else 'were'} replaced"
        when = time.strftime("%H:%M:%S", time.localtime(exits[-1].time))
        text = f"{counted}. The last one {exits[-1].reason.rstrip('.')}, at {when}."
        yield Finding("exits", "note", text, "Type: %gpudask logs")
    differ = {
        f"{name} is {version} in the kernel and {versions[name]} in a worker"
        for versions in there
        for name, version in here.items()
        if versions.get(name, version) != version
    }
    if differ:
        yield Finding("versions", "problem", f"{'; '.join(sorted(differ))}.", "Restart the kernel.")
    elif there:
        yield Finding("versions", "ok", f"The kernel and {format_count(len(there), 'worker')} have the same versions.")
