"""How an output of ours is known in a notebook's file."""

from __future__ import annotations

LIVE_OUTPUT = "jupyter_gpudask"
"""Name of the metadata of an output that shows a widget, and has in its other forms what the widget shows."""
