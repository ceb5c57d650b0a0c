"""``%gpudask status`` in a notebook: a table that goes on, and stays as it was in a notebook that is read later."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from ..errors import GpuDaskError
from .views import Note, StatusView

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..models import ClusterState

_INTERVAL = 1.0


class LiveStatusView(StatusView):
    """What each worker is doing, again each second while it is the newest of its kind that is shown.

    Parameters
    ----------
    state
        The figures to begin with; what a front end without widgets shows, and a saved notebook.
    read
        Gives the figures of now.

    Attributes
    ----------
    widget
        The `ipywidgets.HTML` that is shown; `None` before that.
    """

    _newest: LiveStatusView | None = None

    def __init__(self, state: ClusterState, read: Callable[[], ClusterState]) -> None:
        super().__init__(state)
        self._read = read
        self.widget: Any = None

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        return {**super()._repr_mimebundle_(**options), **self._live_bundle()}

    def _live_bundle(self) -> dict[str, Any]:
        import ipywidgets

        if self.widget is None:
            self.widget = ipywidgets.HTML(self.to_html())
            LiveStatusView._newest = self
            threading.Thread(target=self._refresh, name="gpudask-status", daemon=True).start()
        bundle: dict[str, Any] = self.widget._repr_mimebundle_() or {}
        return {kind: data for kind, data in bundle.items() if kind != "text/plain"}

    def _refresh(self) -> None:
        while LiveStatusView._newest is self:
            time.sleep(_INTERVAL)
            try:
                self.widget.value = StatusView(self._read()).to_html()
            except GpuDaskError as error:
                self.widget.value += Note(error.reason).to_html()
                return
