"""``%%gpudask --compare``: a cell on the CPU and on the GPUs, in copies of the notebook's variables."""

from __future__ import annotations

import ast
import inspect
import time
from contextlib import ExitStack
from dataclasses import dataclass
from html import escape
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from IPython.display import display

from ...errors import ComparisonError
from ..cell.interrupt import take_back
from ..views.base import Note, View, describe_cluster, format_table, html_table
from .variables import copied

if TYPE_CHECKING:
    from collections.abc import Mapping

    from distributed import Client
    from IPython.core.interactiveshell import InteractiveShell

    from ...session.running_cluster import RunningCluster
    from ...session.session import Session
    from ..arguments import CellArguments
    from .values import Agreement

VALUE = "value of the cell"


@dataclass(frozen=True)
class Run:
    """What one run of the body gave: where it ran, for how long, what it bound, and how it failed."""

    where: str
    seconds: float
    results: dict[str, Any]
    error: BaseException | None = None


class ComparisonView(View):
    """Both times, the speed-up, and whether the results agree.

    Attributes
    ----------
    seconds
        Of the run on the CPU, and of that on the GPUs.
    agreements
        Of each result, by name.
    """

    _HEADS = ("result", "agrees", "")

    def __init__(self, cpu: Run, gpu: Run, agreements: dict[str, Agreement]) -> None:
        self.seconds = cpu.seconds, gpu.seconds
        self.agreements = agreements
        self._cpu, self._gpu = cpu, gpu

    @property
    def speedup(self) -> float:
        """How many times faster the GPUs were."""
        return self._cpu.seconds / self._gpu.seconds

    def __str__(self) -> str:
        return f"{self._headline()}\n{format_table(self._HEADS, self._rows())}" if self._rows() else self._headline()

    def to_html(self) -> str:
        """The same, the results as a table."""
        lines = "<br>".join(escape(line) for line in self._headline().splitlines())
        return f"<div>{lines}</div>{html_table(self._HEADS, self._rows(), 'left') if self._rows() else ''}"

    def _headline(self) -> str:
        lines = [f"{run.seconds:8.2f} s on {run.where}" for run in (self._cpu, self._gpu)]
        if self._gpu.error is not None:
            lines[1] += f", where it failed: {type(self._gpu.error).__name__}: {self._gpu.error}"
        else:
            factor = self.speedup if self.speedup >= 1 else 1 / self.speedup
            lines.append(f"{factor:8.1f} times {'faster' if self.speedup >= 1 else 'slower'} on the GPUs")
        return "\n".join(lines)

    def _rows(self) -> list[tuple[str, str, str]]:
        words = {True: "yes", False: "NO", None: "–"}
        return [(name, words[agreement.agrees], agreement.text) for name, agreement in self.agreements.items()]


async def compare_runs(
    shell: InteractiveShell,
    session: Session,
    cluster: RunningCluster,
    arguments: CellArguments,
    body: str,
    *,
    file: str,
) -> ComparisonView:
    """Run `body` on workers of the CPU, then on the GPUs, and compare.

    The notebook's variables stay as they are: each run has copies of those that the body names.

    Parameters
    ----------
    shell
        Whose variables the body uses.
    session, cluster
        The kernel's cluster, which has GPUs.
    arguments
        Of the ``%%gpudask`` line.
    body
        The code of the cell, in which the ``%%gpudask`` line is a comment or blank.
    file
        The file name that tracebacks know it by.

    Raises
    ------
    ComparisonError
        The cluster has no GPUs.
    """
    __tracebackhide__ = True
    if cluster.ready.engine != "cuda":
        raise ComparisonError("--compare needs GPUs, and this is the CPU stand-in.", "Leave it out.")
    from ...overlay.cell_record import Watch
    from ...protocol import ClusterSpec
    from ...switch.context import switched_to
    from ...switch.default_client import default_client
    from ...switch.moving import host_collections, moved

    ast.parse(body, file)
    _refuse_what_is_elsewhere(body, shell.user_ns)
    told = display(Note("Running on the CPU ..."), display_id=True)
    with session.aside(ClusterSpec.parse({"engine": "cpu"})) as aside, ExitStack() as stack:
        stack.enter_context(default_client.computing_on(aside.client))
        stack.enter_context(switched_to("numpy", "pandas"))
        where = f"the {describe_cluster(aside.ready)} with NumPy and pandas"
        cpu = await _run(body, file, copied(shell.user_ns, body), aside.client, where)
        if cpu.error is not None:
            raise cpu.error
    told.update(Note("Running on the GPUs ..."))
    namespace = copied(shell.user_ns, body)
    backends = (arguments.array, arguments.dataframe)
    with ExitStack() as stack:
        stack.enter_context(default_client.computing_on(cluster.client))
        stack.enter_context(switched_to(*backends, Watch(to_host=arguments.to_host)))
        outside = host_collections(body, namespace, backends)
        stack.enter_context(moved(arguments.move, namespace, mentioned=list(outside)))
        where = f"{describe_cluster(cluster.ready, session.state())} with {' and '.join(backends)}"
        gpu = await _run(body, file, namespace, cluster.client, where)
    told.update(Note("Ran on the CPU, then on the GPUs."))
    return ComparisonView(cpu, gpu, {} if gpu.error else _compare(cpu.results, gpu.results))


def _compare(ones: dict[str, Any], others: dict[str, Any]) -> dict[str, Agreement]:
    from ...inspection.placement import to_host
    from .values import Agreement, compare

    found = {}
    for name in ones.keys() & others.keys():
        if _is_collection(ones[name]):
            found[name] = Agreement(None, "a Dask collection: only what is computed can be compared")
        elif not isinstance(ones[name], ModuleType | FunctionType | type):
            found[name] = compare(to_host(ones[name]), to_host(others[name]))
    return dict(sorted(found.items(), key=lambda item: (item[0] != VALUE, item[0])))


def _is_collection(value: Any) -> bool:
    from dask.base import is_dask_collection

    return bool(is_dask_collection(value))


def _refuse_what_is_elsewhere(body: str, namespace: Mapping[str, Any]) -> None:
    """Raise for variables whose data lies with the workers of the GPUs, which those of the CPU cannot reach."""
    from distributed import Future
    from distributed.client import futures_of

    for name in sorted({node.id for node in ast.walk(ast.parse(body)) if isinstance(node, ast.Name)}):
        value = namespace.get(name)
        if isinstance(value, Future) or (_is_collection(value) and futures_of(value)):
            raise ComparisonError(
                f"{name} is kept by the workers of the GPUs, and those of the CPU cannot reach it.",
                "Compare a cell that makes it.",
            )


async def _run(body: str, file: str, namespace: dict[str, Any], client: Client, where: str) -> Run:
    __tracebackhide__ = True
    tree = ast.parse(body, file)
    bound = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    before, value, error = set(client.futures), None, None
    began = time.perf_counter()
    try:
        await _evaluate(tree, file, "exec", namespace)
        if isinstance(last, ast.Expr):
            value = await _evaluate(ast.Expression(last.value), file, "eval", namespace)
    except Exception as raised:  # noqa: BLE001 - the user's error is a result here
        error = raised
    except BaseException:
        take_back(client, before)
        raise
    seconds = time.perf_counter() - began
    results = {name: namespace[name] for name in bound if name in namespace and not name.startswith("_")}
    return Run(where, seconds, ({} if value is None else {VALUE: value}) | results, error)


async def _evaluate(tree: Any, file: str, mode: str, namespace: dict[str, Any]) -> Any:
    __tracebackhide__ = True
    code = compile(tree, file, mode, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    result = eval(code, namespace)  # noqa: S307 - the user's cell
    return await result if inspect.iscoroutine(result) and code.co_flags & inspect.CO_COROUTINE else result
