"""Messages between processes: their models, as pydantic classes, and their transport. Runs in every process."""

from .spec import ClusterSpec

__all__ = ["ClusterSpec"]
