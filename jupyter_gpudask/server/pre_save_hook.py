"""What is left out when a notebook is saved: widgets of ours, which say nothing without their kernel.

A front end that finds a widget in a notebook shows it, or an error, and not the table beside it.
"""

from __future__ import annotations

from typing import Any

from ..protocol.notebook import LIVE_OUTPUT

_WIDGET = "application/vnd.jupyter.widget-view+json"


def leave_out_widgets(model: dict[str, Any], **_: Any) -> None:
    """Leave our live outputs their plain forms; `ContentsManager` calls this before it saves `model`."""
    if model.get("type") != "notebook":
        return
    for cell in model["content"].get("cells", ()):
        for output in cell.get("outputs", ()):
            if LIVE_OUTPUT in output.get("metadata", {}) and "text/html" in output.get("data", {}):
                output["data"].pop(_WIDGET, None)
