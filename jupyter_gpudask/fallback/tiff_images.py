"""TIFF files of a stack, which differ in nothing but their pixels: only the first one is parsed.

To open a file, tifffile takes a millisecond of Python, in which no other thread of a worker runs: as long as it takes
to read an image of 8 MB.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from . import page_locked

_MOST_AROUND = 2**16
"""Bytes of a file besides its pixels."""


class _Layout(NamedTuple):
    """Where the pixels of a file are, and what is before and after them."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    offset: int
    around: bytes


_layouts: dict[int, _Layout | None] = {}
"""By the size of the files; `None` if files of that size differ in more than their pixels."""


def is_reader(function: Any) -> bool:
    """Whether this is ``tifffile.imread``, perhaps as a `HostFallback`."""
    imread = getattr(sys.modules.get("tifffile"), "imread", None)
    return imread is not None and imread in (function, getattr(function, "__wrapped__", None))


def read(file: Any) -> Any:
    """As ``tifffile.imread``, in page-locked memory if there is some."""
    if not isinstance(file, str | os.PathLike):
        return _imread(file)
    with suppress(OSError), open(file, "rb", buffering=0) as opened:  # noqa: PTH123 - a string is no pattern then
        size = os.fstat(opened.fileno()).st_size
        layout = _layouts.get(size)
        if layout is not None:
            number, count = opened.fileno(), size - len(layout.around)
            rest = os.pread(number, len(layout.around), layout.offset + count)
            if os.pread(number, layout.offset, 0) + rest == layout.around:
                memory = page_locked.empty(layout.shape, layout.dtype)
                image = np.empty(layout.shape, layout.dtype) if memory is None else memory
                opened.seek(layout.offset)
                pixels: Any = image.reshape(-1).view("u1")
                if opened.readinto(pixels) == count:
                    return image
        image = _imread(file)
        if size not in _layouts:
            _layouts[size] = _layout_of(file, image, size)
        elif layout is not None:
            _layouts[size] = None
        return image
    return _imread(file)


def _imread(file: Any) -> Any:
    return import_module("tifffile").imread(file)


def _layout_of(file: Any, image: Any, size: int) -> _Layout | None:
    """The layout of a file with the pixels of one image as they are in memory, or `None`."""
    if not 0 < size - image.nbytes <= _MOST_AROUND or not image.dtype.isnative or not image.flags.c_contiguous:
        return None
    with import_module("tifffile").TiffFile(file) as opened:
        page = opened.pages.first
        offset = page.dataoffsets[0] if len(opened.pages) == 1 and page.is_contiguous else 0
    with open(file, "rb") as opened:  # noqa: PTH123
        before, pixels, after = opened.read(offset), opened.read(image.nbytes), opened.read()
    return _Layout(image.shape, image.dtype, offset, before + after) if pixels == image.tobytes() else None
