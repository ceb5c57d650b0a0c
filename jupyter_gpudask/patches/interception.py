"""Calls of other people's functions that pass through code of ours, whatever name the functions are called by."""

from __future__ import annotations

import inspect
import sys
import threading
from itertools import count
from types import FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import FrameType

    Layers = tuple[Callable[..., Any], ...]

_PACKAGE = "jupyter_gpudask"
_FILE = "<jupyter_gpudask>"
_HOOK = "_jupyter_gpudask_hook_"
_CALL = "_jupyter_gpudask_call"

_numbers = count()
_lock = threading.Lock()


def intercept(function: Any, around: Callable[..., Any]) -> None:
    """Have every call of `function` become ``around(original, *args, **kwargs)``; a second time does nothing.

    The function object stays the same, for it may be bound to other names already; its code is exchanged for a call of
    a hook in its module. What intercepts a function later is around what intercepted it before.

    Parameters
    ----------
    function
        A plain Python function; not a generator or coroutine function.
    around
        Called with the original and with the arguments of the call, as they were given. Its own parameters are
        positional only, for any keyword may be one of the call's: ``def around(original, /, *args, **kwargs)``.
        `bind` and `first_argument` give the arguments by name.
    """
    if around in _layers_of(function):
        return
    with _lock:
        layers = _layers_of(function)
        if not layers:
            _forward(function, f"{_HOOK}{next(_numbers)}", around)
        elif around not in layers:
            function.__globals__[_hook_of(function)] = (*layers, around)


def bind(original: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> inspect.BoundArguments:
    """The arguments of a call by the names of its parameters, for who is around `original`.

    Raises
    ------
    TypeError
        Of `original` itself, which does not take such arguments.
    """
    signature: inspect.Signature = original.__signature__
    try:
        return signature.bind(*args, **kwargs)
    except TypeError:
        __tracebackhide__ = True
        original(*args, **kwargs)
        raise


def first_argument(original: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """The first argument of a call, given by position or by name; `None` if there is none."""
    return args[0] if args else kwargs.get(next(iter(original.__signature__.parameters), ""))


def calling_frame() -> FrameType:
    """The frame that called the intercepted function, for who is around it."""
    frame = sys._getframe(1)  # noqa: SLF001
    while frame.f_back is not None and is_ours(frame):
        frame = frame.f_back
    return frame


def is_ours(frame: FrameType) -> bool:
    """Whether it is a frame of this package, or of the code that was put into an intercepted function."""
    name: str = frame.f_globals.get("__name__", "")
    return name.startswith(_PACKAGE) or frame.f_code.co_filename == _FILE


class _Inside:
    """What lies inside the outermost layer, as the original of that layer."""

    __slots__ = ("_layers",)

    def __init__(self, layers: Layers) -> None:
        self._layers = layers

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        return _call(self._layers, args, kwargs)

    @property
    def __signature__(self) -> inspect.Signature:
        signature: inspect.Signature = self._layers[0].__signature__  # type: ignore[attr-defined]
        return signature


def _hook_of(function: Any) -> str:
    """The name in its module under which the layers of an intercepted function are."""
    names: tuple[str, ...] = function.__code__.co_names
    return next(name for name in names if name.startswith(_HOOK))


def _layers_of(function: Any) -> Layers:
    """The original of an intercepted function and what is around it, outermost last; nothing of another function."""
    if function.__code__.co_filename != _FILE:
        return ()
    layers: Layers = function.__globals__[_hook_of(function)]
    return layers


def _forward(function: Any, hook: str, around: Callable[..., Any]) -> None:
    """Exchange the code of `function` for a call of what is under `hook`."""
    original: Any = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    original.__kwdefaults__ = function.__kwdefaults__
    original.__signature__ = function.__signature__ = inspect.signature(function)
    # Other threads may call the function at any time: all that its new code needs is there before.
    function.__globals__.update({_CALL: _call, hook: (original, around)})
    function.__code__ = _forwarding_code(hook, function.__code__.co_freevars)


def _call(layers: Layers, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the outermost of `layers` with what lies inside it as its original."""
    __tracebackhide__ = True
    inside = layers[0] if len(layers) == 2 else _Inside(layers[:-1])
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
    code = compile("\n".join(source), _FILE, "exec")
    exec(code, scope)  # noqa: S102 - a closure of the same variables cannot be made otherwise
    return scope["outer"]().__code__
