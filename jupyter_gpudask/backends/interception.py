"""Calls of other people's functions that pass through code of ours, whatever name the functions are called by."""

from __future__ import annotations

import inspect
import sys
from itertools import count
from types import FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

_PACKAGE = "jupyter_gpudask"
_FILE = "<jupyter_gpudask>"
_HOOK = "_jupyter_gpudask_hook_"
_CALL = "_jupyter_gpudask_call"

_numbers = count()


def intercept(function: Any, around: Callable[..., Any]) -> None:
    """Have every call of `function` become ``around(original, *args, **kwargs)``; a second time does nothing.

    The function object stays the same, for it may be bound to other names already; its code is exchanged for a call of
    a hook in its module. What intercepts a function later is around what intercepted it before.

    Parameters
    ----------
    function
        A plain Python function; not a generator or coroutine function.
    around
        Called with the original and with the arguments of the call.
    """
    if function.__code__.co_filename == _FILE:
        hook = next(name for name in function.__code__.co_names if name.startswith(_HOOK))
    else:
        hook = f"{_HOOK}{next(_numbers)}"
        function.__globals__.update({_CALL: _call, hook: [_become_forwarder(function, hook)]})
    layers: list[Callable[..., Any]] = function.__globals__[hook]
    if around not in layers:
        layers.append(around)


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


def _become_forwarder(function: Any, hook: str) -> Callable[..., Any]:
    """Exchange the code of `function`; what it was is returned."""
    original = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    original.__kwdefaults__ = function.__kwdefaults__
    signature = inspect.signature(function)
    function.__code__ = _forwarding_code(hook, function.__code__.co_freevars)
    function.__defaults__ = function.__kwdefaults__ = None
    function.__signature__ = signature
    return original


def _call(layers: Sequence[Callable[..., Any]], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the outermost of `layers` with what lies inside it as its original."""
    __tracebackhide__ = True
    if len(layers) == 1:
        return layers[0](*args, **kwargs)
    inside = layers[:-1]
    if len(inside) == 1:
        return layers[-1](inside[0], *args, **kwargs)

    def original(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        return _call(inside, args, kwargs)

    return layers[-1](original, *args, **kwargs)


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
