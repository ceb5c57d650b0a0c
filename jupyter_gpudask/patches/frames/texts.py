"""Methods of texts on GPUs with the results of pandas: patterns, characters beyond ASCII, missing values.

cuDF 26.10 has an engine for patterns of its own. It lacks backreferences, lookaround and flags, and reads some others
without an error in another way. Its classes and its conversions of case follow another version of Unicode than Python
and Arrow.

Source: ``cpp/src/strings/regex`` of cuDF; ``cpp/doxygen/regex.md`` lists what the engine has.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, NamedTuple

import pandas as pd
from dask.dataframe.dask_expr._accessor import FunctionMap
from dask.dataframe.dask_expr._str_accessor import SplitMap

from ...fallback.missing import DifferentResultError
from ...inspection.frames import has_lists
from ...inspection.placement import is_type_of_gpu

_parser = import_module("re._parser")  # Python's own, which has no public name

_WITH_PATTERN = {"contains", "count", "extract", "match", "replace", "split"}
"""Methods of cuDF with a pattern; those that it lacks, such as ``fullmatch``, run on the host."""

_BY_KIND = {
    *("capitalize", "casefold", "lower", "swapcase", "title", "upper"),
    *("isalnum", "isalpha", "isdecimal", "isdigit", "islower", "isnumeric", "istitle", "isupper"),
}
"""Methods that depend on what kind of character each is, such as a letter."""

_BY_SPACES = {
    "isspace": "",
    **dict.fromkeys(("lstrip", "rstrip", "strip"), "to_strip"),
    "rsplit": "pat",
    "split": "pat",
}
"""Methods that depend on which characters are spaces, unless this argument is given."""

_SPACES = "[\x01-\x08\x0b\x0e-\x1f\x85\xa0\u1680\u180e\u2000-\u200b\u2028\u2029\u202f\u205f\u3000\ufeff]"
"""Characters that may be spaces in only one of Python, Arrow and cuDF."""

_SUPPORTED_ESCAPE = re.compile(r"[dDwWsSbBAZtnrf\\!-/:-@\[\]^_`{|}~ ]")
_WITH_NEWLINE = {"AT_END", "CATEGORY_NOT_DIGIT", "CATEGORY_NOT_WORD"}
"""What cuDF matches otherwise where a text has a newline."""

_OF_PLACES = {"AT_BEGINNING", "AT_BEGINNING_STRING", "AT_BOUNDARY", "AT_NON_BOUNDARY"}
"""What Arrow also finds after each match, where it begins to search anew."""

_MOST_REPEATS = 999


class Pattern(NamedTuple):
    """What is to be known of a pattern."""

    reason: str
    """Why cuDF matches it otherwise than Python; empty if it does not."""
    of_kinds: bool = False
    """Whether it has classes such as ``\\w`` and ``\\d``, or limits of words."""
    of_spaces: bool = False
    """Whether it has the class of spaces, ``\\s``."""
    of_lines: bool = False
    """Whether it has what depends on newlines."""


@functools.lru_cache(maxsize=1024)
def pattern_of(method: str, text: str) -> Pattern:
    """A pattern, as Python's parser reads it.

    - `method`: the method of ``.str``.
    - `text`: the pattern.
    """
    if "[[:" in text:
        return Pattern("cuDF has no classes of POSIX, such as [[:alpha:]]")
    try:
        parsed = _parser.parse(text)
    except (re.error, OverflowError):
        return Pattern("cuDF accepts patterns that Python refuses")
    nodes = list(_nodes(parsed))
    names = {str(operation) for operation, _ in nodes}
    kinds = {str(argument) for operation, argument in nodes if str(operation) in ("AT", "CATEGORY")}
    groups, named = parsed.state.groups - 1, len(parsed.state.groupdict)
    reason = ""
    if not names <= _SUPPORTED:
        reason = "cuDF's patterns have no backreferences, lookaround, atomic groups and possessive repeats"
    elif parsed.state.flags & ~re.UNICODE:
        reason = "cuDF ignores the flags of a pattern"
    elif any(not _SUPPORTED_ESCAPE.fullmatch(each) for each in re.findall(r"\\(.)", text, re.DOTALL)) or "{," in text:
        reason = "cuDF reads an escape or a number of repetitions otherwise"
    elif parsed.getwidth()[0] == 0 or not all(_is_plain(*node, text) for node in nodes):
        reason = "cuDF matches empty texts, repetitions and ranges otherwise"
    elif named not in (0, groups) or (named and method in ("replace", "split")):
        reason = "cuDF reads names of groups otherwise"
    elif method == "split" and groups:
        reason = "cuDF's str.split has no groups"
    elif method == "count" and kinds & _OF_PLACES:
        reason = "Arrow counts beginnings of texts and words otherwise than cuDF"
    of_spaces = {kind for kind in kinds if kind.endswith("SPACE")}
    of_kinds = {kind for kind in kinds - of_spaces if "BOUNDARY" in kind or "CATEGORY" in kind}
    return Pattern(reason, bool(of_kinds), bool(of_spaces), bool(kinds & _WITH_NEWLINE))


_SUPPORTED = {
    *("ANY", "AT", "BRANCH", "CATEGORY", "IN", "LITERAL", "MAX_REPEAT", "MIN_REPEAT", "NEGATE", "NOT_LITERAL"),
    *("RANGE", "SUBPATTERN"),
}


def _nodes(parsed: Any) -> Iterator[tuple[Any, Any]]:
    """Each operation of a pattern with its argument, those inside others too."""
    for operation, argument in parsed:
        yield operation, argument
        name = str(operation)
        if name == "IN":
            yield from argument
        elif name == "BRANCH":
            for branch in argument[1]:
                yield from _nodes(branch)
        elif name in ("MAX_REPEAT", "MIN_REPEAT", "SUBPATTERN"):
            yield from _nodes(argument[-1])


def _is_plain(operation: Any, argument: Any, text: str) -> bool:
    """Whether one operation means the same in cuDF."""
    name = str(operation)
    if name == "BRANCH":
        return all(branch.getwidth()[0] for branch in argument[1])
    if name in ("MAX_REPEAT", "MIN_REPEAT"):
        least, most, item = argument
        is_endless = most is _parser.MAXREPEAT
        return bool(least <= _MOST_REPEATS and (is_endless or 0 < most <= _MOST_REPEATS) and item.getwidth()[0])
    if name == "SUBPATTERN":
        return not any(argument[1:3])  # flags
    if name == "RANGE":
        return bool(min(argument) >= ord(" "))
    if name == "IN":  # cuDF takes a hyphen after a range for another range
        members = [part for part in argument if str(part[0]) != "NEGATE"]
        hyphens = [place for place, part in enumerate(members) if str(part[0]) == "LITERAL" and part[1] == ord("-")]
        return "\\-" in text or all(place in (0, len(members) - 1) for place in hyphens)
    return True


def reason_of_arguments(name: str, args: Any, kwargs: Mapping[str, Any]) -> str:
    """Why a method of texts runs on the host, whatever the texts are; empty if it does not."""
    given = _given(name, args, kwargs)
    if given.get("flags", 0):
        return "cuDF ignores or reads flags of a pattern otherwise"
    if given.get("case", True) is False:
        return "cuDF's case-insensitive patterns differ beyond ASCII"
    text = _pattern(name, given)
    if text is None:
        return ""
    if name == "replace" and "\\" in str(given.get("repl", "")):
        return "cuDF writes references to groups out"
    return pattern_of(name, text).reason


def _given(name: str, args: Any, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments by the names of pandas; none if pandas has no such method, or not these arguments."""
    series: Any = pd.Series
    method: Any = getattr(series.str, name, None)
    try:
        return dict(inspect.signature(method).bind(None, *args, **kwargs).arguments)
    except (TypeError, ValueError):
        return {}


def _pattern(name: str, given: Mapping[str, Any]) -> str | None:
    """The pattern of a method; `None` if it has none, or a text that stands for itself."""
    text = given.get("pat")
    if name not in _WITH_PATTERN or not isinstance(text, str):
        return None
    if name == "split":
        is_pattern = len(text) > 1 if given.get("regex") is None else given["regex"]
    else:
        is_pattern = given.get("regex", name != "replace")
    return text if is_pattern else None


def called(series: Any, name: str, args: Any, kwargs: Mapping[str, Any], *, is_nullable: bool = False) -> Any:
    """A method of the texts of one partition, whose result can be missing if `is_nullable`.

    Raises `DifferentResultError`: the partition is on a GPU and has texts for which cuDF's result differs.
    """
    given = _given(name, args, kwargs)
    is_on_gpu = is_type_of_gpu(type(series))
    if is_on_gpu and (reason := _difference(series, name, given)):
        raise DifferentResultError(reason)
    result = FunctionMap.operation(series, "str", name, args, kwargs)
    if name == "join" and is_on_gpu and hasattr(result, "mask"):  # cuDF has a missing text for an empty one
        return result.mask(result.isna() & series.notna(), "")
    return _with_missing(result, series, given.get("na")) if is_nullable else result


def _with_missing(result: Any, series: Any, of_missing: Any) -> Any:
    """Booleans that are missing where a text is, unless the call has a value for these; of files, cuDF has false."""
    is_missing = (of_missing is None or pd.isna(of_missing)) and hasattr(result, "mask") and series.isna().any()
    return result.mask(series.isna()) if is_missing else result


def _difference(series: Any, name: str, given: Mapping[str, Any]) -> str:
    texts = series.to_series() if hasattr(series, "to_series") else series
    if has_lists(texts.dtype):
        return ""
    if name == "extract" and texts is not series:
        return "cuDF's str.extract of an index is an index of several levels"
    text = _pattern(name, given)
    pattern = Pattern("") if text is None else pattern_of(name, text)
    if pattern.of_lines and bool(texts.str.contains("\n", regex=False).any()):
        return "cuDF matches ends of lines otherwise"
    by_spaces = pattern.of_spaces or (name in _BY_SPACES and given.get(_BY_SPACES[name]) is None)
    if by_spaces and bool(texts.str.contains(_SPACES).any()):
        return "cuDF has other spaces"
    by_kind = name in _BY_KIND or pattern.of_kinds
    return "cuDF has other kinds of characters beyond ASCII" if by_kind and _is_beyond_ascii(texts) else ""


def is_checked(expression: FunctionMap) -> bool:
    """Whether an expression is of a method of texts that `called` is needed for."""
    name = expression.attr
    return expression.accessor == "str" and name in {*_WITH_PATTERN, *_BY_KIND, *_BY_SPACES, "join"}


def _is_beyond_ascii(texts: Any) -> bool:
    return bool((texts.str.byte_count() != texts.str.len()).any())


class SplitMapAsPandas(SplitMap):
    """The parts of texts as columns with their dtype; Dask's metadata has the default one of pandas."""

    @functools.cached_property
    def _meta(self) -> Any:
        meta = super()._meta
        return meta.astype(self.frame._meta.dtype) if meta.ndim > 1 else meta  # noqa: SLF001

    @staticmethod
    def operation(series: Any, _accessor: str, attr: str, args: Any, kwargs: Any) -> Any:
        """The parts of one partition."""
        return called(series, attr, args, kwargs)
