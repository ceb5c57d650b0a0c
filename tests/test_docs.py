"""The pages of the documentation."""

from collections import Counter
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_a_page_says_each_of_its_sections_once(page):
    headings = Counter(line for line in page.read_text().splitlines() if line.startswith("#"))
    assert [heading for heading, count in headings.items() if count > 1] == []
