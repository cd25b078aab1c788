"""GatewaySettings: the configuration of a gateway."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from syft.core.id_provider import is_id
from syft.exceptions import SyftError
from syft.grid.identity.binding import check_exposure


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """The configuration of a gateway.

    Attributes:
        id: the name of the gateway.
        host: the address to listen on; loopback only, unless TLS and tokens are on.
        port: the port; 0: any free port.
        store: the folder of its key, users and registered names; None: nothing survives a restart.
        certificate: the file of the certificate, for TLS.
        key: the file of its key.
        ca: the file of the authority that the nodes' certificates are signed by; without it only nodes of
            this machine can register.
        tokens: whether clients need a token of the gateway.
        lifetime: seconds until a registration expires without a heartbeat.
        max_nodes: the maximum number of nodes.
        max_user_nodes: the maximum number of nodes of one user.
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
            raise SyftError("The id of a gateway must be a short text, such as grid.")
        if (self.certificate is None) != (self.key is None):
            raise SyftError("TLS needs both a certificate and its key.")
        if self.lifetime <= 0:
            raise SyftError("The lifetime of a registration must be a positive number of seconds.")
        check_exposure(self.host, self.certificate is not None, self.tokens)

    @property
    def tls(self) -> bool:
        """Whether clients connect over TLS."""
        return self.certificate is not None
