"""What the two runs of a test say: whether they agree, and if not, what kind of difference it is."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from processes import NOT_RUN

if TYPE_CHECKING:
    from collections.abc import Sequence

AGREES = "agrees"
VALUE = "another value"
DTYPE = "another dtype"
TYPES = "types or metadata"
GRAPH = "graph or partitions"
RAISES = "another error or warning"
FAILS = "fails"
LOST = "process lost"
SKIPPED = "skipped under the switch"
LEFT_OUT = "left out"

COMPARED = (AGREES, VALUE, DTYPE, TYPES, GRAPH, RAISES, FAILS, LOST, SKIPPED)
"""The outcomes of tests that pass on the CPU and that ran a second time."""

_LIBRARIES = ("cupy/", "cudf/", "dask_cudf/")
"""An assertion in one of them refuses an operation; it compares no results."""

_RAISES = r"DID NOT (RAISE|WARN)|Regex pattern did not match|Regex:|Expected regex|Expected no warning|Failed: DID NOT"
_KINDS = {
    TYPES: (
        # The last one compares metadata with the result.
        (
            r"different types|changes its type|different type than implied|Expected type|Series Expected|"
            r":assert_dask_dtypes\]"
        ),
        (
            r"isinstance|type\(|_meta\b|\bmeta\b|is_dataframe_like|is_series_like|is_index_like|sys\.getsizeof|"
            r"typename|persisted_data"
        ),
    ),
    DTYPE: (r"different dtypes|Attribute \"(dtype|inferred_type)\" (is|are) different", r"\bdtypes?\b"),
    GRAPH: (
        r"number of dimensions|key_collisions",
        (
            r"\.dask\b|__dask|tokenize|\._name\b|\.key\b|\bdsk\b|graph|layers|numblocks|npartitions|divisions|"
            r"\.chunks\b|optimize|same_keys|max_deps|\.expr\b|repr\(|str\(|\bsvg\b|_repr_|memory_usage|nbytes|"
            r"array_name|\.name [!=]="
        ),
    ),
}
"""For a kind of difference, what the message and what the line of a failed assertion look like; the first that fits."""


@dataclass(frozen=True)
class Failure:
    """Why a test failed."""

    error: str
    """The class of the exception."""
    message: str = ""
    line: str = ""
    """The statement of the test that failed."""
    raised: str = ""
    """The statement that raised the exception, which may be in a library."""
    place: str = ""
    """Where that is: ``"dask/array/utils.py:assert_eq"``."""


@dataclass(frozen=True)
class Outcome:
    """One run of one test."""

    outcome: str
    """``"passed"``, ``"failed"``, ``"skipped"``, ``"xfailed"``, ``"lost"`` or ``"not run"``."""
    failure: Failure | None = None
    """Why it failed; or of a lost process, how it ended."""
    seconds: float = 0.0
    compared: int = 0
    """How many Dask collections Dask's `assert_eq` compared."""
    on_gpu: int = 0
    """How many of them had metadata of CuPy or cuDF."""
    on_cpu: dict[str, int] = field(default_factory=dict)
    """Blocks that ran on the CPU because CuPy or cuDF lack the operation, by operation."""


@dataclass(frozen=True)
class Row:
    """What came of one test."""

    name: str
    outcome: str
    note: str = ""
    line: str = ""
    seconds: Sequence[float] = (0.0, 0.0)
    on_gpu: bool = False
    on_cpu: dict[str, int] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Its name."""
        return self.name


def judge(name: str, first: Outcome, second: Outcome | None) -> Row:
    """Compare the run on the CPU, `first`, with the run under the switch; `None` if there was no second run."""
    seconds = (first.seconds, second.seconds if second else 0.0)
    if first.outcome == "not run" or (first.outcome == "passed" and (second is None or second.outcome == "not run")):
        return Row(name, NOT_RUN, seconds=seconds)
    if first.outcome != "passed" or second is None:
        return Row(name, LEFT_OUT, f"{first.outcome} on the CPU", seconds=seconds)
    facts = {"seconds": seconds, "on_gpu": second.on_gpu > 0, "on_cpu": second.on_cpu}
    if second.outcome == "passed":
        return Row(name, AGREES, **facts)
    failure = second.failure or Failure(second.outcome)
    if second.outcome == "lost":
        return Row(name, LOST, failure.message, **facts)
    if second.outcome != "failed":
        return Row(name, SKIPPED, f"{failure.error}: {failure.message}", **facts)
    note = f"{failure.error}: {failure.message}" + (f" [{failure.place}]" if failure.place else "")
    return Row(name, kind(failure), note, failure.line, **facts)


def kind(failure: Failure) -> str:
    """The kind of difference that a failure shows; an assertion that nothing explains is about a value."""
    if re.search(_RAISES, failure.message):
        return RAISES
    if failure.error != "AssertionError" or failure.place.startswith(_LIBRARIES):
        return FAILS
    if re.search("[Mm]asked", failure.message):  # a lost mask is another value, whatever the type says
        return VALUE
    found = f"{failure.message} [{failure.place}]"
    for name, (message, _) in _KINDS.items():
        if re.search(message, found):
            return name
    compares = failure.raised.lstrip().startswith("assert") and failure.raised != failure.line
    statement = failure.raised if compares else _without_names(failure.line)
    for name, (_, line) in _KINDS.items():
        is_computed = name == GRAPH and "compute(" in statement  # a value, whatever else the line has
        if re.search(line, statement) and not is_computed:
            return name
    return VALUE


def _without_names(line: str) -> str:
    """A statement of a test; where it calls `assert_eq` or the like, the words of the arguments do not count."""
    return "" if re.match(r"\s*(assert_|np\.testing|tm\.|assert (da|np)\.(all|array_equal))", line) else line
