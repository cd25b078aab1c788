"""Gateway: the server that a grid of nodes is found by."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

from fastapi import FastAPI

from syft.grid.gateway.registry import Registry
from syft.grid.gateway.routes import make_routes
from syft.grid.gateway.settings import GatewaySettings
from syft.grid.identity import NodeIdentity
from syft.grid.private_files import private_folder
from syft.grid.server.app import about_routes, prepare
from syft.grid.server.auth import Authenticator
from syft.grid.server.port_server import GridServer, PortServer
from syft.grid.server.temporary_folders import passing_folder
from syft.grid.server.token_auth import TokenAuthenticator
from syft.workers.delegation.peer import OutboundPolicy
from syft.workers.transport.tls import is_loopback


class Gateway(GridServer):
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
            self.authenticator = TokenAuthenticator(self.identity) if settings.tokens else Authenticator()
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
        prepare(app, self.authenticator)
        rules = OutboundPolicy(ca=settings.ca, local=is_loopback(settings.host))
        app.include_router(about_routes(settings.id, {"resyft": version}))
        for router in make_routes(self.registry, self.authenticator, rules):
            app.include_router(router)
        return app

    @property
    def url(self) -> str:
        """Where clients and nodes connect to."""
        return self.server.url.replace("ws", "http", 1)
