"""``%gpudask accelerate``: load ``cudf.pandas`` and ``cuml.accel`` for code that does not use Dask."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from IPython.core.interactiveshell import InteractiveShell

from ..errors import AccelerationError, GpuReservedError, GpuUnavailableError
from ..installation import pip_install
from ..machine.gpus import visible_gpus
from ..machine.leases import Lease, LeaseFolder, OwnLease, holders_of
from ..machine.plan import select_unleased_gpus
from ..protocol.spec import ClusterSpec
from ..protocol.state import GpuState
from ..session.launch import set_first_device
from ..session.server_connection import kernel_id
from ..session.session import Session
from .output import Note

COMM_TARGET = "jupyter_gpudask:accelerate"
"""The target of the comm that is open in an accelerated kernel; the notebook's toolbar shows it."""


@dataclass(frozen=True)
class _Accelerator:
    """An extension of IPython that replaces libraries which are imported after it."""

    extension: str  # its name
    library: str  # what it runs on the GPU
    replaces: tuple[str, ...]  # the modules that it replaces
    install: str  # the command that installs it

    @property
    def is_installed(self) -> bool:
        return importlib.util.find_spec(self.extension.partition(".")[0]) is not None


def _accelerators() -> tuple[_Accelerator, ...]:
    """Source: documentation of cudf.pandas, "Usage", and of cuml.accel, "Getting started"."""
    return (
        _Accelerator("cudf.pandas", "pandas", ("pandas",), pip_install("cu13")),
        _Accelerator("cuml.accel", "scikit-learn", ("sklearn", "umap", "hdbscan"), "%pip install cuml-cu13"),
    )


def accelerate(shell: InteractiveShell, session: Session) -> Note:
    """Load the accelerators that are installed, on a GPU that is reserved for the kernel from then on.

    Without a GPU nothing is loaded: the rest of the notebook runs on the CPU, with the same results.

    Raises `AccelerationError` if no accelerator is installed, or a library that one replaces is imported already.
    Raises `GpuReservedError` if other clusters have reserved all GPUs, or the one that this kernel already uses.
    """
    extensions = shell.extension_manager
    assert extensions is not None
    known = _accelerators()
    installed = [each for each in known if each.is_installed]
    new = [each for each in installed if each.extension not in extensions.loaded]
    if installed and not new:
        _report(shell)
        return Note(f"{_libraries(installed)} on the GPU already.")
    try:
        gpus = visible_gpus()
    except GpuUnavailableError as error:
        return _without_gpu(error.reason)
    if not gpus:
        return _without_gpu("This kernel sees no GPU.")
    if not installed:
        raise AccelerationError("no-accelerator", install=pip_install("cu13"))
    imported = [name for each in new for name in each.replaces if name in sys.modules]
    if imported:
        raise AccelerationError(
            "imported-before", imported=" and ".join(imported), extensions=" and ".join(each.extension for each in new)
        )
    cluster = session.cluster
    with lease_first_device(gpus, kernel_id(), None if cluster is None else cluster.ready.pid) as gpu:
        failures = _load(shell, new)
    loaded = [each for each in installed if each not in failures]
    sentences = [f"{_libraries(loaded)} on GPU {gpu.index} in this kernel, until it is restarted."]
    sentences += [
        f"{each.library} stays on the CPU, because {each.extension} cannot be loaded: {reason}"
        for each, reason in failures.items()
    ]
    sentences += [
        f"{each.library} stays on the CPU; to change that, type: {each.install} and restart the kernel."
        for each in known
        if each not in installed
    ]
    return Note(" ".join(sentences))


def _load(shell: InteractiveShell, accelerators: Sequence[_Accelerator]) -> dict[_Accelerator, str]:
    """Load them, and return the reasons of those that fail, such as a missing library of CUDA; if all fail, raise."""
    failures = {}
    for each in accelerators:
        try:
            shell.extension_manager.load_extension(each.extension)  # type: ignore[union-attr]
        except Exception as error:  # noqa: BLE001 - whatever it is, the notebook goes on without this library
            failures[each] = (str(error) or type(error).__name__).splitlines()[0]
        else:
            _report(shell)
    if len(failures) == len(accelerators):
        each, reason = next(iter(failures.items()))
        raise AccelerationError("not-loaded", extension=each.extension, error=reason.removesuffix("."))
    return failures


def _libraries(accelerators: Sequence[_Accelerator]) -> str:
    names = " and ".join(each.library for each in accelerators)
    return f"{names} {'runs' if len(accelerators) == 1 else 'run'}"


def _without_gpu(reason: str) -> Note:
    return Note(f"pandas and scikit-learn stay on the CPU. {reason}")


def _report(shell: InteractiveShell) -> None:
    """Let the front end know; a comm is open until the kernel ends, and a page that is opened later can find it."""
    if hasattr(shell, "kernel"):
        from comm import create_comm, get_comm_manager

        if not any(each.target_name == COMM_TARGET for each in get_comm_manager().comms.values()):
            create_comm(target_name=COMM_TARGET)


@contextmanager
def lease_first_device(visible: Sequence[GpuState], kernel_id: str, supervisor: int | None) -> Iterator[GpuState]:
    """Make a GPU device 0 of this process that no cluster of another kernel has reserved, and reserve it meanwhile.

    If the body raises, the lease is released.

    `kernel_id`, `supervisor`: this kernel, and the pid of its supervisor if it has a cluster. A GPU of this cluster is
    preferred; otherwise it is the free GPU with the most free memory. Raises `GpuReservedError` if other clusters have
    reserved all of them, or the one that this process already uses. Raises `AccelerationError` if the lease cannot be
    written.
    """
    folder = LeaseFolder()
    lease: OwnLease | None = None
    try:
        with folder.lock() as leases:
            first = _set_first_unleased_device(visible, leases, kernel_id, supervisor)
            if not any(each.is_of_this_process for each in leases):
                notebook = Path(os.environ.get("JPY_SESSION_NAME", "")).name or f"process {os.getpid()}"
                holder = f"{notebook} (accelerated)"
                uuids = (first.uuid,)
                lease = folder.take(uuids, holder=holder, kernel_id=kernel_id, share=False, accelerates=True)
    except OSError as error:
        raise AccelerationError("gpu-lease-not-written", folder=folder.place_of(error), error=error.strerror) from None
    try:
        yield first
    except BaseException:
        if lease is not None:
            lease.release()
        raise


def _set_first_unleased_device(
    visible: Sequence[GpuState], leases: Sequence[Lease], kernel_id: str, supervisor: int | None
) -> GpuState:
    own = [
        lease
        for lease in leases
        if lease.is_of_this_process or lease.pid == supervisor or (kernel_id and lease.kernel_id == kernel_id)
    ]
    own_gpus = {uuid for lease in own for uuid in lease.gpus}
    candidates = [gpu for gpu in visible if gpu.uuid in own_gpus]
    if not candidates:
        try:
            candidates = select_unleased_gpus(ClusterSpec.parse({"gpus": 1}), visible, leases)
        except GpuReservedError as error:
            raise GpuReservedError("no-gpu-to-accelerate", **error.fields, reserved_gpus=error.reserved_gpus) from None
    set_first_device([candidates[0].uuid])
    first = visible_gpus()[0]
    holders = holders_of(leases).get(first.uuid, [])
    if first.uuid not in own_gpus and holders:  # CUDA is initialized, and keeps its device
        raise GpuReservedError("first-gpu-reserved", gpu=first.index, holders=" and ".join(holders))
    return first
