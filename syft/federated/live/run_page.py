"""RunPage: the live page of a run, from its start until it is closed."""

from __future__ import annotations

import html
import importlib
import sys
import threading
import weakref
from typing import Any

from syft.federated.history.page import RunView
from syft.federated.live.feed import LiveFeed
from syft.federated.live.page_server import LOOPBACK, PageServer


class RunPage:
    """The page of a run at `url`, on this machine only. It ends with `close`, or when nothing refers to it.

    Args:
        view: the properties of the run.
    """

    def __init__(self, view: RunView) -> None:
        self.feed = LiveFeed(view)
        server = PageServer(self.feed)
        self.url = f"http://{LOOPBACK}:{server.port}/{self.feed.token}/"
        # The thread refers to the server alone, so that this object can be garbage-collected.
        self._thread = threading.Thread(target=server.serve_until_closed, name="syft run page", daemon=True)
        self._thread.start()
        self._finalizer = weakref.finalize(self, LiveFeed.close, self.feed)

    def announce(self, is_notebook: bool) -> None:
        """Show the address: as a link in a notebook, else as a line of the standard error stream."""
        if is_notebook:
            shown: Any = importlib.import_module("IPython.display")
            link = f'<a href="{html.escape(self.url)}" target="_blank" rel="noopener noreferrer">{self.url}</a>'
            shown.display(shown.HTML(f"Watch the run: {link}"))
        else:
            print(f"Watch the run: {self.url}", file=sys.stderr, flush=True)

    @property
    def is_open(self) -> bool:
        """Whether the page is served."""
        return not self.feed.closed.is_set()

    def close(self) -> None:
        """Stop serving the page. Open browser windows keep what they show."""
        self._finalizer()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout=5)

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()  # a copy or a pickle of a result has no page

    def __repr__(self) -> str:
        return f"<RunPage {self.url if self.is_open else 'closed'}>"
