"""The options in which a cluster differs from those that were requested."""

from __future__ import annotations

from ...errors import ClusterExistsError
from ...quantities import typed_size
from .spec import ClusterSpec, flag_of

_SIZES = frozenset({"pool", "spill_threshold", "memory_limit"})

_DEVICES = frozenset({"engine", "gpus", "workers"})
"""The options that select GPUs, or CPU workers instead of them."""


def other_options(running: ClusterSpec, requested: ClusterSpec) -> ClusterExistsError:
    """The error of a start with other options than those of the cluster that the kernel has."""
    return ClusterExistsError("other-options", differences=", ".join(differences(running, requested)))


def differences(running: ClusterSpec, requested: ClusterSpec) -> list[str]:
    """The options that differ, each with both values as they are typed: ``--threads 1 instead of 2``.

    The values of environment variables, which may be secret, are left out.
    """
    if running.profile != requested.profile:  # which sets the other options
        return [_difference("profile", running, requested)]
    fields = [name for name in ClusterSpec.model_fields if getattr(running, name) != getattr(requested, name)]
    if "cpu" in (running.engine, requested.engine) and _DEVICES.intersection(fields):
        described = [_difference_of_devices(running, requested)]
        fields = [name for name in fields if name not in _DEVICES]
    else:
        described = []
    return described + [_difference(name, running, requested) for name in fields]


def _difference_of_devices(running: ClusterSpec, requested: ClusterSpec) -> str:
    has = _cpu(running) if running.engine == "cpu" else _gpus(running)
    # Requested GPUs that were merged into the options of a cluster on the CPU leave its engine.
    is_cpu = requested.engine == "cpu" and (running.engine != "cpu" or requested.gpus == running.gpus)
    return f"{has} instead of {_cpu(requested) if is_cpu else _gpus(requested)}"


def _cpu(spec: ClusterSpec) -> str:
    return "--cpu" if spec.workers is None else f"--cpu {spec.workers}"


def _gpus(spec: ClusterSpec) -> str:
    return f"--gpus {_typed('gpus', spec)}"


def _difference(name: str, running: ClusterSpec, requested: ClusterSpec) -> str:
    if name == "environment":
        return f"{flag_of(name)} with other values"
    return f"{flag_of(name)} {_typed(name, running)} instead of {_typed(name, requested)}"


def _typed(name: str, spec: ClusterSpec) -> str:
    """The value of an option as it is typed."""
    value = getattr(spec, name)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "default" if name in ("workers", "threads") else "none"
    if isinstance(value, dict):
        return " ".join(f"{key}={amount:g}" for key, amount in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value)) + "," * (name == "gpus" and len(value) == 1)  # a single number is a count
    if name in _SIZES and isinstance(value, int):
        return typed_size(value)
    return f"{value:g}" if isinstance(value, float) else str(value) or "none"
