"""``%gpudask held``: list the results that this kernel holds on the workers, and the variables that hold them."""

from __future__ import annotations

import gc
from html import escape
from typing import TYPE_CHECKING, Any

from ...quantities import format_bytes
from ..usage_error import usage_error
from ..views.base import View, format_table, html_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from IPython.core.interactiveshell import InteractiveShell

    from ...client.calls import HeldReport
    from ...session.session import Session

_HEADS = ("variable", "results", "size")
_REST = "(no variable)"


class HeldView(View):
    """The results on the workers.

    Attributes
    ----------
    total
        Their size in bytes, each counted once.
    workers
        Their size on each worker in bytes, by the worker's name in Dask.
    variables
        The size of the results that each variable holds, in bytes.
    """

    def __init__(self, report: HeldReport, gpus: Mapping[str, int | None], deleted: Sequence[str]) -> None:
        self.total = report.total
        order = [*gpus, *report.workers]  # a worker may have been added since
        self.workers = {name: report.workers[name] for name in dict.fromkeys(order) if name in report.workers}
        rows = sorted(((name, *counts) for name, counts in report.counts.items() if counts[0]), key=lambda row: -row[2])
        self.variables = {name: size for name, _, size in rows if name}
        self._rows = [(name or _REST, f"{number:,}", format_bytes(size)) for name, number, size in rows]
        self._before = [f"Deleted: {', '.join(deleted)}."] if deleted else []
        self._before.append(self._describe(gpus))
        names = ",".join(list(self.variables)[:2])
        self._after = [f"To release results, type: %gpudask held --release {names}"] if names else []
        if report.counts.get("", (0, 0))[0]:
            self._after.append("Values of earlier cells may hold the others. To delete them, type: %reset -f out")

    def __str__(self) -> str:
        table = [format_table(_HEADS, self._rows)] if self._rows else []
        return "\n".join((*self._before, *table, *self._after))

    def to_html(self) -> str:
        """The lines and the table."""
        table = html_table(_HEADS, self._rows, align="left") if self._rows else ""
        return _divs(self._before) + table + _divs(self._after)

    def _describe(self, gpus: Mapping[str, int | None]) -> str:
        if not self.total:
            return "The workers hold no results."
        names = {name: f"worker {name}" if gpus.get(name) is None else f"GPU {gpus[name]}" for name in self.workers}
        places = [f"{names[name]} {format_bytes(size)}" for name, size in self.workers.items() if size]
        return f"The workers hold {format_bytes(self.total)} of results: {', '.join(places)}."


def _divs(lines: Sequence[str]) -> str:
    return "".join(f"<div>{escape(line)}</div>" for line in lines)


def held(shell: InteractiveShell, session: Session, release: Sequence[str]) -> HeldView:
    """List the results, after the variables `release` are deleted, together with what IPython keeps of them.

    Raises
    ------
    IPython.core.error.UsageError
        There is no variable of that name; none is deleted.
    NoClusterError
        The kernel has no cluster.
    """
    from ...client.calls import report_variables, wait_until_released

    gpus = {worker.name: worker.gpu_index for worker in session.state().workers}
    cluster = session.cluster
    assert cluster is not None
    variables = shell.user_ns
    missing = [name for name in release if name not in _listed(variables)]
    if missing:
        raise usage_error("no-variable", name=missing[0])
    if release:
        before = set(cluster.client.futures)
        for name in release:
            shell.del_var(name)  # as %xdel does: also from Out, _ and __
        gc.collect()
        wait_until_released(cluster.client, before)
    return HeldView(report_variables(cluster.client, _listed(variables)), gpus, release)


def _listed(variables: Mapping[str, Any]) -> dict[str, Any]:
    """The variables of the user, without what IPython keeps."""
    return {name: value for name, value in variables.items() if not name.startswith("_") and name not in ("In", "Out")}
