"""Parquet files that workers read and write with cuDF, planned in the kernel as those of pandas.

A table that fits is one partition for each worker: each merge and group-by of several partitions shuffles them, which
costs more than all else; docs/architecture.md, "Decisions".
"""

from __future__ import annotations

import functools
import glob
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import islice, pairwise
from typing import Any

import pyarrow.parquet as pq
from dask._collections import new_collection
from dask._task_spec import Task
from dask.dataframe.dask_expr._repartition import RepartitionToFewer
from dask.dataframe.dask_expr.io.io import FusedIO
from dask.dataframe.dask_expr.io.parquet import ReadParquetFSSpec
from dask.dataframe.io.parquet.arrow import ArrowDatasetEngine
from dask.dataframe.io.parquet.core import ParquetFunctionWrapper
from dask.typing import Key
from dask.utils import parse_bytes
from distributed import Client

from ....inspection.frames import partition_to_gpu
from ....inspection.placement import to_gpu
from .parquet import name_dtypes

_PART_OF_MEMORY = 32
"""A partition has at most this part of a GPU's memory, in files; as in dask_cudf."""
_MEMORY = 8 * 2**30
"""Of a GPU, if it is not known."""
_MOST = 100
"""Files, or parts of them, that are read as one partition."""
_SAMPLE = 3
"""Files of which the sizes of columns are read."""


class GpuEngine(ArrowDatasetEngine):
    """Dask's engine, whose partitions are read and written with cuDF by the workers."""

    @classmethod
    def multi_support(cls) -> bool:
        """Whether it reads several files at once."""
        return True

    @classmethod
    def default_blocksize(cls) -> int:
        """The bytes of a partition in files."""
        client = _client()
        return int(getattr(client, "device_memory", 0) or _MEMORY) // _PART_OF_MEMORY

    @classmethod
    def read_partition(cls, *args: Any, **kwargs: Any) -> Any:
        """The dataframe of a partition; see `dask.dataframe.io.parquet.utils.Engine`."""
        from .cudf_engine import PandasIndexEngine

        kwargs.pop("dtype_backend", None)
        return PandasIndexEngine.read_partition(*args, **kwargs)

    @classmethod
    def initialize_write(cls, df: Any, *args: Any, **kwargs: Any) -> Any:
        """Plan to write; the dtypes are passed on, because the schema of Dask has no metadata for pandas."""
        *found, options = super().initialize_write(df, *args, **kwargs)
        return *found, options | {"dtypes": {name: str(dtype) for name, dtype in df.dtypes.items()}}

    @classmethod
    def write_partition(cls, *args: Any, **kwargs: Any) -> Any:
        """Write a partition, with the dtypes of the plan in the metadata for pandas."""
        from .cudf_engine import PandasIndexEngine

        schema, dtypes = kwargs.pop("schema", None), kwargs.pop("dtypes")
        partition, path, fs, filename, partition_on, *others = args
        partition = with_missing_booleans(partition_to_gpu(partition), dtypes)
        written = PandasIndexEngine.write_partition(partition, path, fs, filename, partition_on, *others, **kwargs)
        folders = ["*"] * len(partition_on or ())
        file = fs.sep.join([glob.escape(path), *folders, filename])
        for each in fs.glob(file) if folders else [fs.sep.join([path, filename])]:
            name_dtypes(fs, each, dtypes)
        return [{**each, "schema": schema} for each in written or ()]

    @classmethod
    def write_metadata(cls, parts: Any, meta: Any, fs: Any, path: Any, *args: Any, **kwargs: Any) -> Any:
        """Write the metadata of all partitions, and their schema."""
        from .cudf_engine import PandasIndexEngine

        schemas = [part[0]["schema"] for part in parts or () if part]
        if schemas and schemas[0] is not None and not kwargs.get("append"):
            with fs.open(fs.sep.join([path, "_common_metadata"]), "wb") as file:
                pq.write_metadata(schemas[0], file)
        return PandasIndexEngine.write_metadata(parts, meta, fs, path, *args, **kwargs)


def with_missing_booleans(partition: Any, dtypes: Mapping[Any, str]) -> Any:
    """A partition of cuDF, of which booleans that are all missing, and texts in cuDF, are booleans.

    Beside booleans of other files, cuDF makes false of these texts. `dtypes`: those of the plan.
    """
    changed = {}
    for name in (name for name, dtype in dtypes.items() if dtype in ("bool", "boolean") and name in partition):
        missing = partition[name].isna()
        if str(partition[name].dtype) in ("object", "str", "string") and missing.all():
            changed[name] = missing.where(~missing)
    partition = partition.copy(deep=False) if changed else partition
    for name, booleans in changed.items():
        partition[name] = booleans
    return partition


class ReadParquetOnGpu(ReadParquetFSSpec):
    """Dask's expression, whose partitions are read onto GPUs."""

    gpudask_place = "gpu"

    def _filtered_task(self, name: Key, index: int) -> Task:
        if self._plan["empty"]:  # where Dask has all columns of the files
            return Task(name, partition_to_gpu, self._meta)
        return super()._filtered_task(name, index)

    @functools.cached_property
    def _fusion_compression_factor(self) -> float:
        """The part of a partition that its columns need, of which the size in files is that of the whole table."""
        if self.blocksize is None or self.split_row_groups not in ("infer", "adaptive"):
            return 1
        sizes = self._sizes_of_columns()
        wanted = set(self.columns)
        needed = sum(size for name, size in sizes.items() if name in wanted or name.partition(".")[0] in wanted)
        block = parse_bytes(self.engine.default_blocksize() if self.blocksize == "default" else self.blocksize)
        total = sum(sizes.values())
        if total <= 0:
            return 1
        whole = block if self.aggregate_files and total < block else total
        return max(needed / total * whole / block, 0.001)

    def _sizes_of_columns(self) -> dict[str, float]:
        """The mean bytes of each column in some files."""
        sizes: dict[str, float] = {}
        files = list(islice(self._dataset_info["ds"].get_fragments(), _SAMPLE))
        for file in files:
            for group in map(file.metadata.row_group, range(file.metadata.num_row_groups)):
                for column in map(group.column, range(group.num_columns)):
                    size = column.total_uncompressed_size / len(files)
                    sizes[column.path_in_schema] = sizes.get(column.path_in_schema, 0.0) + size
        return sizes

    def _tune_up(self, parent: Any) -> Any:
        if self._fusion_compression_factor >= 1 or isinstance(parent, FusedIO) or len(self._partitions) < 2:
            return None
        client = _client()
        workers = 1 if client is None or client.asynchronous else len(client.nthreads()) or 1
        joined = min(math.ceil(1 / self._fusion_compression_factor), _MOST)
        several = len(self._partitions)
        fewer = max(math.ceil(several / joined), min(several, workers))
        return parent.substitute(self, FewPartitions(self, fewer))


class ReadEachOnGpu(ReadParquetOnGpu):
    """The same with a partition for each that Dask has planned, however small they are."""

    def _tune_up(self, parent: Any) -> None:
        """Read no partitions together."""


class FewPartitions(FusedIO):
    """As `FusedIO`; the number of partitions is a parameter: a worker does not know the memory of all GPUs."""

    _parameters = ["_expr", "_fewer"]  # noqa: RUF012 - as in Dask

    @functools.cached_property
    def _fusion_buckets(self) -> Sequence[Any]:
        several = self.operand("_expr")._partitions  # noqa: SLF001
        boundaries = RepartitionToFewer._compute_partition_boundaries(self.operand("_fewer"), len(several))  # noqa: SLF001
        return [several[start:stop] for start, stop in pairwise(boundaries)]

    def _task(self, name: Key, index: int) -> Task:
        reader = self.operand("_expr")
        several = [reader._filtered_task(name, number) for number in self._fusion_buckets[index]]  # noqa: SLF001
        first = several[0].func
        if not isinstance(first, ParquetFunctionWrapper) or first.common_kwargs.get("partitions"):
            return super()._task(name, index)  # a column of a table, or folders that stand for values
        parts = [part for task in several for part in (task.args[0] if isinstance(task.args[0], list) else task.args)]
        return Task(name, first, parts, _data_producer=True)


def read_parquet(read: Callable[..., Any], path: Any, options: Mapping[str, Any]) -> Any:
    """A dataframe of Parquet files on GPUs.

    - `read`: Dask's reader for pandas.
    - `path`, `options`: its arguments.
    """
    options = {name: value for name, value in options.items() if name != "engine"}
    if options.get("filesystem") in ("arrow", "pyarrow"):
        options["filesystem"] = "fsspec"  # the kernel plans with either, and the workers read with cuDF
    if not isinstance(options.get("filesystem", "fsspec"), str) and not hasattr(options["filesystem"], "open"):
        return to_gpu(read(path, options))
    expression = read(path, options | {"engine": GpuEngine}).expr
    return new_collection(ReadParquetOnGpu(*expression.operands))


def _client() -> Any:
    try:
        return Client.current()
    except ValueError:  # none
        return None
