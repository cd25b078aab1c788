"""Workers: they hold objects and answer messages. A kind of worker is a module here, such as `virtual` or `process`.

Sub-packages: `transport` carries messages, `execution` runs them, `access` decides what leaves, `delegation` connects
workers to each other. Not here: nodes (`syft.grid`), and the client side of federated learning.
"""

from typing import TYPE_CHECKING

from syft._lazy import lazy_names

if TYPE_CHECKING:
    from syft.workers.abstract import AbstractWorker as AbstractWorker
    from syft.workers.base import BaseWorker as BaseWorker
    from syft.workers.virtual import VirtualWorker as VirtualWorker

_HOMES = {"abstract": ("AbstractWorker",), "base": ("BaseWorker",), "virtual": ("VirtualWorker",)}
if not TYPE_CHECKING:  # a type checker would accept any name
    __getattr__, __dir__ = lazy_names(__name__, _HOMES, ("abstract", "base", "policy", "virtual", "websocket_client"))
