"""Errors of the arguments of the magics."""

from __future__ import annotations

from IPython.core.error import UsageError

from ..error_anchors import errors_page
from ..installation import documentation


def usage_error(text: str) -> UsageError:
    """The error with this text; its last line is the address of its sentence on the page of errors, if there is one."""
    return UsageError("\n".join(filter(None, [text, documentation(errors_page("arguments", text))])))
