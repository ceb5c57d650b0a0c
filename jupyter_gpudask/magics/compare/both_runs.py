"""Run a cell on the CPU and on the GPUs, with copies of the notebook's variables."""

from __future__ import annotations

import ast
import inspect
import time
from contextlib import ExitStack
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from IPython.display import display

from ..views.base import Note
from ..views.cluster import describe_cluster
from ..views.comparison import ComparisonView
from .run import VALUE, Run
from .variables import copy_variables

if TYPE_CHECKING:
    from distributed import Client
    from IPython.core.interactiveshell import InteractiveShell

    from ...overlay.cell_record import CellRecord
    from ...session.running_cluster import RunningCluster
    from ..arguments import CellArguments
    from .rules import Comparison

_IMPORTS = ("dask.array", "dask.dataframe")
_IMPORT_TIMEOUT = 30.0
_MOST_CHARACTERS = 120


async def compare_runs(
    shell: InteractiveShell,
    cluster: RunningCluster,
    arguments: CellArguments,
    body: str,
    *,
    file: str,
    record: CellRecord,
) -> ComparisonView:
    """Run a cell on a temporary CPU cluster and then on the GPUs, and compare times and results.

    The notebook's variables are not changed: each run uses copies of the variables that the cell reads.

    Parameters
    ----------
    shell
        The shell with the notebook's variables.
    cluster
        The kernel's cluster.
    arguments
        The arguments of ``%%gpudask``.
    body
        The code of the cell, in which the ``%%gpudask`` line is a comment or blank. `refusals.refuse` has accepted it.
    file
        The file name of the cell for tracebacks.
    record
        Where results are, and what happens to operations that the GPU libraries lack.
    """
    __tracebackhide__ = True
    from ...client.calls import import_on_cluster
    from ...protocol import ClusterSpec
    from ...session.launch import temporary_cluster
    from ...switch.context import switched_to
    from ...switch.default_client import default_client
    from ...switch.moving import host_collections, moved

    status = display(Note("Running on the CPU ..."), display_id=True)
    cpu_spec = ClusterSpec.parse({"engine": "cpu"})
    with temporary_cluster(cluster.loop, cpu_spec) as cpu_cluster, ExitStack() as stack:
        import_on_cluster(cpu_cluster.client, _IMPORTS, _IMPORT_TIMEOUT)  # it belongs to the start of the cluster
        stack.enter_context(default_client.computing_on(cpu_cluster.client))
        stack.enter_context(switched_to("numpy", "pandas"))
        where = f"the {describe_cluster(cpu_cluster.ready)} with NumPy and pandas"
        cpu = await _run(body, file, copy_variables(shell.user_ns, body), cpu_cluster.client, where)
        if cpu.error is not None:
            raise cpu.error
    status.update(Note("Running on the GPUs ..."))
    namespace = copy_variables(shell.user_ns, body)
    backends = (arguments.array, arguments.dataframe)
    with ExitStack() as stack:
        stack.enter_context(default_client.computing_on(cluster.client))
        stack.enter_context(switched_to(*backends, record))
        outside = host_collections(body, namespace, backends)
        stack.enter_context(moved(arguments.move, namespace, mentioned=list(outside)))
        where = f"{describe_cluster(cluster.ready, cluster.state())} with {' and '.join(backends)}"
        gpu = await _run(body, file, namespace, cluster.client, where)
    status.update(Note("Ran on the CPU, then on the GPUs."))
    return ComparisonView(cpu, gpu, {} if gpu.error else _compare(cpu.results, gpu.results))


def _compare(cpu: dict[str, Any], gpu: dict[str, Any]) -> dict[str, Comparison]:
    from .rules import Comparison, differ

    comparisons = {}
    for name in cpu.keys() | gpu.keys():
        if name not in cpu or name not in gpu:
            comparisons[name] = differ(f"only on the {'CPU' if name in cpu else 'GPUs'}")
        elif _is_collection(cpu[name]):
            comparisons[name] = Comparison(None, "not computed: assign the value of compute() to compare it")
        elif not isinstance(cpu[name], ModuleType | FunctionType | type):
            comparisons[name] = _compare_on_host(cpu[name], gpu[name])
    return dict(sorted(comparisons.items(), key=lambda item: (item[0] != VALUE, item[0])))


def _compare_on_host(cpu: Any, gpu: Any) -> Comparison:
    from ...inspection.placement import to_host
    from .rules import not_compared
    from .values import compare

    try:
        return compare(to_host(cpu), to_host(gpu))
    except Exception as error:  # noqa: BLE001 - of any class: objects of the user, and dtypes that NumPy does not have
        return not_compared(f"cannot be compared: {type(error).__name__}: {error}"[:_MOST_CHARACTERS])


def _is_collection(value: Any) -> bool:
    from dask.base import is_dask_collection

    return bool(is_dask_collection(value))


async def _run(body: str, file: str, namespace: dict[str, Any], client: Client, where: str) -> Run:
    __tracebackhide__ = True
    tree = ast.parse(body, file)
    assigned = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    before, value, error = set(client.futures), None, None
    began = time.perf_counter()
    try:
        await _evaluate(tree, file, "exec", namespace)
        if isinstance(last, ast.Expr):
            value = await _evaluate(ast.Expression(last.value), file, "eval", namespace)
    except Exception as raised:  # noqa: BLE001 - shown as the result of the run
        error = raised
    except BaseException:
        from ...client.calls import cancel_unfinished

        cancel_unfinished(client, before)
        raise
    seconds = time.perf_counter() - began
    results = {name: namespace[name] for name in assigned if name in namespace and not name.startswith("_")}
    return Run(where, seconds, ({} if value is None else {VALUE: value}) | results, error)


async def _evaluate(tree: Any, file: str, mode: str, namespace: dict[str, Any]) -> Any:
    __tracebackhide__ = True
    code = compile(tree, file, mode, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    result = eval(code, namespace)  # noqa: S307 - the user's cell
    return await result if inspect.iscoroutine(result) and code.co_flags & inspect.CO_COROUTINE else result
