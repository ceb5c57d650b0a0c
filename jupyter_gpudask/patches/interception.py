"""Replace the code of functions, so that calls through any name go through a wrapper."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from functools import partial, wraps
from itertools import count
from types import FunctionType
from typing import Any

from ..inspection.arguments import CODE_FILE

_HOOK = "_jupyter_gpudask_hook_"
_BEFORE = "_jupyter_gpudask_signature"

_numbers = count()
_lock = threading.Lock()


def make_caller(wrapper: Callable[..., Any], original: Any) -> Any:
    """A function that calls `wrapper` with `original` and its own arguments."""

    @wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        return wrapper(original, *args, **kwargs)

    return call


def intercept(function: Any, around: Callable[..., Any]) -> None:
    """Turn every call of `function` into ``around(original, *args, **kwargs)``; does nothing the second time.

    The function object stays the same, because it may already be bound to other names; its code is replaced by a call
    of a hook in its module.

    - `function`: a plain Python function; not a generator or coroutine function.
    - `around`: the wrapper, called with the original function and the unchanged arguments of the call. Its own
      parameter is positional-only, because the call may have any keyword: ``def around(original, /, *args, **kwargs)``.
      See `jupyter_gpudask.inspection.arguments`.
    """
    with _lock:
        if not _is_intercepted(function):
            _forward(function, f"{_HOOK}{next(_numbers)}", around)


def release(function: Any) -> None:
    """Remove the wrapper; the function has its own code again."""
    with _lock:
        if not _is_intercepted(function):
            return
        hook = next(name for name in function.__code__.co_names if name.startswith(_HOOK))
        (original,) = function.__globals__[hook].args
        function.__code__ = original.__code__
        function.__dict__.pop("__signature__")
        function.__dict__.update(vars(original).pop(_BEFORE))
        del function.__globals__[hook]


def _is_intercepted(function: Any) -> bool:
    return bool(function.__code__.co_filename == CODE_FILE)


def _forward(function: Any, hook: str, around: Callable[..., Any]) -> None:
    """Replace the code of `function` by a call of the variable `hook`."""
    original: Any = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    original.__kwdefaults__ = function.__kwdefaults__
    setattr(original, _BEFORE, {name: vars(function)[name] for name in ("__signature__",) if name in vars(function)})
    original.__signature__ = function.__signature__ = inspect.signature(function)
    function.__globals__[hook] = partial(around, original)  # before other threads find the new code
    function.__code__ = _forwarding_code(hook, function.__code__.co_freevars)


def _forwarding_code(hook: str, free_variables: tuple[str, ...]) -> Any:
    """Code that calls `hook`, for a function whose closure has these variables."""
    names = ", ".join(free_variables)
    source = [
        "def outer():",
        f"    {' = '.join(free_variables)} = None" if names else "    pass",
        "    def forward(*args, **kwargs):",
        "        __tracebackhide__ = True",
        f"        {names}" if names else "        pass",
        f"        return {hook}(*args, **kwargs)",
        "    return forward",
    ]
    scope: dict[str, Any] = {}
    code = compile("\n".join(source), CODE_FILE, "exec")
    exec(code, scope)  # noqa: S102 - there is no other way to create a closure of the same variables
    return scope["outer"]().__code__
