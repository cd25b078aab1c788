"""The HTTP API of a gateway."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends, Path, Query, Request

from syft.codes import GATEWAY_ENDPOINTS
from syft.exceptions import NotPermittedError
from syft.grid.gateway.address_challenge import check_address
from syft.grid.gateway.models import (
    MAX_CHOICE,
    Farewell,
    GatewayInfo,
    Heartbeat,
    Index,
    ModelQuery,
    NodeRow,
    Nodes,
    Registered,
    Registration,
    TagQuery,
)
from syft.grid.gateway.registry import RegisteredNode, Registry
from syft.grid.identity.roles import Capability, may
from syft.grid.node.api.access import address_of, make_router, refusals
from syft.grid.server.auth import Authenticator, Principal
from syft.workers.delegation.peer import OutboundPolicy

# The parties of an encrypted model, with the dealer.
LEAST_PARTIES = 3
_NODE = Path(min_length=1, max_length=256)
_MODEL = Query(min_length=1, max_length=100, description="the name of the model")
_COUNT = Query(default=1, ge=1, le=MAX_CHOICE, description="the number of nodes")


def make_routes(registry: Registry, authenticator: Authenticator, rules: OutboundPolicy) -> list[APIRouter]:
    """Return the routes of a gateway."""

    def identify(request: Request) -> Principal:
        return authenticator.identify(request.headers, address_of(request))

    caller = Depends(identify)
    return [_nodes(registry, rules, caller), _search(registry, caller), _choice(registry, caller)]


def _rows(members: list[RegisteredNode]) -> Nodes:
    return Nodes(nodes=[NodeRow(id=member.id, address=member.address) for member in members])


def _take(member: RegisteredNode, index: Index) -> None:
    member.tags = frozenset(frozenset(tags) for tags in index.tags)
    member.models = frozenset((row.name, row.mpc) for row in index.models)


def _nodes(registry: Registry, rules: OutboundPolicy, caller: Any) -> APIRouter:
    router = make_router(prefix="", tag="nodes")

    @router.post("/v1/nodes", status_code=201, responses=refusals(400, 409))
    def register(given: Registration, principal: Principal = caller) -> Registered:
        """Register a node, which must respond to a challenge at its address."""
        registry.check(given.id, principal.user)
        check_address(rules, given.id, given.address, given.secret)
        lease = registry.add(given.id, given.address, principal.user)
        _take(registry.renew(given.id, lease, principal.user), given.index)
        return Registered(lease=lease, lifetime=registry.lifetime)

    @router.get("/v1/nodes", responses=refusals())
    def nodes(id: str | None = Query(default=None, max_length=256), principal: Principal = caller) -> Nodes:
        """List the registered nodes, or one of them."""
        return _rows([member for member in registry.alive() if id is None or member.id == id])

    @router.put("/v1/nodes/{node_id}", responses=refusals(404))
    def renew(given: Heartbeat, node_id: str = _NODE, principal: Principal = caller) -> GatewayInfo:
        """Renew a registration, and update the searchable contents."""
        member = registry.renew(node_id, given.lease, principal.user)
        if given.index is not None:
            _take(member, given.index)
        return GatewayInfo(lifetime=registry.lifetime)

    @router.post("/v1/nodes/{node_id}/leave", status_code=204, responses=refusals(404))
    def leave(given: Farewell, node_id: str = _NODE, principal: Principal = caller) -> None:
        """Deregister a node; its name stays reserved for its user."""
        registry.leave(node_id, given.lease, principal.user)

    @router.delete("/v1/nodes/{node_id}", status_code=204, responses=refusals(404))
    def remove(node_id: str = _NODE, principal: Principal = caller) -> None:
        """Remove a node and release its name; for the owner of the gateway."""
        if not may(principal.role, Capability.MANAGE_NODE):
            raise NotPermittedError("Only the owner of the gateway may remove nodes.")
        registry.remove(node_id)

    return router


def _search(registry: Registry, caller: Any) -> APIRouter:
    router = make_router(prefix="", tag="search")

    @router.post(GATEWAY_ENDPOINTS.SEARCH_TAGS, responses=refusals())
    def search(given: TagQuery, principal: Principal = caller) -> Nodes:
        """Return the nodes with an object that has all of these tags."""
        return _rows(registry.search(given.query))

    @router.post(GATEWAY_ENDPOINTS.SEARCH_MODEL, responses=refusals())
    def search_model(given: ModelQuery, principal: Principal = caller) -> Nodes:
        """Return the nodes that host a model."""
        return _rows(registry.hosts(given.model_id, mpc=False))

    @router.post(GATEWAY_ENDPOINTS.SEARCH_ENCRYPTED_MODEL, responses=refusals())
    def search_encrypted_model(given: ModelQuery, principal: Principal = caller) -> Nodes:
        """Return the nodes that hold shares of an encrypted model."""
        return _rows(registry.hosts(given.model_id, mpc=True))

    return router


def _choice(registry: Registry, caller: Any) -> APIRouter:
    router = make_router(prefix="", tag="models")

    @router.get(GATEWAY_ENDPOINTS.SELECT_MODEL_HOST, responses=refusals(409))
    def choose_model_host(model_id: str = _MODEL, count: int = _COUNT, principal: Principal = caller) -> Nodes:
        """Choose nodes to host a model: those with the fewest models."""
        return _rows(registry.choose(count, least=count))

    @router.get(GATEWAY_ENDPOINTS.SELECT_ENCRYPTED_MODEL_HOSTS, responses=refusals(409))
    def choose_encrypted_model_host(
        model_id: str = _MODEL, count: int = _COUNT, principal: Principal = caller
    ) -> Nodes:
        """Choose the parties and the dealer of an encrypted model: the wanted number, or all; at least three."""
        return _rows(registry.choose(count, least=LEAST_PARTIES))

    return router
