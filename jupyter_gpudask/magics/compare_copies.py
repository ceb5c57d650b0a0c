"""Copies of a notebook's variables, so that a cell can run without changing them."""

from __future__ import annotations

import ast
import copy
import random
from array import array
from collections import ChainMap, Counter, OrderedDict, UserDict, UserList, defaultdict, deque
from enum import Enum
from types import CodeType, FunctionType, MemberDescriptorType, MethodType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from dask.base import is_dask_collection

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_IMMUTABLE = {type(None), bool, int, float, complex, str, bytes, range, slice}
_CONTAINERS = {tuple, frozenset, list, set, dict, defaultdict, OrderedDict, Counter, deque}
_MUTABLE = (list, set, deque, OrderedDict, dict)
"""The base classes of containers, a subclass before its base class."""

_NAMESPACES = {SimpleNamespace, ChainMap, UserDict, UserList}
_FLAT = {bytearray, array}
_DATA = np.ndarray | pd.DataFrame | pd.Series
_GENERATORS = (
    random.Random | np.random.Generator | np.random.RandomState | np.random.BitGenerator | np.random.SeedSequence
)


def copy_variables(namespace: Mapping[str, Any], code: str) -> dict[str, Any]:
    """Copy the variables that the code reads, directly or through functions of the notebook.

    `Copier` decides what is copied and what is shared. Functions of the notebook use the copies.
    """
    copier = Copier(namespace.get("__name__", "__main__"))
    read = {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
    queue = list(read)
    while queue:
        function = namespace.get(queue.pop())
        if function is not None and _is_defined_in(namespace, function):
            new = set(_names_in_bytecode(function.__code__)) - read
            read |= new
            queue += new
    copies = dict(namespace)
    for name in read & namespace.keys():
        copies[name] = (
            _with_globals(namespace[name], copies)
            if _is_defined_in(namespace, namespace[name])
            else copier.copy(namespace[name])
        )
    return copies


def _names_in_bytecode(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in_bytecode(constant)


def _is_defined_in(namespace: Mapping[str, Any], value: Any) -> bool:
    return type(value) is FunctionType and value.__globals__ is namespace


def _with_globals(function: FunctionType, namespace: dict[str, Any]) -> FunctionType:
    """A copy of the function with other global variables."""
    copied = FunctionType(function.__code__, namespace, function.__name__, function.__defaults__, function.__closure__)
    copied.__kwdefaults__ = function.__kwdefaults__
    copied.__dict__.update(function.__dict__)
    return copied


class Copier:
    """Copies data, containers of it, generators of random numbers, and objects of the notebook's classes.

    All other objects are shared, such as clients, files, locks and iterators: copies would affect the originals.
    Objects that cannot be copied are shared, too. An object that is found twice is copied once.
    """

    def __init__(self, module: str) -> None:
        self._module = module
        self._copies: dict[int, tuple[Any, Any]] = {}  # by id; with the original, so that no other object gets its id
        self._deep: dict[int, Any] = {}  # generators can have a bit generator in common

    def copy(self, value: Any) -> Any:
        """The copy of an object, or the object itself if it is shared."""
        if type(value) in _IMMUTABLE:
            return value
        if id(value) not in self._copies:
            try:
                copied = self._copy(value)
            except Exception:  # noqa: BLE001 - of any class: code of the user's classes, and any depth of nesting
                copied = value
            self._add(value, copied)
        return self._copies[id(value)][1]

    def _add(self, value: Any, copied: Any) -> None:
        self._copies[id(value)] = (value, copied)

    def _is_own(self, value: Any) -> bool:
        return type(value).__module__ == self._module

    def _copy(self, value: Any) -> Any:
        kind = type(value)
        if isinstance(value, type | Enum) or hasattr(kind, "__del__"):  # the end of a copy would affect the original
            return value
        if isinstance(value, _GENERATORS) or kind.__module__ == "dask.array.random":
            return copy.deepcopy(value, self._deep)
        # The class first: attribute access on a user's object may raise any exception.
        is_collection = hasattr(kind, "__dask_graph__") and is_dask_collection(value)
        if is_collection or kind in _FLAT or isinstance(value, _DATA):
            return copy.copy(value)
        return self._copy_nested(value, kind)

    def _copy_nested(self, value: Any, kind: type) -> Any:
        is_own = self._is_own(value)
        if isinstance(value, MethodType) and self._is_own(value.__self__):
            return MethodType(value.__func__, self.copy(value.__self__))
        if isinstance(value, tuple | frozenset) and (is_own or kind in _CONTAINERS or hasattr(kind, "_fields")):
            return self._copy_immutable(value)
        if isinstance(value, _MUTABLE) and (is_own or kind in _CONTAINERS):
            return self._copy_container(value)
        return self._copy_object(value) if is_own or kind in _NAMESPACES else value

    def _copy_immutable(self, value: Any) -> Any:
        base: Any = tuple if isinstance(value, tuple) else frozenset
        before = list(base.__iter__(value))
        parts = [self.copy(part) for part in before]
        if id(value) in self._copies:  # it contains itself, in a list for example
            return self._copies[id(value)][1]
        if all(part is old for part, old in zip(parts, before, strict=True)) and not getattr(value, "__dict__", None):
            return value
        copied = base.__new__(type(value), parts)
        self._add(value, copied)
        self._copy_state(value, copied)
        return copied

    def _copy_container(self, value: Any) -> Any:
        # With the methods of the base class: those of the user's class may do more, and an OrderedDict has an order.
        base: Any = next(each for each in _MUTABLE if isinstance(value, each))
        copied = base.__new__(type(value))
        self._add(value, copied)
        if base is deque:
            deque.__init__(copied, (), value.maxlen)
        if isinstance(value, defaultdict):
            copied.default_factory = value.default_factory
        if issubclass(base, dict):
            for key, part in base.items(value):
                base.__setitem__(copied, self.copy(key), self.copy(part))
        else:
            add = set.update if base is set else base.extend
            add(copied, [self.copy(part) for part in base.__iter__(value)])
        self._copy_state(value, copied)
        return copied

    def _copy_object(self, value: Any) -> Any:
        try:
            copied = object.__new__(type(value))  # runs no code of the class
            source = value
        except TypeError:  # its base class is not written in Python, such as that of exceptions
            copied = source = copy.copy(value)
            attributes = getattr(value, "__dict__", None)
            if attributes is not None and copied.__dict__ is attributes:  # as tblib copies some exceptions
                copied.__dict__ = dict(attributes)
        self._add(value, copied)
        self._copy_state(source, copied)
        return copied

    def _copy_state(self, source: Any, copied: Any) -> None:
        """Set the attributes of `copied` to copies of those of `source`, which can be the same object."""
        attributes = dict(getattr(source, "__dict__", {}))
        if attributes:
            vars(copied).update(attributes)  # a key of a dictionary that refers to it may need them for its hash
            vars(copied).update({name: self.copy(part) for name, part in attributes.items()})
        for slot in _slots(type(source)):
            try:
                part = slot.__get__(source)
            except AttributeError:  # it has no value
                continue
            slot.__set__(copied, self.copy(part))


def _slots(kind: type) -> Iterator[Any]:
    """The descriptors of the ``__slots__`` of a class."""
    for each in kind.__mro__:
        if "__slots__" in vars(each):
            yield from (member for member in vars(each).values() if isinstance(member, MemberDescriptorType))
