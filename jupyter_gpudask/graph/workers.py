"""On which worker each task of a graph runs, so that what neighbours need of each other stays on one worker.

The blocks of each layer are cut into as many parts as there are workers, in the order in which results need them, depth
first. A block is therefore near to those with which it is combined: of ``x.sum(axis=0)`` a worker gets whole columns,
and of ``x.sum(axis=1)`` whole rows. A task runs where most of its inputs are, if that is clear.

Only tasks without inputs have to be told where to run: Dask's scheduler lets the others follow their inputs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from dask.utils import key_split

WORKER = "gpudask-worker"
"""The annotation of a task that says where it shall run: a number of a worker, how many there are, and whether it waits
for that one."""

LOCATE = "gpudask_locate"
"""The name of the scheduler's handler that finds on which workers results of other graphs are."""

locate: ContextVar[Callable[[list[Any], int], Mapping[Any, int]] | None] = ContextVar(LOCATE, default=None)
"""Where a graph is made: calls that handler, with the keys of results, and the number of workers."""

_CLEARLY = 2
_TASKS_OF_MESSAGE = 8
"""How many steps of tasks a worker runs in the time in which one of its results gets to another one."""


def locate_others(graph: Mapping[Any, Any], number: int) -> Mapping[Any, int]:
    """The workers of results of other graphs that tasks need, as far as they are known."""
    find = locate.get()
    others = {other for task in graph.values() for other in task.dependencies if other not in graph}
    return find(list(others), number) if find and others and number > 1 else {}


def choose_workers(
    order: Sequence[Any],
    dependencies: Mapping[Any, Collection[Any]],
    number: int,
    others: Mapping[Any, int] | None = None,
    anywhere: Collection[Any] = (),
) -> dict[Any, int]:
    """A worker for each task, from 0 to `number` - 1; and those of results of other graphs, `others`.

    In `order` a task comes after all that it needs, and soon after it. Tasks `anywhere` do not follow what they need.
    """
    if number <= 1:
        return dict.fromkeys(order, 0)
    own, shares = _cut(order, number)
    counted = Counter((other, shares[key]) for key in order for other in dependencies[key])
    users = Counter(other for key in order for other in dependencies[key])
    chosen = dict(others or {})
    for key in order:
        layer, share = shares[key]
        weights: defaultdict[int, float] = defaultdict(float)
        for other in dependencies[key] if key not in anywhere else ():
            # What more tasks of a layer need than one worker takes is needed on several workers.
            if other in chosen and counted[other, (layer, share)] <= share:
                weights[chosen[other]] += 1 / users[other]  # it is sent once, if at all
        place = own[key]
        most = max(weights, key=lambda worker: weights[worker], default=place)
        chosen[key] = most if weights[most] > _CLEARLY * weights[place] else place
    return chosen


def one_worker_for(
    dependencies: Mapping[Any, Collection[Any]],
    workers: Mapping[Any, int],
    others: Mapping[Any, int],
) -> int | None:
    """The worker that alone runs tasks which take little else than their messages; `None` if several are as fast.

    `workers`: where each task, and each of the results of other graphs, `others`, would be with several.
    """
    sent = {(other, workers[key]) for key, needed in dependencies.items() for other in needed if other in workers}
    sent = {(other, worker) for other, worker in sent if workers[other] != worker}
    worker, there = next(iter(Counter(others.values()).most_common(1)), (0, 0))
    saved = len(sent) - (len(others) - there)
    return worker if saved * _TASKS_OF_MESSAGE > len(dependencies) else None


def _cut(order: Sequence[Any], number: int) -> tuple[dict[Any, int], dict[Any, tuple[str, int]]]:
    """For each key the worker by its position in its layer; its layer, and how many tasks of that one worker takes."""
    layers: defaultdict[Any, list[Any]] = defaultdict(list)
    for key in order:
        # Copies of a block for different steps are in layers of their own.
        layers[tuple(part for part in key if isinstance(part, str)) if isinstance(key, tuple) else key].append(key)
    joined: defaultdict[str, list[Any]] = defaultdict(list)
    for name, keys in layers.items():
        # Layers of single tasks, such as delayed calls, are cut together.
        joined[str(name) if len(keys) >= number else key_split(keys[0])] += keys
    own, shares = {}, {}
    for layer, keys in joined.items():
        share = -(-len(keys) // number)
        for index, key in enumerate(keys):
            own[key] = index * number // len(keys)
            shares[key] = layer, share
    return own, shares


def position(key: Any) -> list[tuple[int, Any]]:
    """What sorts the keys of blocks by their place in the array."""
    parts = key if isinstance(key, tuple) else (key,)
    return [(0, part) if isinstance(part, int) else (1, str(part)) for part in parts]
