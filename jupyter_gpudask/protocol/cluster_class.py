"""A Dask cluster class that the administrator has named in a profile."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class ClusterClass(BaseModel):
    """What makes the clusters of a profile; it comes from the server's configuration and from nowhere else.

    Attributes
    ----------
    path
        Where the class is, as ``package.module.Class``, in the environment of the kernel.
    options
        Its keyword arguments, as JSON knows them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str = Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$")
    options: dict[str, Any] = Field(default_factory=dict)

    def __repr__(self) -> str:  # its options can hold secrets
        return f"ClusterClass(path={self.path!r})"

    __str__ = __repr__

    @property
    def name(self) -> str:
        """What it is called."""
        return self.path.rpartition(".")[2]


class ClassProfile(BaseModel):
    """A profile whose clusters a class makes, as it stands in the configuration.

    Attributes
    ----------
    engine
        ``cuda`` if its workers have GPUs, CuPy and cuDF, so that cells are switched to these; else ``cpu``.
    start_timeout
        Seconds in which all workers must be up.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str = ""
    path: str = Field(alias="class", pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$")
    options: dict[str, Any] = Field(default_factory=dict)
    engine: Literal["cuda", "cpu"] = "cpu"
    start_timeout: float = Field(120.0, gt=0, le=3600)
