"""Names of operations, from the keys of tasks."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from dask.utils import key_split

_PARTS_OF_REDUCTIONS = re.compile(r"(?:_chunk|_combine|_agg|-partial|-aggregate)+(?=-|$)")
_WORDS = {
    "_sqrt": "sqrt",
    "empty_like": "empty",  # `da.empty` creates its blocks by it
    "full_like": "full",
    "getitem": "indexing",
    "ones_like": "ones",
    "random_sample": "random",
    "zeros_like": "zeros",
}
_RESULT = "result"


def operation_of(key: Any) -> str:
    """The operation of a task, from its key.

    The steps of a reduction (``sum``, ``sum-partial``, ``sum-aggregate``) are one operation. Tasks that put the blocks
    of a result together have the name ``result``.
    """
    while type(key) is tuple and key:  # without the number of the block: `key_split` keeps what it has split
        key = key[0]
    return _in_words(key_split(key))


@lru_cache(1000)
def _in_words(prefix: str) -> str:
    if prefix.startswith(("finalize", "hlgfinalize")):
        return _RESULT
    parts = [_WORDS.get(part, part) for part in _PARTS_OF_REDUCTIONS.sub("", prefix).split("-")]
    return "-".join(dict.fromkeys(parts))
