"""Check the listening address of a server: other machines may connect only with TLS and tokens."""

from __future__ import annotations

from syft.core.labels import printable
from syft.exceptions import ExposureError
from syft.workers.transport.tls import is_loopback

__all__ = ["check_exposure", "is_loopback"]

_ADVICE = {
    "TLS": "a certificate and its key (python: syft.grid.certificates)",
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
