"""Check a scheduler before a client connects: does it respond, are the credentials right, do the versions agree."""

from __future__ import annotations

import asyncio
import platform
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from ...errors import ConnectError
from .diagnosis import diagnose, not_a_scheduler, refused_operation
from .plain_messages import AnswerError, ask, connected

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .target import Target

_PACKAGES = ("dask", "distributed", "jupyter_gpudask")
_DIAGNOSIS_DELAY = 2.0


class Identity(BaseModel):
    """The part of what `distributed.Scheduler.identity` returns that is used.

    Attributes
    ----------
    id
        The id of the scheduler.
    workers
        The workers, by address.
    services
        The ports of its HTTP servers.
    """

    id: str
    workers: dict[str, Any]
    services: dict[str, Any]


class _Host(BaseModel):
    python: str


class _Versions(BaseModel):
    host: _Host
    packages: dict[str, str | None]


_versions_of_workers = TypeAdapter(dict[str, _Versions])


async def check_scheduler(target: Target) -> Identity:
    """Ask a scheduler who it is, and compare its versions and those of its workers with the kernel's.

    Nothing that it sends is unpickled.

    Raises
    ------
    ConnectError
        The scheduler does not respond in time, refuses the credentials, has no worker, or has other versions.
    """
    try:
        async with asyncio.timeout(target.timeout):
            identity, scheduler, workers = await _ask_or_diagnose(target)
    except TimeoutError:
        raise ConnectError("check-timeout", address=target.address, limit=target.timeout) from None
    _check_scheduler_file(target, identity)
    for name, versions in {"the scheduler": scheduler, **workers}.items():
        _check_versions(name, versions)
    if not identity.workers:
        raise ConnectError("no-workers-of-gateway" if target.gateway_cluster else "no-workers", address=target.address)
    return identity


async def _ask_or_diagnose(target: Target) -> tuple[Identity, _Versions, dict[str, _Versions]]:
    asking = asyncio.create_task(_ask(target))
    try:
        await asyncio.wait({asking}, timeout=_DIAGNOSIS_DELAY)
        problem = None if asking.done() else await diagnose(target, is_slow=True)
        if problem is not None:
            raise problem
        await asyncio.wait({asking})
        error = asking.exception()
        if error is None:
            return asking.result()
        is_other_program = isinstance(error, AnswerError | ValidationError)
        problem = refused_operation(target, error) or await diagnose(target, is_slow=is_other_program)
        if problem is None and is_other_program:
            problem = not_a_scheduler(target.address)
        reason = f"{type(error).__name__}: {error}".rstrip(".")
        raise problem or ConnectError("connection-failed", address=target.address, error=reason)
    finally:
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)


async def _ask(target: Target) -> tuple[Identity, _Versions, dict[str, _Versions]]:
    packages = ["jupyter_gpudask"]
    async with connected(target) as comm:
        identity = Identity.model_validate(await ask(comm, "identity"))
        versions = _Versions.model_validate(await ask(comm, "versions", packages=packages))
        message = {"op": "versions", "packages": packages}
        workers = _versions_of_workers.validate_python(await ask(comm, "broadcast", msg=message, on_error="ignore"))
    return identity, versions, {f"the worker {address}": found for address, found in workers.items()}


def _check_scheduler_file(target: Target, identity: Identity) -> None:
    if target.scheduler_id and identity.id != target.scheduler_id:
        raise ConnectError("scheduler-file-stale", address=target.address)


def _check_versions(name: str, found: _Versions) -> None:
    for what, here, there in _differences(found):
        if there is None:
            raise ConnectError("package-missing", where=name, name=what, here=here)
        raise ConnectError("other-version", name=what, here=here, where=name, there=there)


def _differences(found: _Versions) -> Iterator[tuple[str, str, str | None]]:
    """What differs: its name, the version of the kernel, and the other one, `None` if it is missing."""
    here = ".".join(platform.python_version_tuple()[:2])
    there = ".".join(found.host.python.split(".")[:2])
    if here != there:
        yield "Python", here, there
    for name in _PACKAGES:
        other = found.packages.get(name)
        if other != version(name):
            yield name, version(name), other
