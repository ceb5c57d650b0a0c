"""The options of the cluster that replaces the running one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..machine.gpu_choice import check_replacement
from ..machine.plan import make_plan
from ..protocol import ClusterSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..protocol import Ready

_PLACE = ("engine", "gpus", "workers")
"""Options that switch between the GPUs and the CPU stand-in."""


def options_after(options: Mapping[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The options of a cluster, some of which the user has given again as `changes`."""
    if "profile" in changes:
        return dict(changes)
    changes_place = "gpus" in changes or "engine" in changes
    kept = {name: value for name, value in options.items() if not (changes_place and name in _PLACE)}
    return kept | changes


def spec_on_this_machine(options: dict[str, Any], running: Ready | None) -> ClusterSpec:
    """The options as a `ClusterSpec`, checked as far as possible while the cluster that will be replaced still runs.

    Parameters
    ----------
    options
        Attributes of a `ClusterSpec`.
    running
        The running cluster, if there is one.

    Raises
    ------
    SpecError, GpuUnavailableError, GpuPackagesMissingError, GpuHeldError
        A cluster with these options could not start.
    """
    spec = ClusterSpec.parse(options)
    if not spec.profile:  # only the server knows the cluster profiles
        make_plan(spec)
    if running is not None:
        check_replacement(spec, running.pid)
    return spec
