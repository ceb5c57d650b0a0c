"""Dask's functions that pass through code of ours take what they took: every argument, by position or by name."""

import inspect
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from inspect import Parameter
from itertools import product
from types import SimpleNamespace

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask.array.random import RandomState
from device import MARKS, cupy

from jupyter_gpudask.overlay import CellRecord
from jupyter_gpudask.patches import interception
from jupyter_gpudask.patches.interception import intercept, release
from jupyter_gpudask.patches.patch import resolve
from jupyter_gpudask.patches.table import PATCHES
from jupyter_gpudask.switch.context import switched_to

pytestmark = MARKS


def wrappers():
    """Every wrapper of the table with the function that it wraps, where the library is installed."""
    found = {}
    for change in [change for row in PATCHES if row.process == "kernel" for change in row.changes]:
        if change.how in ("attribute", "code"):
            try:
                function = inspect.unwrap(resolve(change.target))
            except ImportError:  # cuDF
                continue
            found[f"{change.target} {change.wrapper.rpartition(':')[2]}"] = (function, resolve(change.wrapper))
    return found


WRAPPERS = wrappers()
NAMES_OF_OURS = sorted(
    {
        name
        for _, wrapper in WRAPPERS.values()
        for name, parameter in inspect.signature(wrapper).parameters.items()
        if parameter.kind is not Parameter.VAR_KEYWORD
    }
    | {"function", "original", "make", "cls", "client", "operation", "self", "change", "layers", "hook"}
)
RESULTS = {
    "get_default_shuffle_method": "tasks",
    "FrameBase.__dask_postpersist__": (None, ()),
    "RandomState.choice": inspect.unwrap(RandomState.choice)(RandomState(1, np.random.RandomState), 3, 2),
}
ARRAY = da.ones(2, chunks=1)


class Given(SimpleNamespace):
    """An argument, of which our code learns nothing."""

    def __init__(self):
        expr, frame = SimpleNamespace(dependencies=list), SimpleNamespace(ndim=1)
        super().__init__(
            run=lambda: None,
            dependencies=list,
            args=(),
            operands=(),
            expr=expr,
            frame=frame,
            _RandomState=np.random.RandomState,
        )

    __hash__ = object.__hash__
    __eq__ = object.__eq__


def call_of(function, *, by_name):
    """Arguments for every parameter of a function, and for those that it passes on."""
    args, kwargs = [], {}
    parameters = inspect.signature(function).parameters
    for name, parameter in parameters.items():
        if parameter.kind is Parameter.VAR_KEYWORD:
            kwargs |= {other: Given() for other in [*NAMES_OF_OURS, "meta"] if other not in parameters}
        elif parameter.kind is Parameter.POSITIONAL_ONLY or (
            parameter.kind is not Parameter.KEYWORD_ONLY and not by_name
        ):
            args.append(Given())
        elif parameter.kind is not Parameter.VAR_POSITIONAL:
            kwargs[name] = Given()
    return tuple(args), kwargs


@pytest.mark.parametrize("name", WRAPPERS)
def test_what_reaches_the_original_is_what_was_given(name):
    function, wrapper = WRAPPERS[name]
    signature, reached = inspect.signature(function), []

    def original(*args, **kwargs):
        reached.append(signature.bind(*args, **kwargs).arguments)
        return RESULTS.get(function.__qualname__, ARRAY)

    original.__signature__ = signature
    for inside, by_name in product([False, True], repeat=2):
        args, kwargs = call_of(function, by_name=by_name)
        with switched_to("cupy", "pandas", CellRecord()) if inside else nullcontext():
            wrapper(original, *args, **kwargs)
        if function is inspect.unwrap(ThreadPoolExecutor.submit) and inside:  # it runs in the context of the cell
            reached[-1]["fn"], *rest = reached[-1].pop("args")
            reached[-1] |= {"args": tuple(rest)} if rest else {}
        assert reached.pop() == signature.bind(*args, **kwargs).arguments
        assert not reached


HOST = np.arange(12.0).reshape(3, 4)
BY_NAME = {
    "from_array": lambda: da.from_array(x=HOST, chunks=2),
    "asarray": lambda: da.asarray(a=HOST),
    "asanyarray": lambda: da.asanyarray(a=HOST),
    "ones_like": lambda: da.ones_like(a=HOST),
    "full_like": lambda: da.full_like(a=HOST, fill_value=3.0),
    "linspace": lambda: da.linspace(start=0, stop=1, num=5),
    "concatenate": lambda: da.concatenate(seq=[da.asarray(HOST), da.asarray(HOST)], axis=1),
    "matmul": lambda: da.matmul(a=da.asarray(HOST), b=da.asarray(HOST.T)),
    "rechunk": lambda: da.rechunk(x=da.asarray(HOST), chunks=2),
    "angle": lambda: da.angle(x=da.asarray(HOST) - 3, deg=True),
    "median": lambda: da.median(a=da.asarray(HOST), axis=1, keepdims=True),
    "quantile": lambda: da.quantile(a=da.asarray(HOST), q=[0.2, 0.5], axis=0, method="lower", weights=None),
    "percentile": lambda: da.percentile(a=da.asarray(HOST[0]), q=[20]),
    "choice": lambda: da.random.RandomState(1).choice(a=np.ones(5), size=4, replace=True, p=None, chunks=2),
    "choice by position": lambda: da.random.RandomState(1).choice(np.ones(5), 4, True, None, 2),
    "choice of a generator": lambda: da.random.default_rng(1).choice(np.ones(5), 4, True, None, 0, True, 2),
    "compute": lambda: dask.compute([da.asarray(HOST)], traverse=True, scheduler="sync")[0][0],
}


@pytest.mark.parametrize("name", BY_NAME)
def test_a_call_by_name_gives_what_it_gives_outside(name):
    expected = np.asarray(dask.compute(BY_NAME[name](), scheduler="sync")[0])
    with switched_to("cupy", "pandas"):
        result = dask.compute(BY_NAME[name](), scheduler="sync")[0]
    assert type(result) is cupy.ndarray
    np.testing.assert_allclose(result.get(), expected)


@pytest.mark.parametrize("name", ["original", "function", "make", "cls"])
def test_what_a_function_passes_on_may_have_any_name(name):
    frame = dd.from_map(lambda number, **others: pd.DataFrame({"a": [number], **others}), [1, 2], **{name: 1})
    assert frame.compute(scheduler="sync")[name].tolist() == [1, 1]
    array = da.fromfunction(lambda i, **others: i + others[name], shape=(2,), dtype=float, **{name: 1})
    assert array.compute(scheduler="sync").tolist() == [1, 2]


def test_arguments_that_a_function_does_not_take_are_its_own_error():
    with pytest.raises(TypeError, match=r"rechunk\(\) got an unexpected keyword argument 'size'"):
        da.rechunk(da.ones(3), size=2)


def test_what_other_threads_call_is_there_while_it_is_intercepted():
    """`intercept` is stopped at each of its lines; whatever it has done by then, the function can be called."""
    function = make_function()
    results = []

    def call(frame, event, _):
        if frame.f_globals is vars(interception):
            sys.settrace(None)
            results.append((event, function(2, b=3)))
            sys.settrace(call)
        return call

    sys.settrace(call)
    try:
        intercept(function, twice)
    finally:
        sys.settrace(None)
    assert function(2, b=3) == 10
    assert len(results) > 20
    assert {result for _, result in results} == {5, 10}


def test_threads_that_intercept_one_function_intercept_it_once():
    for _ in range(50):
        function, barrier = make_function(), threading.Barrier(8)

        def run(function=function, barrier=barrier):
            barrier.wait()
            intercept(function, twice)
            return function(2, b=3)

        with ThreadPoolExecutor(8) as pool:
            assert [future.result() for future in [pool.submit(run) for _ in range(8)]] == [10] * 8


def test_functions_of_one_name_are_intercepted_each_for_itself():
    first, second, seen = make_function(), make_function(), []
    for function in (first, second, first, second):
        intercept(function, lambda original, a, **b: seen.append(a) or original(a, **b))
    assert (first(10), second(20), seen) == (11, 21, [10, 20])


def test_a_function_that_is_released_is_what_it_was():
    function = make_function()
    before = (function.__code__, dict(vars(function)), inspect.signature(function), dict(function.__globals__))
    intercept(function, twice)
    assert function(2, b=3) == 10
    release(function)
    assert function(2, b=3) == 5
    assert (function.__code__, dict(vars(function)), inspect.signature(function), function.__globals__) == before


def twice(original, /, *args, **kwargs):
    return 2 * original(*args, **kwargs)


def make_function():
    """A function in a module of its own, with a closure and defaults."""
    module = {}
    exec("def make(c=0):\n    def add(a, *, b=1):\n        return a + b + c\n    return add", module)  # noqa: S102 - for globals of its own
    return module["make"]()
