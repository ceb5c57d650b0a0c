"""Prints how many words each page of the documentation has, as a table in Markdown.

.venv/bin/python .ci/words.py
"""

from pathlib import Path

ROOT = Path(__file__).parents[1]


def words(page: Path) -> int:
    """The words of a page, of tables and code too; bars, rules of tables and fences do not count."""
    return sum(any(character.isalnum() for character in word) for word in page.read_text().split())


if __name__ == "__main__":
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    counts = {page.relative_to(ROOT).as_posix(): words(page) for page in sorted(pages)}
    print("| Page | Words |", "| --- | ---: |", sep="\n")
    for name, count in counts.items():
        print(f"| {name} | {count:,} |")
    print(f"| **Sum** | **{sum(counts.values()):,}** |")
