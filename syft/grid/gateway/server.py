"""Gateway: the server that a grid of nodes is found by."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import JSONResponse, Response

from syft.grid.gateway.registry import Registry, TakenError, UnknownNodeError
from syft.grid.gateway.routes import make_routes
from syft.grid.gateway.settings import GatewaySettings
from syft.grid.identity import NodeIdentity
from syft.grid.private_files import private_folder
from syft.grid.server.app import prepare
from syft.grid.server.auth import Authenticator, OpenAuthenticator
from syft.grid.server.port_server import PortServer, Server
from syft.grid.server.temporary_folders import passing_folder
from syft.grid.server.token_auth import TokenAuthenticator
from syft.workers.delegation.peer import OutboundPolicy
from syft.workers.transport.tls import is_loopback


class Gateway(Server):
    """A gateway: nodes register, and clients find out which of them to ask.

    It is trusted with names, addresses and tags. It never sees data, and no token of a node: clients connect to nodes
    by themselves.

    Args:
        settings: how it is run.

    Example:
        >>> gateway = Gateway(GatewaySettings(tokens=False))  # doctest: +SKIP
        >>> gateway.start()  # doctest: +SKIP
    """

    def __init__(self, settings: GatewaySettings) -> None:
        self.settings = settings
        super().__init__(settings)
        try:
            store = self._store()
            self.identity: NodeIdentity = self._closing.enter_context(NodeIdentity(store / "identity", settings.id))
            self.door: Authenticator = TokenAuthenticator(self.identity) if settings.tokens else OpenAuthenticator()
            limits = settings.lifetime, settings.max_nodes, settings.max_user_nodes
            self.registry = Registry(*limits, owners=store / "nodes.json")
            self.server = PortServer(self._app(), settings.host, settings.port, self._tls)
        except Exception:
            self._closing.close()
            raise

    def _store(self) -> Path:
        if self.settings.store is not None:
            return private_folder(self.settings.store)
        return Path(self._closing.enter_context(passing_folder("syft-gateway-")))

    def _app(self) -> FastAPI:
        settings = self.settings
        version = importlib.metadata.version("resyft")
        app = FastAPI(title=f"resyft gateway {settings.id}", version=version, docs_url=None, redoc_url=None)
        prepare(app, self.door)
        app.add_exception_handler(UnknownNodeError, _not_found)
        app.add_exception_handler(TakenError, _conflict)
        rules = OutboundPolicy(ca=settings.ca, local=is_loopback(settings.host))
        app.include_router(_about(self, version))
        for router in make_routes(self.registry, self.door, rules):
            app.include_router(router)
        return app

    @property
    def url(self) -> str:
        """Where clients and nodes connect to."""
        return self.server.url.replace("ws", "http", 1)


def _about(gateway: Gateway, version: str) -> APIRouter:
    router = APIRouter(tags=["about"])

    @router.get("/health")
    def health() -> dict[str, str]:
        """Say that the gateway is up."""
        return {"status": "ok", "id": gateway.settings.id}

    @router.get("/version")
    def about() -> dict[str, str]:
        """Say what the gateway runs."""
        return {"resyft": version}

    return router


async def _not_found(request: Request, error: Exception) -> Response:
    return JSONResponse({"detail": str(error)}, 404)


async def _conflict(request: Request, error: Exception) -> Response:
    return JSONResponse({"detail": str(error)}, 409)
