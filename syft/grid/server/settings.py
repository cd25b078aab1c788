"""ServerSettings: the configuration that nodes and gateways have in common."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from syft.core.labels import printable
from syft.exceptions import ExposureError, SyftError
from syft.workers.transport.tls import is_loopback

_ADVICE = {
    "TLS": "a certificate and its key (--cert and --key; python -m syft node certs --help)",
    "tokens": "tokens",
}


def check_exposure(host: str | None, tls: bool, tokens: bool) -> None:
    """Raise if a server without TLS and tokens would be reachable from other machines.

    Args:
        host: the address the server binds to; None or "" is every address, as for sockets.
        tls: whether it has a certificate.
        tokens: whether it requires tokens.

    Raises:
        ExposureError: it would be open to other machines.
    """
    if is_loopback(host) or (tls is True and tokens is True):
        return
    lacking = [name for name, there in (("TLS", tls), ("tokens", tokens)) if there is not True]
    raise ExposureError(
        f"Other machines could reach this server at {printable(host) if host else 'every address'!r}, and it has no "
        f"{' and no '.join(lacking)}. Start it with {' and with '.join(_ADVICE[name] for name in lacking)}, "
        "or let it listen on this machine only: host 127.0.0.1."
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """The configuration of a server.

    Attributes:
        id: the name of the server.
        host: the address to listen on; loopback only, unless TLS and tokens are on.
        port: the port; 0: any free port.
        store: where its state is kept; None: nothing survives a restart.
        certificate: the file of the certificate, for TLS.
        key: the file of its key.
        ca: the file of the authority that the certificates of other nodes are signed by.
        tokens: whether clients need a token.
    """

    id: str
    host: str = "127.0.0.1"
    port: int = 0
    store: str | Path | None = None
    certificate: str | Path | None = None
    key: str | Path | None = None
    ca: str | Path | None = None
    tokens: bool = True

    def check_access(self) -> None:
        """Raise if TLS is incomplete, or if other machines could reach a server without TLS and tokens."""
        if (self.certificate is None) != (self.key is None):
            raise SyftError("TLS needs both a certificate and its key.")
        check_exposure(self.host, self.tls, self.tokens)

    @property
    def tls(self) -> bool:
        """Whether clients connect over TLS."""
        return self.certificate is not None
