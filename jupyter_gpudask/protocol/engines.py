"""The engines of clusters: what is known of each before a cluster exists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Engine = Literal["cuda", "cpu"]


@dataclass(frozen=True)
class EngineTraits:
    """What is known of an engine before a cluster exists.

    - `has_gpus`: whether each worker has a GPU, which cells then use.
    - `worker_class`: the class that starts a worker, by Dask's option ``worker_class``.
    - `worker_command`: the module that starts workers in the jobs of a batch system.
    - `modules`: what the fork server imports, before workers are forked from it.
    - `variables`: the environment variables of a fork server that imports these modules.
    """

    has_gpus: bool
    worker_class: str
    worker_command: str
    modules: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)


ENGINES: dict[Engine, EngineTraits] = {
    "cuda": EngineTraits(
        has_gpus=True,
        worker_class="dask_cuda.CUDAWorker",
        worker_command="dask_cuda.cli",
        modules=("dask_cuda", "cupy", "dask.dataframe"),  # not cuDF: see `worker.imports`
        # Without a visible device the fork server cannot create a CUDA context.
        variables={"CUDA_VISIBLE_DEVICES": "", "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "RAPIDS_NO_INITIALIZE": "True"},
    ),
    "cpu": EngineTraits(
        has_gpus=False,
        worker_class="distributed.Nanny",
        worker_command="distributed.cli.dask_worker",
        # Not dask.dataframe: its import takes longer than all others together, and not everybody uses it.
        modules=("dask.array",),
    ),
}


def has_gpus(engine: str) -> bool:
    """Whether workers have GPUs for certain; with the engine ``auto`` a start decides it."""
    return any(name == engine and traits.has_gpus for name, traits in ENGINES.items())


def engine_with(*, gpus: bool) -> Engine:
    """The engine of a cluster of another class, by whether its workers have GPUs."""
    return next(name for name, traits in ENGINES.items() if traits.has_gpus == gpus)
