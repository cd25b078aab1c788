"""NodeIdentity: the key, the tokens and the users of one node, in one folder."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from typing import Any

from syft.grid.identity.database import Database
from syft.grid.identity.keys import fingerprint, node_key
from syft.grid.identity.revocations import Revocations
from syft.grid.identity.tokens import Tokens
from syft.grid.identity.users import Users
from syft.workers.delegation.key_proofs import PeerKey


class NodeIdentity(contextlib.AbstractContextManager[Any]):
    """The key, tokens and users of a node. Several processes may open the same folder.

    Args:
        folder: the folder of key and users; both are created at the first start, with mode 0600.
        node_id: the id of the node.
        clock: returns seconds since 1970.
        settings: further arguments of `Users`.
    """

    def __init__(
        self, folder: str | os.PathLike[str], node_id: str, clock: Callable[[], float] = time.time, **settings: Any
    ) -> None:
        key = node_key(folder)
        self._database = Database(folder)
        self.node_id = node_id
        self.fingerprint = fingerprint(key)
        # Authenticates this node to other nodes.
        self.peer_key = PeerKey(key)
        self.tokens = Tokens(node_id, key, Revocations(self._database), clock)
        self.users = Users(self._database, self.tokens, clock=clock, **settings)

    def __repr__(self) -> str:
        return f"<NodeIdentity of {self.node_id!r}, key {self.fingerprint[:23]}>"

    def __exit__(self, *args: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the files; idempotent."""
        self._database.close()
