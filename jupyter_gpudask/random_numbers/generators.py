"""All distributions of NumPy for the CuPy generators that Dask makes in a GPU cell, and the seed of all backends.

Dask calls the methods of a CuPy generator by NumPy's names. CuPy lacks many of them, or accepts only numbers as their
parameters. Here each block is drawn by `draw_block`, which handles these cases. Generators that were created outside of
a GPU cell draw on the CPU inside it too; Dask would look up the backend again.
"""

from __future__ import annotations

import hashlib
import inspect
import math
import numbers
import sys
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
from dask._task_spec import Task, TaskRef, parse_input
from dask.array.backends import array_creation_dispatch
from dask.array.core import Array, asarray, broadcast_shapes, broadcast_to, normalize_chunks
from dask.array.random import Generator, RandomState, _apply_random, _choice_validate_params
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph
from dask.utils import random_state_data, typename

from ..inspection.arguments import bind, first_argument
from .blocks import BOUNDED, HOST_ONLY, BlockGenerator, choose_block, draw_block, to_numpy

WHOLE = {"multinomial": 1, "multivariate_hypergeometric": 0}
"""Methods with a list parameter that is not broadcast: method name -> index of that parameter.

Its length is the last axis of the output.
"""

WHOLE_NUMBERS = {
    *HOST_ONLY,
    *BOUNDED,
    "binomial",
    "geometric",
    "hypergeometric",
    "logseries",
    "negative_binomial",
    "poisson",
    "tomaxint",
    "zipf",
}

_TYPED_BY_NUMPY = {"integers", "randint"}
_Chunks = tuple[tuple[int, ...], ...]

_CPU = "numpy"


def wrap_func(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As `dask.array.random._wrap_func`; CuPy generators draw with `draw`."""
    return (draw if is_on_gpu(first_argument(original, args, kwargs)) else original)(*args, **kwargs)


def choice(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As `Generator.choice` and `RandomState.choice`; CuPy generators use `choose`."""
    if not is_on_gpu(first_argument(original, args, kwargs)):
        return original(*args, **kwargs)
    call = bind(original, args, kwargs).arguments  # the order of parameters differs between the two classes
    return choose(call.pop("self"), **call)


def choice_of_state(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As `RandomState.choice`, on the CPU too."""
    return (choice if is_on_gpu(first_argument(original, args, kwargs)) else choose_on_cpu)(original, *args, **kwargs)


def permutation(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As `Generator.permutation` and `RandomState.permutation`; CuPy generators use `permute`."""
    if not is_on_gpu(first_argument(original, args, kwargs)):
        return permute_on_cpu(original, *args, **kwargs)
    return permute(*bind(original, args, kwargs).args)


def is_on_gpu(rng: Any) -> bool:
    """Whether CuPy draws for this generator: it was created in a GPU cell, or from a generator of CuPy."""
    made_of = type(rng._bit_generator) if _is_generator(rng) else rng._RandomState  # noqa: SLF001
    return typename(made_of).startswith("cupy")


def draw(
    rng: Generator | RandomState,
    funcname: str,
    *args: Any,
    size: Any = None,
    chunks: Any = "auto",
    extra_chunks: _Chunks = (),
    **options: Any,
) -> Any:
    """Draw an array with a method of `rng`; replaces `dask.array.random._wrap_func`.

    `extra_chunks`: chunks of the axes that the method adds.
    """
    name = funcname
    if options.pop("out", None) is not None:
        raise NotImplementedError("A Dask array cannot be drawn into an array that is there already: leave out= away.")
    if name == "integers":
        args = (*args, options.pop("high", None))
    if name == "random_integers":  # the upper bound is included
        low, high = (1, args[0]) if args[1] is None else args
        name, args = "randint", (low, _parameter(high) + 1)
    by_default = np.int64 if name in WHOLE_NUMBERS else np.float64
    dtype = np.dtype(options.get("dtype", by_default))
    if name in _TYPED_BY_NUMPY or _is_extension(name, dtype):
        options.pop("dtype", None)
    parameters = [arg if index == WHOLE.get(name) else _parameter(arg) for index, arg in enumerate(args)]
    if name == "multivariate_hypergeometric":
        extra_chunks = ((len(args[0]),),)
    if name in WHOLE:
        parameters[WHOLE[name]] = np.asarray(to_numpy(args[WHOLE[name]])).tolist()
    _check(rng, name, parameters, dtype, options)

    arrays = [parameter for parameter in parameters if isinstance(parameter, Array)]
    shapes = [array.shape for array in arrays] + ([] if size is None else [_as_shape(size)])
    shape = broadcast_shapes(*shapes)
    chunks = normalize_chunks(chunks, shape, dtype=dtype)
    arrays = [broadcast_to(array, shape).rechunk(chunks) for array in arrays]
    token, generators = _block_generators(rng, chunks)
    key = f"{name}-{tokenize('cupy', token, name, shape, chunks, dtype, parameters, options)}"
    layer = {}
    for generator, sizes, block in zip(generators, product(*chunks), _blocks(chunks), strict=True):
        refs = iter([TaskRef((array.name, *block)) for array in arrays])
        given = parse_input([next(refs) if isinstance(parameter, Array) else parameter for parameter in parameters])
        place = (key, *block, *(0 for _ in extra_chunks))
        layer[place] = Task(place, draw_block, generator, name, given, size=sizes, dtype=dtype, options=options)
    return _array(key, layer, chunks + extra_chunks, dtype, arrays)


def choose(  # noqa: PLR0917 - NumPy's
    rng: Generator | RandomState,
    a: Any,
    size: Any = None,
    replace: bool = True,  # noqa: FBT002
    p: Any = None,
    axis: int = 0,
    shuffle: bool = True,  # noqa: FBT002
    chunks: Any = "auto",
) -> Array:
    """`Generator.choice` and `RandomState.choice`."""
    like = Generator(np.random.PCG64(0)) if isinstance(rng, Generator) else RandomState(0, np.random.RandomState)
    chances = np.asarray(p) if isinstance(p, list | tuple) else p
    population, size, replace, chances, _, chunks, meta, arrays = _choice_validate_params(
        like, a, size, replace, chances, axis, chunks
    )
    options = {"shuffle": shuffle} if isinstance(rng, Generator) and not replace else {}
    population = int(population) if isinstance(a, numbers.Integral) else population
    token, generators = _block_generators(rng, chunks)
    key = f"choice-{tokenize('cupy', token, size, chunks, population, replace, chances, shuffle)}"
    layer = {}
    for generator, sizes, block in zip(generators, product(*chunks), _blocks(chunks), strict=True):
        place = (key, *block)
        layer[place] = Task(
            place, choose_block, generator, population, chances, size=sizes, replace=replace, options=options
        )
    return _array(key, layer, chunks, meta.dtype, arrays)


def permute(rng: Any, x: Any) -> Array:
    """``permutation`` of `Generator` and `RandomState`: NumPy draws the order, as in Dask; the data is on a GPU."""
    from dask.array.slicing import shuffle_slice

    backend = array_creation_dispatch.dispatch("cupy")
    array = backend.arange(x, chunks="auto") if isinstance(x, numbers.Number) else asarray(x)
    if array.dtype.kind in "biufc":
        array = backend.to_backend(array)
    order = np.arange(len(array))
    if _is_generator(rng):
        (child,) = rng._bit_generator._seed_seq.spawn(1)  # noqa: SLF001
        np.random.Generator(np.random.PCG64(child)).shuffle(order)
    else:
        rng._numpy_state.shuffle(order)  # noqa: SLF001
    permuted: Array = shuffle_slice(array, order)
    return permuted


def _block_generators(rng: Any, chunks: _Chunks) -> tuple[Any, list[BlockGenerator]]:
    """A token for the next numbers of `rng`, and a generator for each block."""
    count = math.prod(len(sizes) for sizes in chunks)
    if _is_generator(rng):
        kind, sequence = type(rng._bit_generator).__name__, rng._bit_generator._seed_seq  # noqa: SLF001
        token = (kind, sequence.entropy, sequence.spawn_key, sequence.n_children_spawned)
        return token, [BlockGenerator(kind, child) for child in sequence.spawn(count)]
    states = random_state_data(count, rng._numpy_state)  # noqa: SLF001
    # The seed that CuPy derives from such a state; the state itself would add 2.5 kB to every task.
    seeds = [int(hashlib.md5(state, usedforsecurity=False).hexdigest()[:16], 16) for state in states]
    return seeds, [BlockGenerator(None, seed) for seed in seeds]


def _parameter(value: Any) -> Any:
    """The parameter as a Dask array or a Python number."""
    if isinstance(value, Array):
        return value
    value = to_numpy(value) if getattr(value, "ndim", 0) == 0 else value
    if getattr(value, "ndim", 0) or isinstance(value, list | tuple):
        return asarray(value)
    return value.item() if isinstance(value, np.ndarray | np.generic) else value


def _is_extension(name: str, dtype: np.dtype[Any]) -> bool:
    """Whether CuPy draws numbers of this dtype, whatever NumPy does: real numbers, or whole ones, of another size."""
    return name not in HOST_ONLY and dtype.kind in ("iu" if name in WHOLE_NUMBERS else "f")


def _check(rng: Any, name: str, parameters: list[Any], dtype: np.dtype[Any], options: dict[str, Any]) -> None:
    """Raise the error that NumPy raises for such arguments; if their values are not known yet, for their names.

    The options have a `dtype` only if it is not supported.
    """
    library: Any = np.random.default_rng(0) if _is_generator(rng) else np.random.RandomState(0)
    method = getattr(library, name)
    if any(isinstance(parameter, Array) for parameter in parameters):
        for option in options.keys() - (inspect.signature(method).parameters.keys() - {"dtype"}):
            raise TypeError(f"{name}() got an unexpected keyword argument {option!r}")
        return
    wanted = {"dtype": dtype} if name in _TYPED_BY_NUMPY else {}
    method(*parameters, size=None, **wanted, **options)


def _as_shape(size: Any) -> tuple[int, ...]:
    return tuple(size) if isinstance(size, tuple | list) else (size,)


def _blocks(chunks: _Chunks) -> product[tuple[int, ...]]:
    return product(*(range(len(sizes)) for sizes in chunks))


def _array(key: str, layer: dict[Any, Task], chunks: _Chunks, dtype: np.dtype[Any], arrays: list[Any]) -> Array:
    graph = HighLevelGraph.from_collections(key, layer, dependencies=arrays)
    return Array(graph, key, chunks, meta=_meta(len(chunks), dtype))


def _meta(ndim: int, dtype: np.dtype[Any]) -> Any:
    import cupy

    return (cupy if dtype.kind in "biufc" else np).zeros((0,) * ndim, dtype)


def _is_generator(rng: Any) -> bool:
    """Whether this is a `Generator` of Dask, and not a `RandomState`."""
    return hasattr(rng, "_bit_generator")


def permute_on_cpu(original: Callable[..., Array], /, *args: Any, **kwargs: Any) -> Array:
    """As Dask's ``permutation``; for a number, permute a NumPy ``arange`` whatever the configuration is."""
    __tracebackhide__ = True
    call = bind(original, args, kwargs)
    x = call.arguments["x"]
    if not isinstance(x, numbers.Number):
        return original(*args, **kwargs)
    call.arguments["x"] = array_creation_dispatch.dispatch("numpy").arange(x, chunks="auto")
    return original(*call.args, **call.kwargs)


def choose_on_cpu(original: Callable[..., Array], /, *args: Any, **kwargs: Any) -> Array:
    """As ``RandomState.choice``; in Dask its tasks use the configuration of the process in which they run."""
    __tracebackhide__ = True
    array = original(*args, **kwargs)
    state: RandomState = first_argument(original, args, kwargs)
    layer = {key: _with(state._RandomState, task) for key, task in array.dask.layers[array.name].items()}  # noqa: SLF001
    layers = dict(array.dask.layers) | {array.name: layer}
    graph = HighLevelGraph(layers, array.dask.dependencies)
    return Array(graph, array.name, array.chunks, meta=array._meta)  # noqa: SLF001


def _with(library: Any, task: Task) -> Task:
    """The task of ``choice`` with its generator as an argument, as in Dask's other methods."""
    state, a, size, replace, p = task.args
    given, options = parse_input([a]), parse_input({"replace": replace, "p": p})
    return Task(task.key, _apply_random, library, "choice", state, size, given, options)


class SharedStates(dict[str, Any]):
    """The generators of ``da.random`` by backend; GPU generators start from the state of the CPU's generator."""

    def __init__(self, states: dict[str, Any]) -> None:
        super().__init__(states)
        self._replaced = states  # restored when the patches are undone

    def __missing__(self, backend: str) -> Any:
        if backend == _CPU or _CPU not in self:
            state = RandomState()
        else:
            # Not the CPU's own stream: both would draw the same numbers.
            _, words, place, *_ = self[_CPU]._numpy_state.get_state(legacy=True)  # noqa: SLF001
            digest = hashlib.sha256(f"{backend} {place}".encode() + np.asarray(words).tobytes())
            state = RandomState(np.frombuffer(digest.digest(), dtype=np.uint32))
        self[backend] = state
        if backend == _CPU:
            self._replaced[_CPU] = state
        return state

    def seed(self, seed: Any) -> None:
        """Seed the CPU's generator as Dask does; GPU generators restart from its state."""
        self[_CPU] = self._replaced[_CPU] = RandomState(seed, RandomState=np.random.RandomState)
        for backend in set(self) - {_CPU}:
            self.pop(backend, None)


def seed(original: Callable[..., None], /, *args: Any, **kwargs: Any) -> None:
    """As `RandomState.seed`; the generators of ``da.random`` are seeded for all backends."""
    __tracebackhide__ = True
    call = bind(original, args, kwargs).arguments
    states: Any = vars(sys.modules[type(call["self"]).__module__]).get("_cached_states", {})
    if any(call["self"] is state for state in list(states.values())):
        states.seed(call.get("seed"))
    else:
        original(*args, **kwargs)
