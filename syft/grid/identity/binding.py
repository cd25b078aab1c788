"""Where a server may listen: on this machine as it likes, for others only with TLS and tokens."""

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
    """Raise unless a host is this machine, or whoever connects is kept out by tokens and kept private by TLS.

    Args:
        host: what the server binds to; none or an empty one is every address, as it is for sockets.
        tls: whether it has a certificate.
        tokens: whether everybody has to show a token.

    Raises:
        ExposureError: it would be open to others.
    """
    if is_loopback(host) or (tls is True and tokens is True):
        return
    lacking = [name for name, there in (("TLS", tls), ("tokens", tokens)) if there is not True]
    raise ExposureError(
        f"Others could reach this server at {printable(host) if host else 'every address'!r}, and it has no "
        f"{' and no '.join(lacking)}. Start it with {' and with '.join(_ADVICE[name] for name in lacking)}, "
        "or let it listen on this machine only: host 127.0.0.1."
    )
