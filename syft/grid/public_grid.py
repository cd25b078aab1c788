"""PublicGridNetwork: a grid of the nodes registered at a gateway.

The gateway lists the nodes and their searchable contents. It sees neither data nor the tokens of nodes: the client
connects to each node directly, with a separate token.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

from syft.codes import GATEWAY_ENDPOINTS
from syft.display import FoundByWorker
from syft.display.facts import FactList, Shown
from syft.exceptions import AuthenticationError, ModelError, SyftError
from syft.grid.abstract_grid import AbstractGrid, found_by_worker
from syft.grid.parallel import ask_all
from syft.workers.node_client import NodeClient, parse_address, place_of
from syft.workers.transport.http import ask
from syft.workers.transport.reconnecting_stream import WebsocketStream
from syft.workers.transport.stream import close_all
from syft.workers.transport.websocket import Endpoint
from syft.workers.websocket_client import unreachable, where_of

if TYPE_CHECKING:
    from syft.hook.torch_hook import TorchHook

logger = logging.getLogger("syft.grid")
MAX_NODES = 1024
# Nodes without a listed match that a search asks nevertheless, and the seconds that it waits for them.
MAX_UNLISTED = 64
_UNLISTED_SECONDS = 5.0


class PublicGridNetwork(Shown, AbstractGrid):
    """A grid of the nodes registered at a gateway.

    Args:
        hook: the TorchHook.
        gateway_url: https://host:port, or http://localhost:port for a gateway on this machine.
        credential: what nodes are shown. User and password (`AccountCredential`), with which this client logs in at
            each node; or a mapping of tokens by the address of a node, wss://host:port, or by its id. Tokens by address
            go to that address alone, whatever the gateway says; the others go where the gateway says that a node is.
        token: the token for the gateway.
        ca: the file of the authority that signed the certificates of gateway and nodes; None: the system's authorities.
        nodes: the addresses of the only nodes to be connected to, for clients that do not trust the gateway with that.

    Example:
        >>> grid = sy.PublicGridNetwork(hook, "https://grid.example:5000", credential)  # doctest: +SKIP
        >>> grid.search("#x-ray", "#data")  # doctest: +SKIP
    """

    def __init__(
        self,
        hook: TorchHook,
        gateway_url: str,
        credential: object = None,
        *,
        token: str | None = None,
        ca: str | os.PathLike[str] | None = None,
        nodes: Iterable[str] | None = None,
    ) -> None:
        super().__init__()
        self.hook = hook
        self.gateway_url = gateway_url
        self._gateway: Endpoint = where_of(*parse_address(gateway_url), token, ca)
        self._ca = ca
        self._credential: Any = credential
        self._tokens = _tokens_of(credential)
        self._only = None if nodes is None else {place_of(url) for url in nodes}
        self._clients: dict[str, NodeClient] = {}
        self._connecting = threading.Lock()

    # --- the gateway ----------------------------------------------------------------------------------------

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        try:
            return ask(self._gateway, method, path, body, timeout=self.timeout)
        except AuthenticationError as error:
            raise AuthenticationError(
                f"The gateway {self.gateway_url} refused access. Pass token=..., from the owner of the gateway: {error}"
            ) from None
        except OSError as error:
            raise unreachable(error, self.gateway_url, "gateway") from None

    def _places(self, found: object) -> dict[str, str]:
        """Return {node id: address} of a gateway's response, which is validated."""
        rows = found.get("nodes") if isinstance(found, dict) else None
        if not isinstance(rows, list) or len(rows) > MAX_NODES:
            raise SyftError(f"The server at {self.gateway_url} is not a gateway.")
        places: dict[str, str] = {}
        for row in rows:
            if not isinstance(row, dict) or not all(type(row.get(key)) is str for key in ("id", "address")):
                raise SyftError(f"The server at {self.gateway_url} is not a gateway.")
            if self._only is None or place_of(row["address"]) in self._only:
                places[row["id"]] = row["address"]
        return places

    # --- nodes ----------------------------------------------------------------------------------------------

    def nodes(self) -> dict[str, str]:
        """Return the registered nodes: {id: address}."""
        return self._places(self._ask("GET", "/v1/nodes"))

    def connect(self, node_id: str, address: str) -> NodeClient:
        """Return the client of a node; it connects at the first call.

        Args:
            node_id: the expected id of the node.
            address: its address.
        """
        with self._connecting:
            known = self._clients.get(node_id)
        if known is not None and place_of(known.url) == place_of(address):
            return known
        account = None if self._tokens is not None else self._credential
        client = NodeClient(
            self.hook, address, account, id=node_id, token=self._token_for(node_id, address), ca=self._ca
        )
        with self._connecting:
            self._clients[node_id] = client
        return client

    def _token_for(self, node_id: str, address: str) -> str | None:
        if self._tokens is None:
            return None
        by_place = {place_of(key): token for key, token in self._tokens.items() if "://" in key}
        token = by_place.get(place_of(address), self._tokens.get(node_id))
        if token is None:
            raise AuthenticationError(f"The credential has no token for node {node_id!r} at {address}.")
        return token

    def _connected(self, places: Mapping[str, str], what: str) -> list[NodeClient]:
        """Connect to nodes concurrently; unreachable ones are skipped with a warning."""
        rows = [_NodeAddress(node_id, address) for node_id, address in places.items()]
        done, failed = ask_all(rows, lambda row: self.connect(row.id, row.address), self.timeout)
        self._report(failed, done, what)
        return [client for _, client in done]

    def close(self) -> None:
        """Close the connections to all nodes."""
        with self._connecting:
            clients, self._clients = list(self._clients.values()), {}
        close_all(clients)

    # --- documented -----------------------------------------------------------------------------------------

    def search(self, *query: str) -> dict[Any, list[Any]]:
        """Search the nodes of the grid for objects with all tags: {node id: pointers}.

        Args:
            *query: tags that must all match.
        """
        if not all(type(word) is str for word in query):
            raise SyftError("search() needs tags, which are texts.")
        places = self._places(self._ask("POST", GATEWAY_ENDPOINTS.SEARCH_TAGS, {"query": list(query)}))
        known = self.nodes()
        nodes = {**known, **{key: places[key] for key in places if key not in known}}
        self._finish_sends(nodes)
        found = self._search(self._connected(places, "searched"), query)
        unlisted = self._search_unlisted({key: nodes[key] for key in nodes if key not in places}, query)
        found.update(unlisted)
        hits = {node_id: found[node_id] for node_id in nodes if node_id in found}
        return FoundByWorker(hits, query, "" if hits else f"{found.hint} {unlisted.hint}")

    def _finish_sends(self, nodes: Mapping[str, str]) -> None:
        """Wait until the objects that this program sent to nodes have arrived; the grid may have other connections."""
        for stream in list(self.hook.local_worker._streams.values()):
            if isinstance(stream, WebsocketStream) and stream.location.id in nodes and stream.is_connected:
                stream.synchronize()

    def _search_unlisted(self, places: Mapping[str, str], query: tuple[str, ...]) -> FoundByWorker:
        """Search nodes that the gateway does not list for some tags: it learns of new objects a moment later."""
        # A password goes to unlisted nodes only if this program is connected to them.
        asks_all = len(places) <= MAX_UNLISTED and (self._credential is None or self._tokens is not None)
        rows = [_NodeAddress(*place) for place in places.items() if asks_all or self._is_connected(*place)]
        done, failed = ask_all(
            rows,
            lambda row: self.connect(row.id, row.address).search(list(query)),
            min(self.timeout, _UNLISTED_SECONDS),
        )
        for row, error in failed:
            logger.debug("Node %r, which the gateway does not list, was not searched: %s", row.id, error)
        return found_by_worker(done, query)

    def _is_connected(self, node_id: str, address: str) -> bool:
        """Return whether this program has a client of a node."""
        known = self._clients.get(node_id) or self.hook.local_worker._known_workers.get(node_id)
        return isinstance(known, NodeClient) and place_of(known.url) == place_of(address)

    # --- required by AbstractGrid ------------------------------------------------------------------------------

    def _candidates(self, id: str, count: int, mpc: bool) -> list[Any]:
        chosen = GATEWAY_ENDPOINTS.SELECT_ENCRYPTED_MODEL_HOSTS if mpc else GATEWAY_ENDPOINTS.SELECT_MODEL_HOST
        query = urlencode({"model_id": id, "count": count})
        return self._connected(self._places(self._ask("GET", f"{chosen}?{query}")), "connected to")

    def _known_hosts(self, id: str, mpc: bool) -> list[Any]:
        path = GATEWAY_ENDPOINTS.SEARCH_ENCRYPTED_MODEL if mpc else GATEWAY_ENDPOINTS.SEARCH_MODEL
        found = self._connected(self._places(self._ask("POST", path, {"model_id": id})), "asked")
        with self._connecting:  # the gateway learns of a new model with the next heartbeat
            known = {client.id: client for client in (*found, *self._clients.values())}
        return list(known.values())

    def _worker(self, worker_id: object) -> Any:
        places = self._places(self._ask("GET", f"/v1/nodes?{urlencode({'id': worker_id})}"))
        if worker_id not in places:
            raise ModelError(f"Node {worker_id!r} is needed and is not registered at the gateway {self.gateway_url}.")
        return self.connect(worker_id, places[worker_id])

    def _facts(self) -> FactList:
        return (("gateway", self.gateway_url), ("connected nodes", ", ".join(map(str, self._clients)) or "none"))

    def __repr__(self) -> str:
        return f"<PublicGridNetwork of the gateway {self.gateway_url}>"


class _NodeAddress(NamedTuple):
    """A node without a connection, with an `id` for warnings."""

    id: str
    address: str


def _tokens_of(credential: object) -> dict[str, str] | None:
    if not isinstance(credential, Mapping):
        return None
    if not all(type(key) is str and type(token) is str for key, token in credential.items()):
        raise SyftError("A mapping of tokens must have addresses or ids of nodes as keys, and tokens as values.")
    return dict(credential)
