"""Dask cluster classes in cluster profiles, which the administrator of a Jupyter server sets up."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

CUDA_WORKER = "dask_cuda.CUDAWorker"
"""The ``worker_class`` with which Dask's own classes, such as `distributed.SSHCluster`, start workers with GPUs."""


class ClusterClass(BaseModel):
    """A Dask cluster class that creates the clusters of a profile; it only comes from the server's configuration.

    Attributes
    ----------
    path
        The import path, ``package.module.Class``, in the environment of the kernel.
    options
        Its keyword arguments, as JSON values.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str = Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$")
    options: dict[str, Any] = Field(default_factory=dict)

    def __repr__(self) -> str:  # its options can hold secrets
        return f"ClusterClass(path={self.path!r})"

    __str__ = __repr__

    @property
    def name(self) -> str:
        """The name of the class."""
        return self.path.rpartition(".")[2]


class ClassProfile(BaseModel):
    """A cluster profile whose clusters are created by a class, as written in the configuration.

    Attributes
    ----------
    engine
        ``cuda`` if its workers have GPUs, CuPy and cuDF, which cells then use; else ``cpu``. The default is ``cuda`` if
        the option ``worker_class`` is `CUDA_WORKER`.
    start_timeout
        Seconds for all workers to start.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str = ""
    path: str = Field(alias="class", pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$")
    options: dict[str, Any] = Field(default_factory=dict)
    engine: Literal["cuda", "cpu"] = "cpu"
    start_timeout: float = Field(120.0, gt=0, le=3600)

    @model_validator(mode="before")
    @classmethod
    def _add_engine(cls, entry: Any) -> Any:
        match entry:
            case {"options": {"worker_class": worker_class}} if worker_class == CUDA_WORKER:
                return {"engine": "cuda"} | entry
        return entry
