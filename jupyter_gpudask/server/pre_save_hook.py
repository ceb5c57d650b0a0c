"""A pre-save hook of the contents manager: notebooks are saved without the widget views of this package.

A front end prefers a widget view to the HTML of the same output, and shows an error where the widget has no kernel.
"""

from __future__ import annotations

from typing import Any

from ..protocol.stream import LIVE_OUTPUT

_WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def remove_widget_views(model: dict[str, Any], **_: Any) -> None:
    """Remove the widget views of live outputs that also have HTML; `ContentsManager` calls this to save `model`."""
    if model.get("type") != "notebook":
        return
    for cell in model["content"].get("cells", ()):
        for output in cell.get("outputs", ()):
            if LIVE_OUTPUT in output.get("metadata", {}) and "text/html" in output.get("data", {}):
                output["data"].pop(_WIDGET_VIEW, None)
