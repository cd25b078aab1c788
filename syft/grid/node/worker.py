"""NodeWorker: the worker of a node."""

from __future__ import annotations

from typing import Any

import torch

from syft.core.id_provider import ObjectId
from syft.federated.client.federated_client import FederatedClient
from syft.hook.torch_hook import TorchHook
from syft.workers.access.policy import ReleasePolicy
from syft.workers.base import BaseWorker
from syft.workers.transport.socket_stream import SERVED


class NodeWorker(BaseWorker, FederatedClient):
    """The worker that a node serves; its policy is set before the first message."""

    # The counter of requests to hosted models, if there is a store (see `syft.mpc.serving.request_limits`).
    request_counts: Any = None
    # Owners refer to objects by the text of their ids, so users may not choose ids that look like others.
    takes_any_id = False

    def __init__(self, id: ObjectId, policy: ReleasePolicy) -> None:
        super().__init__(None, id, auto_add=False)
        self.policy = policy
        for prepare in SERVED:
            prepare(self)

    def be_local(self) -> None:
        """Make this the local worker of its process."""
        TorchHook(torch, local_worker=self)
