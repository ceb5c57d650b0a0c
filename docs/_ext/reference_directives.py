"""Directives of the reference: each shows a table that is made from the code when the website is built.

The content of a directive adds notes to rows, ``NAME: TEXT``; a row that the code does not have is an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reference_tables import TABLES, UnknownRowError, models, notes_of
from sphinx.util.docutils import SphinxDirective

if TYPE_CHECKING:
    from docutils.nodes import Node
    from sphinx.application import Sphinx


class TableDirective(SphinxDirective):
    """One of `TABLES`, by the name of the directive."""

    has_content = True

    def run(self) -> list[Node]:
        """Create the table."""
        try:
            text = TABLES[self.name]().markdown(notes_of(list(self.content)))
        except UnknownRowError as error:
            raise self.error(str(error)) from None
        return self.parse_text_to_nodes(text)


class ModelsDirective(SphinxDirective):
    """The models of the REST interface, each with a heading and a table of its fields."""

    def run(self) -> list[Node]:
        """Create the tables."""
        parts = []
        for name, (text, table) in models().items():
            heading = f"(model-{name.lower()})=\n```{{rubric}} {name}\n:heading-level: 3\n```"
            parts += [heading, text, table.markdown({})]
        return self.parse_text_to_nodes("\n\n".join(parts))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    for name in TABLES:
        app.add_directive(name, TableDirective)
    app.add_directive("models", ModelsDirective)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
