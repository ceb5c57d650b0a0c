"""The words of each page that people write, as a table in Markdown for CONTRIBUTING.md.

.venv/bin/python .ci/words.py
"""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
GENERATED = {"docs/errors.md", "docs/patches.md", "docs/scoreboard.md"}
TABLE = re.compile(r"<!-- (\w+): made by make fix -->.*?<!-- end of \1 -->", re.DOTALL)


def words(page: Path) -> int:
    """The words of a page, its code and its tables too, but for tables that are made; bars and fences do not count."""
    text = TABLE.sub("", page.read_text())
    return sum(any(character.isalnum() for character in word) for word in text.split())


def table() -> str:
    """The pages and their words in hundreds, so that a small change leaves the table as it is."""
    command = ["git", "ls-files", "--", ":(glob)*.md", ":(glob)docs/*.md", ":!CHANGELOG.md"]
    pages = [ROOT / name for name in subprocess.check_output(command, cwd=ROOT, text=True).split()]
    counts = {page.relative_to(ROOT).as_posix(): words(page) for page in pages}
    hundreds = {name: max(1, round(count / 100)) * 100 for name, count in counts.items() if name not in GENERATED}
    rows = [f"| {name} | {count:,} |" for name, count in hundreds.items()]
    return "\n".join(["| Page | Words |", "| --- | ---: |", *rows, f"| **Sum** | **{sum(hundreds.values()):,}** |"])


if __name__ == "__main__":
    print(table())
