"""Gives each sentence on docs/errors.md an anchor, and writes jupyter_gpudask/error_anchors.json, which finds it.

.venv/bin/python .ci/error_anchors.py

A sentence on the page is an example, with values; the text of the code with which it was made is found by its words.
Anchors that the page has are left as they are, so that links to them last when a sentence is changed.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "errors.md"
TABLE = ROOT / "jupyter_gpudask" / "error_anchors.json"
WORD = re.compile("[a-z]{2,}")
VALUE = "{}"
"""What stands for a value in a text."""

WORDS = 6
"""An anchor has so many words of its sentence, or more if another sentence begins with them."""

ROW = re.compile(r'^\| (?:<a id="(?P<anchor>[^"]*)"></a>)?`(?P<sentence>.+?)`(?= .*\|$)', re.MULTILINE)
"""The first cell of a row."""


class SentenceNotFoundError(Exception):
    """The code has no text for a sentence on the page, or one text for two of its sentences."""


@dataclass(frozen=True)
class Text:
    """A text in the code, with `VALUE` for each value."""

    words: str

    @property
    def fixed(self) -> str:
        """The text without its values."""
        return self.words.replace(VALUE, " ")

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """What the text matches with values."""
        return re.compile("(.*)".join(map(re.escape, self.words.split(VALUE))), re.DOTALL)

    @property
    def slug(self) -> list[str]:
        """The words of an anchor of the text."""
        return re.findall(r"[a-z0-9]+", self.fixed.lower().replace("'", ""))


def texts() -> list[Text]:
    """The texts in the code of the package that have a word, those with the most characters first."""
    files = (ROOT / "jupyter_gpudask").rglob("*.py")
    found = {text for path in files for text in _texts_of(path) if WORD.search(text)}
    return sorted(map(Text, sorted(found)), key=lambda text: len(text.fixed), reverse=True)


def _texts_of(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text())
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        parts = node.values if isinstance(node, ast.JoinedStr) else [node]
        pieces = [part.value if isinstance(part, ast.Constant) else VALUE for part in parts]
        if id(node) not in inside and all(isinstance(piece, str) for piece in pieces):
            yield re.sub(r"(?:\{\})+", VALUE, "".join(pieces))


def reason(sentence: str, known: list[Text]) -> tuple[Text, tuple[str, ...]]:
    """The text of what is wrong, apart from what to type, and its values.

    Of all pairs of texts that the sentence can be, it is the one with the fewest characters in values. ``...`` on the
    page stands for any text of what to type.

    Raises
    ------
    SentenceNotFoundError
        The code has no such text.
    """
    found = []
    for end in [*(match.end() for match in re.finditer(r"[.:] ", sentence)), len(sentence)]:
        wrong, fix = sentence[:end].rstrip(), sentence[end:]
        text = next(
            (each for each in known if each.pattern.fullmatch(wrong) and len(WORD.findall(each.words)) > 1), None
        )
        fixes = (len(each.fixed) for each in known if each.pattern.fullmatch(fix))
        length = 0 if fix in ("", "...") else next(fixes, None)
        if text and length is not None:
            found.append((len(text.fixed) + length, wrong, text))
    if not found:
        raise SentenceNotFoundError(f"the code has no text for: {sentence}")
    _, wrong, text = max(found, key=itemgetter(0))
    match = text.pattern.fullmatch(wrong)
    assert match
    return text, match.groups()


def filled(text: Text, values: Iterable[str], known: list[Text]) -> Text:
    """A text with those of its values that are texts of the code themselves."""
    found = [next((each.words for each in known if each.pattern.fullmatch(value)), VALUE) for value in values]
    return Text("".join(chain.from_iterable(zip(text.words.split(VALUE), [*found, ""], strict=True))))


def rows(page: str) -> Iterator[tuple[str, re.Match[str]]]:
    """The anchor of the section of each row, and the row."""
    _, *parts = re.split(r"^## (.+)$", page, flags=re.MULTILINE)
    for title, part in zip(parts[::2], parts[1::2], strict=True):
        for row in ROW.finditer(part):
            yield title.strip("`").lower(), row


def table(page: str) -> dict[str, dict[str, str]]:
    """The text of each row by its anchor, for each section; rows without an anchor get one.

    Raises
    ------
    SentenceNotFoundError
        The code has no text for a sentence, or one text for two of them.
    """
    known = texts()
    said = [(section, row, *reason(row["sentence"], known)) for section, row in rows(page)]
    uses = Counter((section, text) for section, _, text, _ in said)
    found = [
        (section, row["anchor"], text if uses[section, text] == 1 else filled(text, values, known))
        for section, row, text, values in said
    ]
    uses = Counter((section, text) for section, _, text in found)
    if shared := [text.words for (_, text), count in uses.items() if count > 1]:
        raise SentenceNotFoundError(f"two sentences with the text: {shared[0]}")
    sections: dict[str, dict[str, str]] = {section: {} for section, *_ in found}
    taken = {anchor for _, anchor, _ in found if anchor} | sections.keys()
    for section, given, text in found:
        anchor = given or new_anchor(text, {other for *_, other in found} - {text}, taken)
        taken.add(anchor)
        sections[section][anchor] = text.words
    return sections


def new_anchor(text: Text, others: set[Text], taken: set[str]) -> str:
    """The first words of `text`, as many as tell it from all others; all of its words if they begin another."""
    for count in range(WORDS, len(text.slug)):
        anchor = "-".join(text.slug[:count])
        if anchor not in taken and all(other.slug[:count] != text.slug[:count] for other in others):
            return anchor
    anchor = "-".join(text.slug)
    if anchor in taken:
        raise SentenceNotFoundError(f"another sentence has the words of: {text.words}")
    return anchor


def with_anchors(page: str, sections: dict[str, dict[str, str]]) -> str:
    """The page, with the anchor of each row."""
    anchors = iter([anchor for texts_by_anchor in sections.values() for anchor in texts_by_anchor])
    return ROW.sub(lambda row: f'| <a id="{next(anchors)}"></a>`{row["sentence"]}`', page)


def as_json(sections: dict[str, dict[str, str]]) -> str:
    """The file that the package reads."""
    return json.dumps(sections, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    page = PAGE.read_text()
    sections = table(page)
    PAGE.write_text(with_anchors(page, sections))
    TABLE.write_text(as_json(sections))
