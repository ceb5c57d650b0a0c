"""``%gpudask status`` in a notebook: a table that goes on, and stays as it was in a notebook that is read later."""

from __future__ import annotations

import threading
import time
import uuid
from typing import TYPE_CHECKING, Any

from IPython.display import display, update_display

from ...errors import GpuDaskError
from ...protocol.notebook import LIVE_OUTPUT
from .base import Note, StatusView

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...protocol import ClusterState

_INTERVAL = 1.0


class LiveStatusView(StatusView):
    """What each worker is doing, again each second while it is the newest of its kind that is shown.

    After that it is a plain table, for JupyterLab has no metrics for a widget whose kernel is gone.

    Parameters
    ----------
    state
        The metrics to begin with; what a front end without widgets shows, and a notebook that is saved meanwhile, for
        the server extension leaves the widget out.
    read
        Gives the metrics of now.

    Attributes
    ----------
    widget
        The `ipywidgets.HTML` that is shown; `None` before that.
    """

    _newest: LiveStatusView | None = None

    def __init__(self, state: ClusterState, read: Callable[[], ClusterState]) -> None:
        super().__init__(state)
        self._read = read
        self._display_id = uuid.uuid4().hex
        self._last: dict[str, Any] | None = None
        self.widget: Any = None

    def _ipython_display_(self) -> None:
        live = {} if self._last else {LIVE_OUTPUT: {"live": True}}
        display(self._repr_mimebundle_(), metadata=live, raw=True, display_id=self._display_id)

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        return self._last or {**super()._repr_mimebundle_(**options), **self._live_bundle()}

    def _live_bundle(self) -> dict[str, Any]:
        import ipywidgets

        if self.widget is None:
            self.widget = ipywidgets.HTML(self.to_html())
            LiveStatusView._newest = self
            threading.Thread(target=self._refresh, name="gpudask-status", daemon=True).start()
        bundle: dict[str, Any] = self.widget._repr_mimebundle_() or {}
        return {kind: data for kind, data in bundle.items() if kind != "text/plain"}

    def _refresh(self) -> None:
        shown = StatusView(self.state)
        text = str(shown)
        while LiveStatusView._newest is self:
            time.sleep(_INTERVAL)
            try:
                shown = StatusView(self._read())
            except GpuDaskError as error:
                note = Note(error.reason)
                text = f"{shown}\n{note}"
                self.widget.value += note.to_html()
                break
            text = str(shown)
            self.widget.value = shown.to_html()
        self._last = {"text/plain": text, "text/html": self.widget.value}
        update_display(self._last, raw=True, display_id=self._display_id)
        self.widget.close()
