"""Environment variables that differ between kernels, and that imports of a supervisor or a worker do not read."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# Jupyter and ipykernel set these in each kernel.
_NAMES = frozenset(
    {"CLICOLOR", "CLICOLOR_FORCE", "FORCE_COLOR", "GIT_PAGER", "MPLBACKEND", "PAGER", "PYDEVD_USE_FRAME_EVAL", "TERM"}
)
_PREFIX = "JPY_"


def without_kernel_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that can change what a supervisor or a worker imports or does."""
    return {name: value for name, value in environment.items() if not is_kernel_variable(name)}


def is_kernel_variable(name: str) -> bool:
    """Whether a variable is one of those."""
    return name in _NAMES or name.startswith(_PREFIX)
