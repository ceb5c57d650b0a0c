"""The metadata key that marks this package's outputs in notebook files."""

from __future__ import annotations

LIVE_OUTPUT = "jupyter_gpudask"
"""The metadata key of an output that is shown as a widget and stored with a static representation."""
