"""``%gpudask status`` in a notebook: a table that is updated every second."""

from __future__ import annotations

import threading
import time
import uuid
from typing import TYPE_CHECKING, Any

from IPython.display import display, update_display

from ...errors import GpuDaskError, NoClusterError
from ...protocol.stream import LIVE_OUTPUT
from .base import Note
from .tables import StatusView

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...protocol import ClusterState

_UPDATE_INTERVAL = 1.0


class LiveStatusView(StatusView):
    """The state of each worker, updated every second until another one is shown or the cluster is closed.

    Then it becomes a plain table, because JupyterLab cannot show a widget after its kernel has shut down.

    Parameters
    ----------
    state
        The state at first. Front ends without widgets show it, and so does a notebook that is saved meanwhile: the
        server extension removes the widget from the saved file.
    read
        Returns the current state.

    Attributes
    ----------
    widget
        The `ipywidgets.HTML`; `None` until it is shown.
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
            # The rules and colors that the theme gives to tables of other outputs.
            self.widget.add_class("jp-RenderedHTMLCommon")
            LiveStatusView._newest = self
            threading.Thread(target=self._refresh, name="gpudask-status", daemon=True).start()
        bundle: dict[str, Any] = self.widget._repr_mimebundle_() or {}
        return {kind: data for kind, data in bundle.items() if kind != "text/plain"}

    def _refresh(self) -> None:
        shown = StatusView(self.state)
        text = str(shown)
        while LiveStatusView._newest is self:
            time.sleep(_UPDATE_INTERVAL)
            try:
                shown = StatusView(self._read())
            except NoClusterError:  # closed by the user: the last state is final, and says when it was
                break
            except GpuDaskError as error:
                ended = StatusView(shown.state.model_copy(update={"closes_at": None}))  # what was announced has come
                note = Note(error.reason)
                text = f"{ended}\n{note}"
                self.widget.value = ended.to_html() + note.to_html()
                break
            text = str(shown)
            self.widget.value = shown.to_html()
        self._last = {"text/plain": text, "text/html": self.widget.value}
        update_display(self._last, raw=True, display_id=self._display_id)
        self.widget.close()
