"""Pickle each task of a graph separately, and shared objects once; import Dask's collections one thread at a time.

Dask's collections import each other in cycles. Two threads that start at different ends get an `ImportError`, or a
deadlock with RAPIDS' import hook, which dask-cuda installs: Python holds the global import lock while it calls a hook,
and this one imports the parent of the requested module.
"""

from __future__ import annotations

import io
import pickle
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from functools import partial
from importlib import import_module
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np
from dask._task_spec import Alias, DataNode, Dict, GraphNode, List, Set, Task, TaskRef, Tuple, _execute_subgraph
from distributed.protocol.pickle import dumps, loads

from ..graph.program import Program

_NAMES = {name: name.encode() for name in ("dask.array", "dask.bag", "dask.dataframe")}
_imported: set[str] = set()
_lock = threading.Lock()


def import_named_collections(payload: bytes) -> None:
    """Import the collection modules that a pickled task names; other threads wait until they are imported."""
    for name, word in _NAMES.items():
        if name not in _imported and word in payload:
            with _lock, suppress(ImportError):  # unpickling the task raises it again
                import_module(name)
                _imported.add(name)


_PLAIN_TYPES = frozenset(
    {type(None), bool, int, float, complex, slice, range, type(Ellipsis), type(NotImplemented)}
    | {date, datetime, time, timedelta, TaskRef}
)
_STRINGS = frozenset({str, bytes, bytearray})
_PLAIN_CONTAINERS = frozenset({list, tuple, set, frozenset})
_CONTAINERS = frozenset({List, Tuple, Set, Dict})
_NODES = _CONTAINERS | {Task, DataNode, Alias}

# What is larger is pickled once for all tasks that share it.
_MOST_BYTES = 1000
_MOST_ITEMS = 50


class SharedBuffer:
    """A buffer that several values of a graph share, such as an array in the closures of functions; sent once."""

    __slots__ = ("content",)

    def __init__(self, content: Any) -> None:
        self.content = content

    def __reduce__(self) -> tuple[Any, ...]:
        return SharedBuffer, (pickle.PickleBuffer(self.content),)


class PickledValue:
    """A pickled value that several tasks of a graph may share; sent once.

    - `buffers`: the out-of-band buffers of the pickle.
    """

    __slots__ = ("buffers", "payload")

    def __init__(self, payload: bytes, buffers: tuple[SharedBuffer, ...] = ()) -> None:
        self.payload = payload
        self.buffers = buffers

    def unpickle(self) -> Any:
        """The value."""
        import_named_collections(self.payload)
        return loads(self.payload, buffers=[buffer.content for buffer in self.buffers])

    def __reduce__(self) -> tuple[Any, ...]:
        return PickledValue, (self.payload, self.buffers)

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        return self.payload, [buffer.content for buffer in self.buffers]

    def __sizeof__(self) -> int:
        return len(self.payload) + sum(memoryview(buffer.content).nbytes for buffer in self.buffers)


def _shared_subgraphs(nodes: Iterable[GraphNode]) -> frozenset[int]:
    """The ids of the graphs that several fused tasks have in common, such as those of the blocks of one array."""
    counts = Counter(id(node.args[0]) for node in nodes if type(node) is Task and node.func is _execute_subgraph)
    return frozenset(number for number, count in counts.items() if count > 1)


class PickledValues:
    """The pickled values of the nodes of one graph, each of which is pickled once.

    - `shared_subgraphs`: ids of graphs that are values: several fused tasks run them.
    """

    def __init__(self, nodes: Iterable[GraphNode]) -> None:
        self.shared_subgraphs = _shared_subgraphs(nodes)
        # Keeps the values alive, so that their ids stay unique.
        self._values: dict[int, tuple[Any, PickledValue]] = {}
        self._buffers: dict[tuple[int, int], SharedBuffer] = {}

    def __getitem__(self, value: Any) -> PickledValue:
        known = self._values.get(id(value))
        if known is None:
            found: list[pickle.PickleBuffer] = []
            payload = dumps(value, buffer_callback=found.append)
            known = value, PickledValue(payload, tuple(map(self._share, found)))
            self._values[id(value)] = known
        return known[1]

    def _share(self, buffer: pickle.PickleBuffer) -> SharedBuffer:
        raw = buffer.raw()
        return self._buffers.setdefault((id(raw.obj), raw.nbytes), SharedBuffer(buffer))


class TaskPickler(pickle.Pickler):
    """Pickles a node of Dask; other values than small plain ones become references to pickled values.

    - `shared`: the pickled values, in the order of their indices.
    """

    def __init__(self, values: PickledValues) -> None:
        self._file = io.BytesIO()
        super().__init__(self._file, protocol=pickle.HIGHEST_PROTOCOL)
        self._values = values
        self.shared: dict[PickledValue, int] = {}

    def pickle(self, node: GraphNode) -> bytes:
        """The pickled node."""
        self.dump(self._convert(node))
        return self._file.getvalue()

    def persistent_id(self, value: Any) -> int | None:
        """The index of a pickled value; called by Python for each object."""
        return self.shared.setdefault(value, len(self.shared)) if type(value) is PickledValue else None

    def reducer_override(self, value: Any) -> Any:
        """How a part of a graph is pickled; called by Python for each object that is not of a built-in type."""
        kind = type(value)
        if kind is TaskRef:
            return TaskRef, (value.key,)
        if kind is Task:
            return _make_task, self._reduce_task(value)
        if kind in _CONTAINERS:
            return _make_container, (kind, tuple(map(self._convert, value.args)))
        if kind is DataNode:
            return DataNode, (value.key, self._convert(value.value))
        return NotImplemented

    def _reduce_task(self, task: Task) -> tuple[Any, ...]:
        args: Any
        if task.func is _execute_subgraph:
            inner, key, names, *values = task.args
            if id(inner) in self._values.shared_subgraphs:
                inner = self._values[inner]
            else:
                inner = {name: self._convert(node) for name, node in inner.items()}
            args = (inner, key, names, *map(self._convert, values))
        else:
            args = tuple(map(self._convert, task.args))
        kwargs = {name: self._convert(value) for name, value in task.kwargs.items()} if task.kwargs else {}
        return task.key, self._convert(task.func), args, kwargs, task.data_producer

    def _convert(self, value: Any) -> Any:
        kind = type(value)
        if kind in _PLAIN_TYPES or kind in _NODES or isinstance(value, Program) or _is_plain(value):
            return value
        return self._values[value]


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, shared: Sequence[PickledValue]) -> None:
        super().__init__(file)
        self._shared = shared
        self._values: dict[int, Any] = {}

    def persistent_load(self, index: int) -> Any:
        if index not in self._values:
            self._values[index] = self._shared[index].unpickle()
        return self._values[index]


def unpickle_node(payload: bytes, shared: Sequence[PickledValue]) -> Any:
    """The node that a `TaskPickler` has pickled, with the values that it shares."""
    import_named_collections(payload)
    return _Unpickler(io.BytesIO(payload), shared).load()


def _make_task(key: Any, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], data_producer: bool) -> Task:
    return Task(key, func, *args, _data_producer=data_producer, **kwargs)


def _make_container(kind: Any, args: tuple[Any, ...]) -> Any:
    container = object.__new__(kind)  # its own __init__ takes a single container for its elements
    Task.__init__(container, None, kind.to_container, *args, constructor=kind.constructor)
    return container


def is_builtin(value: Any) -> bool:
    """Whether a value is a single one of a built-in type, which every process can unpickle."""
    return type(value) in _PLAIN_TYPES or type(value) in _STRINGS


def _is_plain(value: Any) -> bool:
    """Whether a value is small and consists of types of Python and NumPy, and of what has a name in a module."""
    kind = type(value)
    if kind in _PLAIN_CONTAINERS:
        return len(value) <= _MOST_ITEMS and all(map(_is_plain, value))
    if kind is dict:
        return len(value) <= _MOST_ITEMS and all(map(_is_plain, (*value, *value.values())))
    if kind in _STRINGS:
        return len(value) <= _MOST_BYTES
    if kind is partial:
        return _is_plain((value.func, value.args, value.keywords))
    if isinstance(value, np.generic | np.dtype):
        return kind.__module__.partition(".")[0] == "numpy"
    return kind in _PLAIN_TYPES or _has_name(value)


def _has_name(value: Any) -> bool:
    if not isinstance(value, FunctionType | BuiltinFunctionType | type):
        return False
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    return module != "__main__" and getattr(sys.modules.get(module), name, None) is value  # type: ignore[arg-type]
