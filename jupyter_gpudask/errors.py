"""The exceptions of this package; the catalog errors.toml has their sentences: what is wrong, and what to type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from functools import cache
from types import TracebackType
from typing import Any, Self

from .installation import documentation


@dataclass(frozen=True)
class Entry:
    """An error of the catalog; errors.toml explains its keys."""

    reason: str = ""
    fix: str = ""
    field: str = ""
    actions: Sequence[str] = ()
    more: str = ""


@cache
def catalog() -> dict[str, dict[str, Entry]]:
    """The errors by code, for each class by its name."""
    import tomllib  # here, because only errors need it
    from pathlib import Path

    sections = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    return {name: {code: Entry(**entry) for code, entry in entries.items()} for name, entries in sections.items()}


class _Values(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return name if name.startswith("--") else ""


class GpuDaskError(Exception):
    """Base class of the exceptions of this package.

    Parameters
    ----------
    code
        Its key in the catalog, which can be left out if the class has only one.
    log
        The last lines of the log of what failed; `LoggedError` shows them.
    reserved_gpus
        The UUIDs of the GPUs that others have reserved, if it is for these.
    fields
        The values in its sentences.

    Attributes
    ----------
    reason
        What is wrong, as one sentence.
    fix
        What the user can do, as one sentence; empty if there is nothing to do.
    """

    def __init__(
        self, code: str = "", /, *, log: str = "", reserved_gpus: Iterable[str] = (), **fields: object
    ) -> None:
        if not code:
            (code,) = catalog()[type(self).__name__]
        if not any(code in entries for entries in catalog().values()):
            raise TypeError(f"No error has the code {code!r}.")  # Dask then does not replace an error with its own
        self.code, self.log, self.reserved_gpus = code, log, tuple(reserved_gpus)
        self.fields = {name: f"{value:g}" if isinstance(value, float) else str(value) for name, value in fields.items()}
        self.reason, self.fix = (self._fill(text) for text in (self.entry.reason, self.entry.fix))
        super().__init__(f"{self.reason} {self.fix}".strip())

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> Self:
        """The exception with these attributes, from another process; it may have a code that this version lacks."""
        error = cls.__new__(cls)
        vars(error).update(state)
        error.args = (f"{error.reason} {error.fix}".strip(),)
        return error

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).restore, (vars(self),)

    def _fill(self, text: str) -> str:
        return text.format_map(_Values(self.fields)).strip()

    @property
    def entry(self) -> Entry:
        """What the catalog says of it; empty for an error of another version."""
        return next((entries[self.code] for entries in catalog().values() if self.code in entries), Entry())

    @property
    def field(self) -> str:
        """The field of the start form that it is about; may be empty."""
        return self._fill(self.entry.field)

    @property
    def address(self) -> str:
        """Where the error is documented, the last line of the error in a notebook; empty without an address."""
        name = type(self).__name__
        anchor = self.code if self.entry.reason else name.lower() * (name in catalog())
        return documentation(f"errors.md#{anchor}" if anchor else "errors.md")


class ArgumentsError(GpuDaskError):
    """The arguments of a command or of a ``%%gpudask`` line are not valid."""


class SpecError(GpuDaskError):
    """An option of a cluster has an invalid value; nothing was started.

    Attributes
    ----------
    others
        The errors of other options that were given with it.
    """

    others: tuple[SpecError, ...] = ()


class OptionConflictError(SpecError):
    """Two options of a cluster contradict each other; nothing was started."""


class GpuUnavailableError(GpuDaskError):
    """The requested GPUs do not exist, or cannot be used."""


class GpuPackagesMissingError(GpuDaskError):
    """There is a GPU, but the GPU packages are missing; the message has the command that installs them."""


class GpuReservedError(GpuDaskError):
    """Another cluster has reserved the requested GPUs; the message names its notebook, or its user.

    *(accelerated)* after a name means that the kernel of that notebook has run ``%gpudask accelerate``; it reserves the
    GPU until it is restarted.
    """


class ClusterIdleError(GpuDaskError):
    """The server closed a cluster that was idle for longer than the administrator allows."""


class ClusterLifetimeError(GpuDaskError):
    """The server closed a cluster that was running for longer than the administrator allows."""


class GpusHandedOverError(GpuDaskError):
    """The server closed an idle cluster because a start waits for its GPUs, and nobody answered the notice."""


class LimitError(GpuDaskError):
    """The request exceeds a limit that the administrator of the server has set."""


class ScaleError(GpuDaskError):
    """`scale` cannot close workers, because their results or actors are not on other workers; they stay."""


class KernelNotFoundError(GpuDaskError):
    """The server has no kernel with this id."""


class PresetNotFoundError(GpuDaskError):
    """The server has no cluster preset with this name."""


class KernelUnsuitableError(GpuDaskError):
    """The server cannot start a cluster for a kernel: it is not a Python kernel, or not on this machine."""


class LoggedError(GpuDaskError):
    """Base class of the exceptions whose message ends with a log."""

    _SHOWN = 20

    def __str__(self) -> str:
        return "\n".join([super().__str__(), *self.log.splitlines()[-self._SHOWN :]])


class ClusterStartError(LoggedError):
    """A cluster did not start; all its processes have been stopped."""


class ClusterLostError(LoggedError):
    """A running cluster was lost: its supervisor exited unexpectedly, or was closed by somebody else."""

    _SHOWN = 5


class ClusterExistsError(GpuDaskError):
    """The kernel already has a cluster with other options; the message names these, each with both values."""


class ConnectError(GpuDaskError):
    """The kernel cannot be connected to a scheduler that somebody else started; nothing was changed there."""


class NotOwnedError(GpuDaskError):
    """The command needs a cluster that this kernel has started, and somebody else started this one."""


class NoClusterError(GpuDaskError):
    """The command needs a cluster, and this kernel has none."""


class ProtocolError(GpuDaskError):
    """A message between the supervisor and its parent is invalid, or of another version."""


class SwitchThreadError(GpuDaskError):
    """A ``with gpu():`` block was entered in one thread and left in another; it did not apply to the code between."""


class BackendUnavailableError(GpuDaskError):
    """The requested backend cannot be used in this kernel."""


class AccelerationError(GpuDaskError):
    """``%gpudask accelerate`` cannot load ``cudf.pandas`` and ``cuml.accel`` in this kernel; nothing was loaded."""


class CodeError(GpuDaskError):
    """Base class of errors in the user's code; IPython shows the traceback down to the user's line and no further."""

    def _render_traceback_(self) -> list[str]:
        """The traceback as IPython shows it; IPython calls this method."""
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
        return [*lines, *filter(None, [self.address])]


class MixedBackendsError(CodeError, TypeError):
    """An operation has operands on the CPU and on the GPU; also a `TypeError`.

    Parameters
    ----------
    host, gpu
        The names of the operands on the CPU and on the GPU in the user's code.
    movable
        Whether ``--move`` can move the operand on the CPU.
    """

    def __init__(self, host: str, gpu: str, *, movable: bool) -> None:
        verb, names = "are" if " and " in host else "is", host.replace(" and ", ",")
        super().__init__("mixed-movable" if movable else "mixed", host=host, gpu=gpu, verb=verb, names=names)


class NotOnGpuError(CodeError):
    """A cell with ``--strict`` uses an operation that CuPy or cuDF lack.

    Parameters
    ----------
    operation
        The name of the function.
    layer
        The name of the Dask collection that it computes.
    lack
        What the GPU library said.
    line
        The line of the user's code; 0 if it is not known.
    """

    def __init__(self, operation: str, layer: str, lack: str, line: int = 0) -> None:
        self.operation, self.layer, self.lack = operation, layer, lack
        super().__init__(function=function_at(operation, line), error=lack.rstrip(". "))


def function_at(name: str, line: int) -> str:
    """A function in the user's code, such as ``f (line 3)``; the line is 0 if it is not known."""
    return f"{name} (line {line})" if line else name


class BrokenContextError(CodeError, RuntimeError):
    """A CUDA context is broken: CUDA returns the same error for every later call of that process.

    The error is also a `RuntimeError`.
    """


class PatchError(GpuDaskError):
    """A patch of another library does not fit the installed version; nothing was changed."""


class MoveError(GpuDaskError):
    """``--move`` names a variable that cannot be moved to the GPUs."""


class ResultTooLargeError(CodeError, MemoryError):
    """A result does not fit in the memory of the kernel's GPU; it was not moved there. Also a `MemoryError`."""


class ResultsLostError(CodeError, CancelledError):
    """Required results are no longer on the workers; a `CancelledError`, as Dask itself raises."""


class WorkersEndedError(CodeError, RuntimeError):
    """The worker processes that had a task ended, so that Dask gave it up.

    Dask's setting ``distributed.scheduler.allowed-failures`` says after how many exits; Dask raises ``KilledWorker``.
    """


class PicklingError(CodeError, TypeError):
    """A function, or a value that it uses, cannot be sent to the workers; also a `TypeError`, as in Dask."""


class ResultPicklingError(CodeError, TypeError):
    """A result cannot be sent from its worker to the kernel, or to another worker; also a `TypeError`, as in Dask."""


class ReportError(GpuDaskError):
    """The file of ``--report`` cannot be written."""


class ComparisonError(GpuDaskError):
    """The cell cannot be run with ``--compare``."""
