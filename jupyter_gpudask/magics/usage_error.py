"""Errors of the arguments of the magics."""

from __future__ import annotations

from typing import Any

from IPython.core.error import UsageError

from ..errors import ArgumentsError, GpuDaskError


def as_usage_error(error: GpuDaskError) -> UsageError:
    """What IPython shows as one sentence; its last line is the address of the error, if there is one."""
    return UsageError("\n".join(filter(None, [str(error), error.address])))


def usage_error(code: str, /, **fields: Any) -> UsageError:
    """The error of arguments that has this code in the catalog."""
    return as_usage_error(ArgumentsError(code, **fields))
