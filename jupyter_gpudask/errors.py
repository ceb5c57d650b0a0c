"""The exceptions of this package. Each message says what is wrong and then what to type."""

from __future__ import annotations

from concurrent.futures import CancelledError
from types import TracebackType
from typing import TYPE_CHECKING

from .error_anchors import errors_page
from .installation import documentation, pip_install

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Self

_MAX_SHOWN = 300


class GpuDaskError(Exception):
    """Base class of the exceptions of this package.

    Parameters
    ----------
    reason
        What is wrong, as one sentence.
    fix
        What the user can do, as one sentence; empty if there is nothing to do.
    """

    def __init__(self, reason: str, fix: str = "") -> None:
        self.reason = reason
        self.fix = fix
        super().__init__(f"{reason} {fix}".strip())

    @property
    def address(self) -> str:
        """Where the sentence is documented, the last line of the error in a notebook; empty without an address."""
        return documentation(errors_page(type(self).__name__.lower(), self.reason))


class SpecError(GpuDaskError):
    """An option of a cluster has an invalid value; nothing was started.

    Parameters
    ----------
    option
        The option as it is typed, such as ``--pool``.
    value
        The invalid value.
    allowed
        The valid values, in words.

    Attributes
    ----------
    others
        The errors of other options that were given with it.
    """

    others: tuple[SpecError, ...] = ()

    def __init__(self, option: str, value: object, allowed: str) -> None:
        self.option = option
        self.value = value
        # Options that are repeated are lists; they are shown as they are typed.
        words = [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
        shown = " ".join(words) if words and words == value else value
        super().__init__(f"{_shortened(option)} {_shortened(repr(shown))} is not allowed:", f"give {allowed}.")


class OptionConflictError(SpecError):
    """Two options of a cluster contradict each other; nothing was started."""

    def __init__(self, option: str, reason: str, fix: str) -> None:
        self.option = option
        GpuDaskError.__init__(self, reason, fix)


class GpuUnavailableError(GpuDaskError):
    """The requested GPUs do not exist, or cannot be used."""


class GpuPackagesMissingError(GpuDaskError):
    """There is a GPU, but the GPU packages are missing; the message has the command that installs them."""

    def __init__(self, missing: Sequence[str], extra: str) -> None:
        self.missing = tuple(missing)
        self.extra = extra
        names = ", ".join(missing)
        super().__init__(
            f"This machine has a GPU, but this Python environment lacks {names}.",
            f"Type: {pip_install(extra)} and restart the kernel, or start with --cpu.",
        )


class GpuHeldError(GpuDaskError):
    """Another cluster holds the requested GPUs; the message names its notebook, or its user.

    Parameters
    ----------
    reason, fix
        See `GpuDaskError`.
    held
        The UUIDs of these GPUs; none if others stand in line for them.
    """

    def __init__(self, reason: str, fix: str = "", held: Iterable[str] = ()) -> None:
        super().__init__(reason, fix)
        self.held = tuple(held)


class ClusterIdleError(GpuDaskError):
    """The server closed a cluster that was idle for longer than the administrator allows."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"The cluster was closed after {_period(seconds)} without work; what its workers held is lost.",
            "Type: %gpudask restart",
        )


class ClusterLifetimeError(GpuDaskError):
    """The server closed a cluster that was running for longer than the administrator allows."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"The cluster was closed after {_period(seconds)}, its maximum lifetime; what its workers held is lost.",
            "Type: %gpudask restart",
        )


class GpusHandedOverError(GpuDaskError):
    """The server closed an idle cluster because a start waits for its GPUs, and nobody answered the notice."""

    def __init__(self, seconds: float, user: str) -> None:
        super().__init__(
            f"The cluster was closed after {_period(seconds)} without work, because {user} waits for its GPUs; what "
            "its workers held is lost.",
            "Type: %gpudask start --wait",
        )


class LimitError(GpuDaskError):
    """The request exceeds a limit that the administrator of the server has set."""


class ScaleError(GpuDaskError):
    """`scale` cannot close workers, because their results or actors are not on other workers; they stay."""

    @classmethod
    def cannot_move(cls, workers: int) -> Self:
        """The error that so many workers stay."""
        stay = "worker stays, because its" if workers == 1 else "workers stay, because their"
        return cls(
            f"{workers} {stay} results or actors cannot be moved to the others.",
            "Delete some, which %gpudask held lists, or keep more workers.",
        )


class KernelNotFoundError(GpuDaskError):
    """The server has no kernel with this id."""

    def __init__(self, kernel_id: str) -> None:
        super().__init__(f"There is no kernel {kernel_id}.", "Restart the notebook's kernel.")


class ProfileNotFoundError(GpuDaskError):
    """The server has no cluster profile with this name."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        names = ", ".join(known)
        super().__init__(
            f"There is no profile {name!r}.",
            f"Choose one of: {names}." if names else "The administrator has set up no profiles.",
        )


class KernelUnsuitableError(GpuDaskError):
    """The server cannot start a cluster for a kernel: it is not a Python kernel, or not on this machine."""


class LoggedError(GpuDaskError):
    """Base class of the exceptions whose message ends with a log.

    Parameters
    ----------
    reason, fix
        See `GpuDaskError`.
    log
        The last lines of the log of the worker or of the supervisor that failed.
    """

    _SHOWN = 20

    def __init__(self, reason: str, fix: str = "", log: str = "") -> None:
        super().__init__(reason, fix)
        self.log = log

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
    """The command needs a cluster that this kernel has started, and somebody else started this one.

    Parameters
    ----------
    address
        The address of the scheduler.
    what
        What is refused, as a sentence.
    """

    def __init__(self, address: str, what: str) -> None:
        super().__init__(
            f"This kernel is connected to {address}, which somebody else started. {what}",
            "Type: %gpudask disconnect, then %gpudask start for a cluster of this kernel.",
        )


class NoClusterError(GpuDaskError):
    """The command needs a cluster, and this kernel has none."""

    def __init__(self) -> None:
        super().__init__("This kernel has no cluster.", "Type: %gpudask start")


class ProtocolError(GpuDaskError):
    """A message between the supervisor and its parent is invalid, or of another version."""


class SwitchThreadError(GpuDaskError):
    """A ``with gpu():`` block was entered in one thread and left in another; it did not hold for the code between."""

    def __init__(self) -> None:
        super().__init__(
            "A gpu() block was entered in one thread and left in another: the code between did not run on the GPUs.",
            "Enter and leave it in the thread that computes.",
        )


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
    """An operation has operands on the CPU and on the GPU.

    Parameters
    ----------
    host, gpu
        The names of the operands on the CPU and on the GPU in the user's code.
    movable
        Whether ``--move`` can move the operand on the CPU.
    """

    def __init__(self, host: str, gpu: str, *, movable: bool) -> None:
        verb = "are" if " and " in host else "is"
        super().__init__(
            f"{host} {verb} on the CPU and {gpu} on the GPU; one operation cannot use both.",
            f"Type: %%gpudask --move {host.replace(' and ', ',')}, or create it in the cell."
            if movable
            else "Create a GPU collection from it in the cell: da.asarray, da.from_array or dd.from_pandas.",
        )


class NotOnGpuError(CodeError):
    """A cell with ``--strict`` uses an operation that CuPy or cuDF lack.

    Parameters
    ----------
    operation
        The name of the function.
    layer
        The name of the Dask collection that it computes.
    words
        What the GPU library said.
    line
        The line of the user's code; 0 if it is not known.
    """

    def __init__(self, operation: str, layer: str, words: str, line: int = 0) -> None:
        self.operation, self.layer, self.words, self.line = operation, layer, words, line
        where = f" (line {line})" if line else ""
        super().__init__(
            f"{operation}{where} cannot run on the GPU: {words.rstrip('. ')}.",
            "To run it on the CPU, leave out --strict and type: %config GpuDask.fallback = 'host'",
        )

    def __reduce__(self) -> tuple[type, tuple[str, str, str, int]]:
        return NotOnGpuError, (self.operation, self.layer, self.words, self.line)


class BrokenContextError(CodeError, RuntimeError):
    """A CUDA context is broken: CUDA returns the same error for every later call of that process.

    Parameters
    ----------
    reason, fix
        See `GpuDaskError`.
    """

    @classmethod
    def of_function(cls, function: str, line: int, words: str, times: int) -> Self:
        """The error of a function that has broken the contexts of so many workers.

        Parameters
        ----------
        function
            The name of the function.
        line
            Its line in the user's code; 0 if it is not known.
        words
            What CUDA said.
        times
            How many workers were replaced.
        """
        where = f" (line {line})" if line else ""
        return cls(
            f"{function}{where} broke the CUDA context of its worker {times} times: {words.rstrip('. ')}.",
            "Check its indices and pointers. To find its line, start with --environment CUDA_LAUNCH_BLOCKING=1.",
        )

    @classmethod
    def of_kernel(cls, words: str) -> Self:
        """The error of a cell of a kernel whose own context is broken."""
        return cls(
            f"The CUDA context of this kernel is broken: {words.rstrip('. ')}.",
            "Save the variables that you need, for example with %store NAME, and restart the kernel. Until then, cells "
            "run on the CPU: %%gpudask --array numpy --dataframe pandas",
        )

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return type(self), (self.reason, self.fix)


class PatchError(GpuDaskError):
    """A patch of another library does not fit the installed version; nothing was changed."""

    def __init__(self, patch: str, installed: str, why: str, wanted: Iterable[str], *, in_cell: bool) -> None:
        self.patch = patch
        way_out = ", or run the cell with --array numpy --dataframe pandas" if in_cell else ""
        super().__init__(
            f"The patch {patch!r} does not fit {installed}: {why}.",
            f"Install {' and '.join(wanted)} and restart the kernel{way_out}.",
        )


class MoveError(GpuDaskError):
    """``--move`` names a variable that cannot be moved to the GPUs."""


class ResultTooLargeError(CodeError, MemoryError):
    """A result does not fit in the memory of the kernel's GPU; it was not moved there."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            reason, "Keep it on the workers with persist() instead of compute(), or type: %%gpudask --results host"
        )


class ResultsLostError(CodeError, CancelledError):
    """Required results are no longer on the workers; a `CancelledError`, as Dask itself raises."""


class WorkersEndedError(CodeError, RuntimeError):
    """The worker processes that had a task ended, so that Dask gave it up."""


class PicklingError(CodeError, TypeError):
    """A function, or a value that it uses, cannot be sent to the workers.

    Parameters
    ----------
    words
        What Python said.
    """

    def __init__(self, words: str) -> None:
        super().__init__(
            f"The workers cannot get a function or a value of this computation: {words.rstrip('.')}.",
            "Create it inside the function that runs there.",
        )


class ResultPicklingError(CodeError, TypeError):
    """A result cannot be sent from its worker to the kernel, or to another worker.

    Parameters
    ----------
    kind
        The name of its type.
    words
        What Python said.
    """

    def __init__(self, kind: str, words: str) -> None:
        super().__init__(
            f"A result of type {kind} cannot be sent from its worker: {words.rstrip('.')}.",
            "Return a value that can be pickled, such as a list instead of a generator, or use it inside the task.",
        )


class ReportError(GpuDaskError):
    """The file of ``--report`` cannot be written."""


class ComparisonError(GpuDaskError):
    """The cell cannot be run with ``--compare``."""


def _period(seconds: float) -> str:
    """A period in words, such as ``30 minutes``."""
    if seconds >= 2 * 3600:
        return f"{round(seconds / 3600, 1):g} hours"
    return f"{round(seconds / 60, 1):g} minutes" if seconds >= 60 else f"{round(seconds, 1):g} seconds"


def _shortened(text: str) -> str:
    """A text that users have sent, of whatever length, so that a message can contain it."""
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."
