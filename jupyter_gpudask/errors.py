"""Everything that can go wrong, one exception each, with the sentence that the user reads and what to type next."""

from __future__ import annotations

from concurrent.futures import CancelledError
from types import TracebackType
from typing import TYPE_CHECKING

from .installation import pip_install

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class GpuDaskError(Exception):
    """Base of all errors of this package: a sentence that says what is wrong, and one that says how to go on.

    Parameters
    ----------
    reason
        What is wrong, as one sentence.
    fix
        What the user can do about it, as one sentence; empty when there is nothing to do.
    """

    def __init__(self, reason: str, fix: str = "") -> None:
        self.reason = reason
        self.fix = fix
        super().__init__(f"{reason} {fix}".strip())


class SpecError(GpuDaskError):
    """An option of a cluster has a value that is not allowed; nothing was started."""

    def __init__(self, option: str, value: object, allowed: str) -> None:
        self.option = option
        self.value = value
        super().__init__(f"{option} {value!r} is not allowed:", f"give {allowed}.")


class GpuUnavailableError(GpuDaskError):
    """GPUs were asked for that this machine does not have, or cannot be talked to."""


class GpuPackagesMissingError(GpuDaskError):
    """There is a GPU, but not the packages that use it; the fix is the command that installs them."""

    def __init__(self, missing: Sequence[str], extra: str) -> None:
        self.missing = tuple(missing)
        self.extra = extra
        names = ", ".join(missing)
        super().__init__(
            f"This machine has a GPU, but this Python environment lacks {names}.",
            f"Type: {pip_install(extra)} and restart the kernel, or start with --cpu.",
        )


class GpuHeldError(GpuDaskError):
    """GPUs were asked for that another cluster of this user holds; the message names the notebooks."""


class ClusterIdleError(GpuDaskError):
    """A cluster had nothing to do for as long as the administrator allows, and was closed."""

    def __init__(self, seconds: float) -> None:
        period = f"{seconds / 60:g} minutes" if seconds >= 60 else f"{seconds:g} seconds"
        super().__init__(
            f"The cluster was closed after {period} without work; what its workers held is lost.",
            "Type: %gpudask restart",
        )


class LimitError(GpuDaskError):
    """The administrator of the server allows no more of what was asked for."""


class KernelNotFoundError(GpuDaskError):
    """The server has no kernel of that id."""

    def __init__(self, kernel_id: str) -> None:
        super().__init__(f"There is no kernel {kernel_id}.")


class ProfileNotFoundError(GpuDaskError):
    """The administrator has named no profile so."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        names = ", ".join(known)
        super().__init__(f"There is no profile {name!r}.", f"Take one of: {names}." if names else "There are none.")


class KernelUnsuitableError(GpuDaskError):
    """A kernel cannot have a cluster from this server: it is not Python, or not on this machine."""


class LoggedError(GpuDaskError):
    """Base of the errors that have a log to show.

    Parameters
    ----------
    reason, fix
        As for `GpuDaskError`.
    log
        The last lines of the log of the worker, or of the supervisor, that failed.
    """

    _SHOWN = 20

    def __init__(self, reason: str, fix: str = "", log: str = "") -> None:
        super().__init__(reason, fix)
        self.log = log

    def __str__(self) -> str:
        return "\n".join([super().__str__(), *self.log.splitlines()[-self._SHOWN :]])


class ClusterStartError(LoggedError):
    """A cluster did not come up; nothing of it is left behind."""


class ClusterLostError(LoggedError):
    """A cluster that was up is gone: its supervisor ended without being asked to."""

    _SHOWN = 5


class ClusterExistsError(GpuDaskError):
    """A cluster with other options is already running in this kernel."""


class NoClusterError(GpuDaskError):
    """A command needs a cluster, and this kernel has none."""

    def __init__(self) -> None:
        super().__init__("This kernel has no cluster.", "Type: %gpudask start")


class ProtocolError(GpuDaskError):
    """The supervisor and its parent do not understand each other."""


class BackendUnavailableError(GpuDaskError):
    """A cell asked for a backend that cannot be switched on in this kernel."""


class CodeError(GpuDaskError):
    """Something that the user's own code does is refused; shown at the line that does it, without the lines below."""

    def _render_traceback_(self) -> list[str]:
        """What IPython shows; it asks each exception for this."""
        from IPython.core.getipython import get_ipython

        frames = []
        traceback = self.__traceback__
        while traceback is not None:
            frames.append(traceback)
            traceback = traceback.tb_next
        while frames and frames[-1].tb_frame.f_globals.get("__name__") != "__main__":
            frames.pop()
        shown: TracebackType | None = None
        for entry in reversed(frames):
            shown = TracebackType(shown, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
        shell = get_ipython()
        assert shell is not None
        lines: list[str] = shell.InteractiveTB.structured_traceback(type(self), self, shown, tb_offset=1)
        return lines


class MixedBackendsError(CodeError, TypeError):
    """CPU and GPU collections in one operation, which neither library can compute.

    Parameters
    ----------
    host, gpu
        What the user calls the one on the CPU and the one on the GPU.
    movable
        Whether ``--move`` moves the one on the CPU.
    """

    def __init__(self, host: str, gpu: str, *, movable: bool) -> None:
        super().__init__(
            f"{host} is on the CPU and {gpu} on the GPU; they cannot be computed together.",
            f"Type: %%gpudask --move {host.replace(' and ', ',')}, or make it in the cell."
            if movable
            else "Make a GPU collection of it in the cell: da.asarray, da.from_array or dd.from_pandas.",
        )


class PatchError(GpuDaskError):
    """A change of another library does not fit the version that is installed; nothing was changed."""

    def __init__(self, patch: str, installed: str, why: str, wanted: Iterable[str], *, in_cell: bool) -> None:
        self.patch = patch
        way_out = ", or run the cell with --array numpy --dataframe pandas" if in_cell else ""
        super().__init__(
            f"The patch {patch!r} does not fit {installed}: {why}.",
            f"Install {' and '.join(wanted)} and restart the kernel{way_out}.",
        )


class MoveError(GpuDaskError):
    """``--move`` names something that cannot be moved to the GPUs."""


class ResultTooLargeError(CodeError, MemoryError):
    """A result would not fit the GPU of the kernel; it was not moved there."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            reason, "Keep it on the workers with persist() instead of compute(), or type: %%gpudask --to-host"
        )


class ResultsLostError(CodeError, CancelledError):
    """Results that code needs are no longer on the workers; for code that knows Dask alone, they were cancelled."""


class ReportError(GpuDaskError):
    """``--report`` names a file that cannot be written."""


class ComparisonError(GpuDaskError):
    """``--compare`` was asked for where there is nothing to compare with."""
