"""Text and ORC files that workers read with cuDF, planned in the kernel as those of pandas.

Dask's readers for pandas check the arguments, split the files and find the columns. Each of their tasks reads its part
of a file with cuDF, and with Dask's own function if cuDF cannot.

cuDF infers the dtypes of each part of a text file separately. A string column without values in one part is therefore a
numeric column in this part, and in a part without rows all columns are string columns. Dask gives all parts the dtypes
that pandas infers from the first rows, or raises an error; so does a cell.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

import numpy as np
import pandas as pd
from dask._collections import new_collection
from dask.bytes.core import read_block_from_file, read_bytes
from dask.dataframe.dask_expr.io.io import FromMap
from dask.dataframe.io.csv import coerce_dtypes
from dask.dataframe.io.json import read_json_chunk
from dask.dataframe.utils import check_meta
from dask.delayed import delayed
from fsspec.implementations.local import LocalFileSystem
from pandas.api.types import is_object_dtype

from ....fallback import values
from ....fallback.missing import DifferentResultError
from ....inspection import frames as partitions
from .readers import names_of_columns, without_what_changes_nothing

_BLOCK_SIZE = 256 * 2**20
"""The bytes of a partition of text; as in dask_cudf."""
_SAMPLE = 2**20
"""The bytes of which Dask finds the columns of lines of JSON, if it divides the files."""


@dataclass(frozen=True)
class Block:
    """A part of a file: the arguments of Dask's ``read_block_from_file``, and the key of its task."""

    key: str  # it has the time at which the file was changed
    file: Any
    offset: int
    length: int | None
    delimiter: bytes | None

    @classmethod
    def of(cls, task: Any) -> Block:
        """That of a task."""
        return cls(task.key, *task.args)

    @property
    def local_path(self) -> str:
        """The path of the file, if cuDF can open it; empty if it cannot."""
        return str(self.file.path) if isinstance(self.file.fs, LocalFileSystem) else ""

    def read(self) -> bytes:
        """Its bytes."""
        content: bytes = read_block_from_file(self.file, self.offset, self.length, self.delimiter)
        return content

    def __dask_tokenize__(self) -> Any:
        return "Block", self.key, self.length


@dataclass(frozen=True)
class Reader:
    """A function of partitions that reads with cuDF; the fallback to the host reads what cuDF cannot.

    - `name`: that of the function of `dask.dataframe`.
    - `read`, `read_on_host`: the functions; they have the same arguments.
    """

    name: str
    read: Callable[..., Any]
    read_on_host: Callable[..., Any]
    gpudask_reads = True

    @property
    def __name__(self) -> str:
        return self.name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The dataframe of cuDF."""
        return self.read(*args, **kwargs)

    def gpudask_on_host(self) -> Callable[..., Any]:
        """The function that reads on the host, and moves as `fallback.values.frame_to_gpu`."""
        return functools.partial(_read_and_move, self.read_on_host)


def _read_and_move(read: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return values.frame_to_gpu(read(*args, **kwargs))


def read_csv(plan: Callable[..., Any], path: Any, options: Mapping[str, Any]) -> Any:
    """A dataframe of text files on GPUs.

    - `plan`: Dask's reader for pandas.
    - `path`, `options`: its arguments.
    """
    if options.get("blocksize", "default") == "default":
        options = {**options, "blocksize": None if options.get("skiprows") else _BLOCK_SIZE}
    planned = plan(path, options)
    source = _source(planned)
    tasks, parts = source.iterables
    blocks = [Block.of(task) for task in tasks]
    is_divided = not all(is_first and is_last for _, is_first, is_last in parts)
    given = without_what_changes_nothing(options)
    given |= {name: _without_booleans(given[name], planned.dtypes) for name in given.keys() & {"dtype"}}
    reader = _CsvReader(
        {name: value for name, value in given.items() if name not in _OF_DASK},
        tuple(map(str, names_of_columns(path, options))) if is_divided else (),
        options.get("header", "") is None and options.get("names") is None,
        tuple(planned.dtypes.items()),
    )
    function = functools.partial(source.func, **source.operand("kwargs"))
    texts = {name: dtype for name, dtype in planned.dtypes.items() if _is_text(dtype)}
    on_host = functools.partial(_read_csv_on_host, function, texts)
    return _from_map(Reader("read_csv", reader, on_host), [blocks, parts], planned._meta, "read-csv")  # noqa: SLF001


def _without_booleans(given: Any, found: Any) -> Any:
    """The dtypes for cuDF, which infers booleans, and numbers for them, itself; pandas refuses other numbers."""
    if isinstance(given, dict):
        return {name: dtype for name, dtype in given.items() if str(found.get(name)) != "bool"} or None
    return None if str(pd.api.types.pandas_dtype(given)) == "bool" else given


def read_json(_plan: Callable[..., Any], path: Any, options: Mapping[str, Any]) -> Any:
    """A dataframe of lines of JSON on GPUs; see `read_csv`.

    A worker reads the first file, or the part of it of which Dask finds the columns.
    """
    names = ("blocksize", "compression", "encoding", "engine", "errors", "lines", "orient", "sample", "storage_options")
    given = {name: options[name] for name in names if name in options}
    others = {name: value for name, value in options.items() if name not in (*given, *_OF_JSON_PATHS)}
    size = given.get("blocksize")
    _, files = read_bytes(
        path,
        delimiter=b"\n",
        blocksize=size,
        sample=False,
        compression=given.get("compression", "infer"),
        **given.get("storage_options") or {},
    )
    blocks = [Block.of(task) for file in files for part in file for task in dict(part.dask).values()]
    encoding = given.get("encoding", "utf-8"), given.get("errors", "strict")
    reader = _JsonReader(encoding, given.get("engine", "auto"), others)
    first = blocks[0]
    if size:
        first = Block(f"{first.key}-sample", first.file, 0, given.get("sample", _SAMPLE), b"\n")
    meta = delayed(reader.meta)(first).compute()
    on_host = functools.partial(_read_json_on_host, encoding, others)
    checked = functools.partial(_read_and_check, reader, meta)
    return _from_map(Reader("read_json", checked, on_host), [blocks], meta, "read-json")


def read_orc(plan: Callable[..., Any], path: Any, options: Mapping[str, Any]) -> Any:
    """A dataframe of ORC files on GPUs; see `read_csv`."""
    planned = plan(path, options)
    source = _source(planned)
    (parts,) = source.iterables
    keywords = source.operand("kwargs")
    reader = _OrcReader(keywords["fs"], keywords["index"], next(iter(keywords["schema"])))
    on_host = functools.partial(source.func, **keywords)
    return _from_map(Reader("read_orc", reader, on_host), [parts], planned._meta, "read-orc")  # noqa: SLF001


def _source(planned: Any) -> Any:
    """The expression that reads the partitions; Dask converts the strings of some."""
    (source,) = planned.expr.find_operations(FromMap)
    return source


def _from_map(reader: Reader, iterables: list[Any], meta: Any, label: str) -> Any:
    return new_collection(
        partitions.FromMapOnGpu(
            func=reader,
            iterables=iterables,
            columns=None,
            args=[],
            kwargs={},
            columns_arg_required=True,
            user_meta=meta,
            label=label,
        )
    )


_OF_DASK = ("blocksize", "storage_options")
_OF_JSON_PATHS = ("include_path_column", "meta", "path_converter")


@dataclass(frozen=True)
class _CsvReader:
    """Reads a part of a text file with cuDF.

    - `options`: the keywords of cuDF's reader.
    - `names`: those of the columns, for the parts of a file without its first row.
    - `has_numbers`: whether the columns have numbers as names, as those of a file without names in pandas.
    - `dtypes`: the names and dtypes of the columns in pandas.
    """

    options: Mapping[str, Any]
    names: tuple[str, ...]
    has_numbers: bool
    dtypes: tuple[tuple[Any, Any], ...]

    def __call__(self, block: Block, part: Any, columns: Sequence[Any]) -> Any:
        import cudf

        _, is_first, is_last = part
        options = dict(self.options)
        if not is_first:
            options |= {"names": list(self.names), "header": None}
        if path := block.local_path:
            if not (is_first and is_last):
                options["byte_range"] = (block.offset, block.length)
            frame = cudf.read_csv(path, **options)
        else:
            options.pop("compression", None)
            frame = cudf.read_csv(BytesIO(block.read()), **options)
        if self.has_numbers and all(str(name).isdigit() for name in frame.columns):
            frame.columns = [int(name) for name in frame.columns]
        return with_dtypes(_select(frame, columns), self.dtypes)


def _read_csv_on_host(
    function: Callable[..., Any], texts: Mapping[Any, Any], block: Block, part: Any, columns: Any
) -> Any:
    """As Dask, which then makes texts of all objects, such as booleans."""
    frame = function(block.read(), part, columns)
    return frame.astype({name: texts[name] for name in frame.columns if name in texts})


@dataclass(frozen=True)
class _JsonReader:
    """Reads lines of JSON with cuDF."""

    encoding: tuple[str, str]
    engine: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, block: Block) -> Any:
        import cudf

        content = block.read()
        if self.encoding != ("utf-8", "strict"):
            content = content.decode(*self.encoding).encode()
        return cudf.read_json(BytesIO(content), engine=self.engine, orient="records", lines=True, **self.options)

    def meta(self, block: Block) -> Any:
        """The metadata of pandas of its dataframe."""
        return _meta_of_json(self(block))


def _meta_of_json(frame: Any) -> Any:
    meta = partitions.partition_to_host(frame.iloc[:0])
    return meta.astype({name: "str" for name, dtype in frame.dtypes.items() if str(dtype) in _TEXTS})


def _read_and_check(reader: _JsonReader, meta: Any, block: Block, columns: Sequence[Any]) -> Any:
    """As Dask, which refuses a file with other columns than the first one."""
    frame = reader(block)
    if len(frame) or len(frame.columns):
        check_meta(_meta_of_json(frame), meta, funcname="from_delayed")
        return _select(frame, columns)
    return partitions.partition_to_gpu(meta[list(columns)])


def _read_json_on_host(encoding: tuple[str, str], options: Mapping[str, Any], block: Block, columns: Any) -> Any:
    frame = read_json_chunk(block.read(), *encoding, pd.read_json, False, None, None, options)  # noqa: FBT003
    return frame[list(columns)]


@dataclass(frozen=True)
class _OrcReader:
    """Reads stripes of ORC files with cuDF.

    - `fs`: the file system.
    - `index`: the name of the column that is the index, or `None`.
    - `first`: the name of the first column, which is read for the number of rows if no column is asked for.
    """

    fs: Any
    index: Any
    first: str

    def __call__(self, parts: Sequence[tuple[str, list[int] | None]], columns: Sequence[Any]) -> Any:
        import cudf

        index = [self.index] if isinstance(self.index, str) else list(self.index or ())
        wanted = list(dict.fromkeys([*columns, *index])) or [self.first]
        read = []
        for path, stripes in parts:
            with self.fs.open(path, "rb") as file:
                read.append(cudf.read_orc(file, stripes=stripes, columns=wanted))
        frame = read[0] if len(read) == 1 else cudf.concat(read, ignore_index=True)
        return _select(frame.set_index(index) if index else frame, columns)


def _select(frame: Any, columns: Sequence[Any]) -> Any:
    """The columns of a dataframe of cuDF, which has other names for some."""
    if not set(columns) <= set(frame.columns):
        raise DifferentResultError("cuDF has other columns than pandas")
    return frame[list(columns)]


_TEXTS = ("object", "str", "string")


def with_dtypes(frame: Any, dtypes: tuple[tuple[Any, Any], ...]) -> Any:
    """A dataframe of cuDF's reader with these dtypes, or the error that other values are in Dask."""
    wanted = {name: dtype for name, dtype in dtypes if name in frame.columns and _differs(frame[name], dtype)}
    on_gpu = {name: dtype for name, dtype in wanted.items() if _converts(frame[name], dtype)}
    if on_gpu:
        frame = frame.astype({name: "str" if _is_text(dtype) else dtype for name, dtype in on_gpu.items()})
    others = {name: dtype for name, dtype in wanted.items() if name not in on_gpu}
    if not others:
        return frame
    if len(frame) and any(dtype.kind == "b" for dtype in others.values()):
        raise DifferentResultError("cuDF has other values than booleans")
    made = partitions.partition_to_host(frame[list(others)])
    coerce_dtypes(made, others)
    made = partitions.partition_to_gpu(made)
    frame = frame.copy(deep=False)
    for name in others:
        frame[name] = made[name]
    return frame


def _differs(column: Any, dtype: Any) -> bool:
    """Whether a column of cuDF has another kind of dtype than this of pandas; integers have no missing values there."""
    if _is_text(dtype) or str(column.dtype) in _TEXTS:
        return not (_is_text(dtype) and str(column.dtype) in _TEXTS) and not is_object_dtype(dtype)
    if not isinstance(dtype, np.dtype):  # asked for by the user
        return False
    return bool(column.dtype.kind != dtype.kind or (dtype.kind in "iub" and column.hasnans))


def _converts(column: Any, dtype: Any) -> bool:
    """Whether cuDF converts this column as pandas.

    It does one of numbers to floats, one of 0 and 1 to booleans, and one without a value to texts.
    """
    if _is_text(dtype):
        return not bool(column.notna().any())
    if dtype.kind == "b":
        return column.dtype.kind in "iu" and not column.hasnans and bool(column.isin([0, 1]).all())
    return bool(dtype.kind == "f" and column.dtype.kind in "biu")


def _is_text(dtype: Any) -> bool:
    return isinstance(dtype, pd.StringDtype)
