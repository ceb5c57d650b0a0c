"""Replace the code of functions, so that calls through any name go through a wrapper."""

from __future__ import annotations

import inspect
import threading
from functools import wraps
from itertools import count
from types import FunctionType
from typing import TYPE_CHECKING, Any

from ..inspection.arguments import CODE_FILE

if TYPE_CHECKING:
    from collections.abc import Callable

    Layers = tuple[Callable[..., Any], ...]

_HOOK = "_jupyter_gpudask_hook_"
_CALL = "_jupyter_gpudask_call"
_BEFORE = "_jupyter_gpudask_signature"

_numbers = count()
_lock = threading.Lock()


def calling(wrapper: Callable[..., Any], original: Any) -> Any:
    """A function that calls `wrapper` with `original` and its own arguments."""

    @wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        return wrapper(original, *args, **kwargs)

    return call


def intercept(function: Any, around: Callable[..., Any]) -> None:
    """Turn every call of `function` into ``around(original, *args, **kwargs)``; does nothing the second time.

    The function object stays the same, because it may already be bound to other names; its code is replaced by a call
    of a hook in its module. Later wrappers wrap earlier ones.

    Parameters
    ----------
    function
        A plain Python function; not a generator or coroutine function.
    around
        The wrapper, called with the original function and the unchanged arguments of the call. Its own parameter is
        positional-only, because the call may have any keyword: ``def around(original, /, *args, **kwargs)``.
        See `jupyter_gpudask.inspection.arguments`.
    """
    if around in _layers_of(function):
        return
    with _lock:
        layers = _layers_of(function)
        if not layers:
            _forward(function, f"{_HOOK}{next(_numbers)}", around)
        elif around not in layers:
            function.__globals__[_hook_of(function)] = (*layers, around)


def release(function: Any, around: Callable[..., Any]) -> None:
    """Remove the wrapper `around`; without the last wrapper, the function has its own code again."""
    with _lock:
        layers = _layers_of(function)
        if around not in layers:
            return
        hook = _hook_of(function)
        rest = tuple(layer for layer in layers if layer is not around)
        if len(rest) > 1:
            function.__globals__[hook] = rest
            return
        original: Any = rest[0]
        function.__code__ = original.__code__
        function.__dict__.pop("__signature__")
        function.__dict__.update(vars(original).pop(_BEFORE))
        del function.__globals__[hook]


class _InnerLayers:
    """The original function with all wrappers but the outermost, which gets this as its original."""

    __slots__ = ("_layers",)

    def __init__(self, layers: Layers) -> None:
        self._layers = layers

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        return _call(self._layers, args, kwargs)

    @property
    def __name__(self) -> str:
        return str(self._layers[0].__name__)

    @property
    def __signature__(self) -> inspect.Signature:
        signature: inspect.Signature = self._layers[0].__signature__  # type: ignore[attr-defined]
        return signature


def _hook_of(function: Any) -> str:
    """The name of the variable in its module that holds the layers of a patched function."""
    names: tuple[str, ...] = function.__code__.co_names
    return next(name for name in names if name.startswith(_HOOK))


def _layers_of(function: Any) -> Layers:
    """The original function followed by its wrappers, outermost last; empty if it is not patched."""
    if function.__code__.co_filename != CODE_FILE:
        return ()
    layers: Layers = function.__globals__[_hook_of(function)]
    return layers


def _forward(function: Any, hook: str, around: Callable[..., Any]) -> None:
    """Replace the code of `function` by a call of the layers in the variable `hook`."""
    original: Any = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    original.__kwdefaults__ = function.__kwdefaults__
    setattr(original, _BEFORE, {name: vars(function)[name] for name in ("__signature__",) if name in vars(function)})
    original.__signature__ = function.__signature__ = inspect.signature(function)
    # Other threads may call the function at any time: its new code must find the layers.
    function.__globals__.update({_CALL: _call, hook: (original, around)})
    function.__code__ = _forwarding_code(hook, function.__code__.co_freevars)


def _call(layers: Layers, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the outermost of `layers` with the inner layers as its original."""
    __tracebackhide__ = True
    inside = layers[0] if len(layers) == 2 else _InnerLayers(layers[:-1])
    return layers[-1](inside, *args, **kwargs)


def _forwarding_code(hook: str, free_variables: tuple[str, ...]) -> Any:
    """Code that calls `hook`, for a function whose closure has these variables."""
    names = ", ".join(free_variables)
    source = [
        "def outer():",
        f"    {' = '.join(free_variables)} = None" if names else "    pass",
        "    def forward(*args, **kwargs):",
        "        __tracebackhide__ = True",
        f"        {names}" if names else "        pass",
        f"        return _jupyter_gpudask_call({hook}, args, kwargs)",
        "    return forward",
    ]
    scope: dict[str, Any] = {}
    code = compile("\n".join(source), CODE_FILE, "exec")
    exec(code, scope)  # noqa: S102 - there is no other way to create a closure of the same variables
    return scope["outer"]().__code__
