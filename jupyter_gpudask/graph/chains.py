"""Fuse chains of tasks: a task whose result only the next task needs becomes one task with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dask._task_spec import Alias, DependenciesMapping
from dask.core import reverse_dict

from .program import as_one_task, with_programs, without_aliases

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from dask._task_spec import GraphNode


def fuse_chains(tasks: Mapping[Any, GraphNode], some: Collection[Any], wanted: Collection[Any]) -> dict[Any, GraphNode]:
    """The same tasks, with chains of them fused.

    Parameters
    ----------
    tasks
        By key.
    some
        Keys of those that are fused with the tasks before and after them.
    wanted
        Keys whose results are needed elsewhere; they stay.
    """
    tasks = _with_own_names(without_aliases(tasks, wanted), wanted)
    dependencies = DependenciesMapping(tasks)
    users = reverse_dict(dependencies)
    # The next task of each one that no other task needs.
    following: dict[Any, Any] = {}
    for key in tasks:
        user = next(iter(users[key])) if len(users[key]) == 1 else None
        if user is None or key in wanted or not (key in some or user in some):
            continue
        needed = [other for other in dependencies[user] if other in tasks]
        if needed == [key] and not (tasks[key].block_fusion or tasks[user].block_fusion):
            following[key] = user
    fused = dict(tasks)
    for start in following.keys() - following.values():
        chain = [start]
        while chain[-1] in following:
            chain.append(following[chain[-1]])
        members = with_programs({key: fused.pop(key) for key in chain}, {})
        fused[chain[-1]] = as_one_task(chain[-1], members)
    return fused


def _with_own_names(tasks: Mapping[Any, GraphNode], wanted: Collection[Any]) -> dict[Any, GraphNode]:
    """The same tasks; one that has a wanted alias as its only user has that name."""
    users = reverse_dict(DependenciesMapping(tasks))
    named = dict(tasks)
    for key, task in tasks.items():
        target = task.target if isinstance(task, Alias) else None
        if target in tasks and target not in wanted and users[target] == {key}:
            named[key] = named.pop(target).substitute({}, key=key)
    return named
