"""What `--compare` copies, so that a cell can change it, and what it shares."""

import io
import itertools
import pickle
import random
import threading
from array import array
from collections import ChainMap, Counter, OrderedDict, UserDict, UserList, defaultdict, deque, namedtuple
from dataclasses import dataclass, field
from enum import Enum
from types import SimpleNamespace
from typing import NamedTuple

import dask.array as da
import distributed  # noqa: F401 - it changes how the exceptions are copied whose classes exist by then
import numpy as np
import pandas as pd
import pytest
from tblib import pickling_support

from jupyter_gpudask.magics.compare_runs import Copier, copy_variables

Pair = namedtuple("Pair", "first second")  # noqa: PYI024 - the one of collections


class Point(NamedTuple):
    x: list


class Box:
    def __init__(self, value):
        self.value = value

    def add(self, number):
        self.value += number


class Slots:
    __slots__ = ("__hidden", "unset", "value")

    def __init__(self, value):
        self.value = value
        self.__hidden = [value]

    def hidden(self):
        return self.__hidden


@dataclass
class Data:
    numbers: list = field(default_factory=lambda: [1])


@dataclass(frozen=True, slots=True)
class Frozen:
    numbers: list


class CountingList(list):
    """A list with an attribute and a method that would notice a copy item by item."""

    appended = 0

    def append(self, item):
        self.appended += 1
        super().append(item)


class Delegating:
    """Its attributes are those of another object, which `copy.copy` cannot copy."""

    def __init__(self, inner):
        self.inner = inner

    def __getattr__(self, name):
        return getattr(self.inner, name)


class Attributes:
    """Its attributes are the items of a dictionary, and others are a KeyError."""

    def __init__(self):
        self.items = {"number": 1}

    def __getattr__(self, name):
        return self.__dict__["items"][name]

    def __reduce__(self):
        return dict, (self.items,)


class NotebookError(Exception):
    pass


class SentError(Exception):
    """Its copies are made as Dask's, which sends exceptions from workers."""

    def __init__(self, one, two):
        super().__init__(one)
        self.two = two


pickling_support.install(SentError)


class Color(Enum):
    RED = [1]  # noqa: RUF012 - a value that can change


def copied(value):
    """The copy of a variable that a cell reads, in a notebook whose classes are those of this file."""
    return copy_variables({"value": value, "__name__": __name__}, "value")["value"]


def with_state(error):
    error.numbers = [1]
    return error


# How to make an object, and an expression that changes it, as a cell would.
CHANGES = {
    "list": (lambda: [1], lambda x: x.append(2)),
    "set": (lambda: {1}, lambda x: x.add(2)),
    "dict": (lambda: {"a": 1}, lambda x: x.update(b=2)),
    "list in a tuple": (lambda: ([1],), lambda x: x[0].append(2)),
    "array in a tuple": (lambda: (np.zeros(2),), lambda x: x[0].__iadd__(1)),
    "named tuple": (lambda: Pair([1], 2), lambda x: x.first.append(2)),
    "class of a named tuple": (lambda: Point([1]), lambda x: x.x.append(2)),
    "key of a dict": (lambda: {(1, Box(2)): 3}, lambda x: next(iter(x))[1].add(1)),
    "defaultdict": (lambda: defaultdict(list, a=[1]), lambda x: x["a"].append(2)),
    "OrderedDict": (lambda: OrderedDict(a=[1], b=2), lambda x: x.move_to_end("a")),
    "Counter": (lambda: Counter("aab"), lambda x: x.update("b")),
    "deque": (lambda: deque([[1], 2], maxlen=2), lambda x: x.append(3)),
    "item of a deque": (lambda: deque([[1]]), lambda x: x[0].append(3)),
    "ChainMap": (lambda: ChainMap({"a": 1}, {"b": [2]}), lambda x: x["b"].append(3)),
    "UserDict": (lambda: UserDict(a=[1]), lambda x: x["a"].append(2)),
    "UserList": (lambda: UserList([1]), lambda x: x.append(2)),
    "SimpleNamespace": (lambda: SimpleNamespace(a=[1]), lambda x: x.a.append(2)),
    "bytearray": (lambda: bytearray(b"a"), lambda x: x.extend(b"b")),
    "array": (lambda: array("d", [1.0]), lambda x: x.append(2.0)),
    "NumPy array": (lambda: np.zeros(2), lambda x: x.fill(1)),
    "DataFrame": (lambda: pd.DataFrame({"a": [1]}), lambda x: x.insert(1, "b", 2)),
    "Dask array": (lambda: da.ones(4, chunks=2), lambda x: x.__setitem__(0, 5)),
    "object": (lambda: Box([1]), lambda x: x.value.append(2)),
    "attribute": (lambda: Box(1), lambda x: x.add(1)),
    "method": (lambda: Box(1).add, lambda x: x(1)),
    "object in an object in a list": (lambda: [Box(Box(1))], lambda x: x[0].value.add(1)),
    "object with slots": (lambda: Slots([1]), lambda x: x.value.append(2)),
    "hidden slot": (lambda: Slots(1), lambda x: x.hidden().append(2)),
    "dataclass": (Data, lambda x: x.numbers.append(2)),
    "frozen dataclass": (lambda: Frozen([1]), lambda x: x.numbers.append(2)),
    "list of the notebook": (lambda: CountingList([1, 2]), lambda x: x.append(3)),
    "object that delegates": (lambda: Delegating([1]), lambda x: x.append(2)),
    "object with a KeyError": (Attributes, lambda x: x.items.update(number=2)),
    "exception": (lambda: with_state(NotebookError("no")), lambda x: x.numbers.append(2)),
    "exception for workers": (lambda: with_state(SentError(1, 2)), lambda x: x.numbers.append(2)),
    "NumPy generator": (lambda: np.random.default_rng(1), lambda x: x.random()),
    "children of a NumPy generator": (lambda: np.random.default_rng(1), lambda x: x.spawn(1)),
    "NumPy RandomState": (lambda: np.random.RandomState(1), lambda x: x.rand()),
    "bit generator": (lambda: np.random.PCG64(1), lambda x: x.random_raw()),
    "seed sequence": (lambda: np.random.SeedSequence(1), lambda x: x.spawn(1)),
    "random.Random": (lambda: random.Random(1), lambda x: x.random()),  # noqa: S311
    "Dask generator": (lambda: da.random.default_rng(1), lambda x: x.random(3)),
    "Dask RandomState": (lambda: da.random.RandomState(1), lambda x: x.random_sample(3)),
    "generator in an object": (lambda: Box(np.random.default_rng(1)), lambda x: x.value.random()),
}


def state(value):
    """What changes with the object, at any depth."""
    if isinstance(value, Exception):
        return pickle.dumps((value.args, vars(value)))
    return value.name if isinstance(value, da.Array) else pickle.dumps(value)


@pytest.mark.parametrize("kind", CHANGES)
def test_a_change_of_the_copy_leaves_the_original(kind):
    make, change = CHANGES[kind]
    original = make()
    before = state(original)
    copy = copied(original)
    assert type(copy) is type(original)
    assert state(copy) == before
    change(copy)
    assert state(copy) != before
    assert state(original) == before
    change(original)
    assert state(original) == state(copy)  # the copy behaves as the original does


def test_a_defaultdict_keeps_its_factory_and_a_deque_its_length():
    assert copied(defaultdict(list))["new"] == []
    assert copied(deque([1, 2], maxlen=2)).maxlen == 2
    assert list(copied(OrderedDict.fromkeys("abc"))) == list("abc")
    moved = OrderedDict.fromkeys("abc")
    moved.move_to_end("a")
    assert list(copied(moved)) == list("bca")


def test_an_object_of_two_variables_is_copied_once():
    shared = Box([1])
    names = {"a": shared, "b": [shared, shared.value], "c": {shared: 1}, "d": (shared,), "__name__": __name__}
    copies = copy_variables(names, "a, b, c, d")
    assert copies["a"] is not shared
    assert copies["b"][0] is copies["a"]
    assert copies["b"][1] is copies["a"].value
    assert copies["c"][copies["a"]] == 1
    assert copies["d"][0] is copies["a"]


def test_generators_with_one_bit_generator_still_have_one():
    bits = np.random.PCG64(1)
    copies = copy_variables({"a": np.random.Generator(bits), "b": np.random.Generator(bits)}, "a, b")
    assert copies["a"].bit_generator is copies["b"].bit_generator is not bits


def test_an_object_that_contains_itself_does_so_in_the_copy():
    numbers, names, box = [1], {}, Box(None)
    numbers.append(numbers)
    names["self"] = names
    box.value = (box, {box})
    within = ([],)
    within[0].append(within)
    copies = copied([numbers, names, box, within])
    assert copies[0][1] is copies[0] is not numbers
    assert copies[1]["self"] is copies[1] is not names
    assert copies[2].value[0] is copies[2] is not box
    assert copies[2] in copies[2].value[1]
    assert copies[3][0][0] is copies[3] is not within


def test_a_tuple_of_what_cannot_change_is_not_copied():
    original = (1, "a", (2.0, None), frozenset([3]))
    assert copied(original) is original


class Closing:
    """An object that closes something when it ends."""

    closed = 0

    def __del__(self):
        type(self).closed += 1


class FromLibrary:
    """An object of a class that is not the notebook's."""


FromLibrary.__module__ = "library"


class Meta(type):
    """The class of a class."""


class WithMeta(metaclass=Meta):
    numbers = [1]  # noqa: RUF012


class UncopyableError(Exception):
    def __init__(self, one, two):  # the copy of an exception is made with one argument
        super().__init__(one)
        self.two = two


class WithUnusableHash:
    def __hash__(self):
        if hasattr(self, "original"):
            return 1
        raise RuntimeError("no hash")


class Raising:
    """A collection whose attributes raise."""

    def __getattribute__(self, name):
        raise RuntimeError(name)


Raising.__module__ = "library"

with io.StringIO("lines") as CLOSED:
    pass

SHARED = {
    "file": io.StringIO("lines"),
    "closed file": CLOSED,
    "lock": threading.Lock(),
    "iterator": iter([1, 2]),
    "generator": (number for number in [1]),
    "count": itertools.count(),
    "module": np,
    "class": Box,
    "class of a metaclass": WithMeta,
    "member of an enumeration": Color.RED,
    "function": print,
    "method of a library": random.seed,
    "object of a library": FromLibrary(),
    "object that closes something": Closing(),
    "exception that cannot be copied": UncopyableError(1, 2),
    "object whose attributes raise": Raising(),
    "random numbers of the system": random.SystemRandom(),
}


@pytest.mark.parametrize("kind", SHARED)
def test_other_objects_are_shared_alone_and_in_containers(kind):
    value = SHARED[kind]
    assert copied(value) is value
    within = {"a": [value], "b": Box((value,))}
    copies = copied(within)
    assert copies["a"] is not within["a"]
    assert copies["b"] is not within["b"]
    assert copies["a"][0] is value
    assert copies["b"].value[0] is value


def test_a_container_that_cannot_be_copied_is_shared_and_the_others_are_not():
    key = WithUnusableHash()
    key.original = True
    within = {key: 1}
    key.original = False
    del key.original
    copies = copied([[1], within])
    assert copies[1] is within
    assert copies[0] == [1]


def test_no_depth_of_nesting_is_an_error():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    assert copied(deep) is not deep


def test_a_copy_that_ends_does_not_close_what_the_original_uses():
    closing = [Closing()]
    before = Closing.closed
    copied(closing)
    assert Closing.closed == before


def test_classes_of_other_modules_are_not_the_notebooks():
    box = Box([1])
    assert Copier("elsewhere").copy(box) is box
    assert Copier(__name__).copy(box) is not box
