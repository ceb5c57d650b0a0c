"""Calls of other people's functions that pass through code of ours, whatever name the functions are called by."""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_HOOK = "_jupyter_gpudask_{name}"


def intercept(function: Any, around: Callable[..., Any]) -> None:
    """Have every call of `function` become ``around(original, *args, **kwargs)``; a second time does nothing.

    The function object stays the same, for it may be bound to other names already; its code is exchanged for a call of
    a hook in its module.

    Parameters
    ----------
    function
        A plain Python function; not a generator or coroutine function.
    around
        Called with the original and with the arguments of the call.
    """
    hook = _HOOK.format(name=function.__qualname__.replace(".", "_").replace("<locals>", ""))
    if hook in function.__globals__:
        return
    original = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    original.__kwdefaults__ = function.__kwdefaults__
    signature = inspect.signature(function)

    def call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        __tracebackhide__ = True
        return around(original, *args, **kwargs)

    function.__globals__[hook] = call
    function.__code__ = _forwarding_code(hook, function.__code__.co_freevars)
    function.__defaults__ = function.__kwdefaults__ = None
    function.__signature__ = signature


def _forwarding_code(hook: str, free_variables: tuple[str, ...]) -> Any:
    """Code that calls `hook`, for a function whose closure has these variables."""
    names = ", ".join(free_variables)
    source = [
        "def outer():",
        f"    {' = '.join(free_variables)} = None" if names else "    pass",
        "    def forward(*args, **kwargs):",
        "        __tracebackhide__ = True",
        f"        {names}" if names else "        pass",
        f"        return {hook}(args, kwargs)",
        "    return forward",
    ]
    scope: dict[str, Any] = {}
    exec("\n".join(source), scope)  # noqa: S102 - a closure of the same variables cannot be made otherwise
    return scope["outer"]().__code__
