"""GatewaySettings: what a gateway is told when it is started."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from syft.core.id_provider import is_id
from syft.exceptions import SyftError
from syft.grid.identity.binding import check_exposure


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """How a gateway is run.

    Attributes:
        id: the name of the gateway.
        host: the address to listen on: this machine only, unless there are TLS and tokens.
        port: the port; 0: any that is free.
        store: the folder of its key, its users and of who registered which node; None: all of it is gone at the end.
        certificate: the file of the certificate, for TLS.
        key: the file of its key.
        ca: the file of the authority that the nodes' certificates are signed by; without it only nodes of
            this machine can register.
        tokens: let only those in who show a token of the gateway.
        lifetime: seconds that a node is known after it was last heard of.
        max_nodes: how many nodes there may be.
        max_user_nodes: how many of them one user may register.
    """

    id: str = "gateway"
    host: str = "127.0.0.1"
    port: int = 0
    store: str | Path | None = None
    certificate: str | Path | None = None
    key: str | Path | None = None
    ca: str | Path | None = None
    tokens: bool = True
    lifetime: float = 30.0
    max_nodes: int = 1024
    max_user_nodes: int = 256

    def __post_init__(self) -> None:
        if not is_id(self.id) or not self.id.strip():
            raise SyftError("The id of a gateway is a short text, such as grid.")
        if (self.certificate is None) != (self.key is None):
            raise SyftError("TLS takes both: a certificate and its key.")
        if self.lifetime <= 0:
            raise SyftError("The lifetime of a registration is some seconds.")
        check_exposure(self.host, self.certificate is not None, self.tokens)

    @property
    def tls(self) -> bool:
        """Whether clients speak TLS to the gateway."""
        return self.certificate is not None
