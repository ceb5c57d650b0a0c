"""The settings of the magics: ``%config GpuDask`` and ``c.GpuDask`` in ``ipython_config.py``."""

from __future__ import annotations

import os

from traitlets import Bool, Enum, Float, Unicode, observe
from traitlets.config import Configurable

from ..machine.lease_registry import LEASE_DIRECTORY_VARIABLE
from ..overlay import DEFAULT_FALLBACK, DEFAULT_RESULTS, CellRecord
from .arguments import RESULTS, CellArguments


class MagicsSettings(Configurable):
    """Settings of the magics in one shell."""

    footer = Bool(
        default_value=True, help="Whether to show a line under each %%gpudask cell that used the cluster."
    ).tag(config=True)
    fallback = Enum(
        ("error", "host"),
        default_value=DEFAULT_FALLBACK,
        help="What happens to an operation that CuPy or cuDF lack: its error is raised (`error`), or it is "
        "computed on the host (`host`).",
    ).tag(config=True)
    results = Enum(
        RESULTS,
        default_value=DEFAULT_RESULTS,
        help="Where the results of compute() are: `host`, as NumPy and pandas objects, or `gpu`, on the kernel's GPU.",
    ).tag(config=True)
    on = Bool(
        default_value=False,
        help="Whether every cell that uses Dask runs as if %%gpudask stood above it, as after %gpudask on.",
    ).tag(config=True)
    on_options = Unicode(
        default_value="", help="The options of %%gpudask for these cells, such as `--results gpu --dataframe pandas`."
    ).tag(config=True)
    polars_over_network = Bool(
        default_value=False,
        help="Whether Polars' engine may use a cluster on several machines. Its workers then accept connections from "
        "the network, without encryption and authentication.",
    ).tag(config=True)
    optimize = Bool(
        default_value=True,
        help="Whether to optimize graphs beyond what Dask does: fewer, larger tasks, with the same results.",
    ).tag(config=True)
    lease_directory = Unicode(
        default_value="",
        help="The directory in which all users of this machine reserve their GPUs; empty for the one that the Jupyter "
        "server has set.",
    ).tag(config=True)
    price_per_gpu_hour = Float(
        0.0,
        min=0.0,
        help="What a GPU costs per hour, for the cost of each cell; 0 for the price that the Jupyter server has set.",
    ).tag(config=True)
    currency = Unicode("USD", help="The currency of the price.").tag(config=True)

    @observe("lease_directory")
    def _pass_on_lease_directory(self, change: dict[str, str]) -> None:
        # To the supervisors, and to whatever else this kernel starts.
        os.environ[LEASE_DIRECTORY_VARIABLE] = change["new"]

    def record_of(self, arguments: CellArguments, *, on_gpus: bool = True) -> CellRecord:
        """The record of a new cell: its options, and where it has none, these settings."""
        record = CellRecord(results=arguments.results or ("gpu" if self.results == "gpu" else "host"))
        record.polars_over_network = self.polars_over_network
        if on_gpus:
            record.fallback = "strict" if arguments.strict else "host" if self.fallback == "host" else "error"
        return record


# The class name is the configuration section: `%config GpuDask.footer = False`.
MagicsSettings.__name__ = "GpuDask"
