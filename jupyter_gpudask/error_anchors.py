"""Find the row of an error on the page of errors; error_anchors.json has the texts of the rows, without values."""

from __future__ import annotations

_VALUE = "{}"


def errors_page(section: str, reason: str) -> str:
    """The page of errors, with the anchor of the row on which a sentence is explained.

    Parameters
    ----------
    section
        The anchor of the section where it is: the name of its class in lower case. If the page has no such section, as
        of a base class, the sentence is looked for in all.
    reason
        What is wrong, as the user reads it.

    Returns
    -------
    str
        A file of the folder ``docs``, with the anchor of the section if that has no such sentence.
    """
    import json  # here, because only errors need them
    import re
    from pathlib import Path

    sections: dict[str, dict[str, str]] = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
    known = section in sections
    searched = [sections[section]] if known else sections.values()
    found = {
        anchor: len(text)
        for texts in searched
        for anchor, text in texts.items()
        if re.fullmatch(_pattern(text), reason, re.DOTALL)
    }
    anchor = max(found, key=found.__getitem__) if found else section if known else ""
    return f"errors.md#{anchor}" if anchor else "errors.md"


def _pattern(text: str) -> str:
    """What a text matches with values; as each value but the last is as short as possible, nothing is tried twice."""
    import re

    first, *others = map(re.escape, text.split(_VALUE))
    if not others:
        return first
    *middle, last = others
    return first + "".join(f"(?>.*?{part})" for part in middle) + ".*" + last
