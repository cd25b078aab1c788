"""The text that a node prints when it starts: its data, its users, and how to connect. No values, no token."""

from __future__ import annotations

import functools
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from syft.cli.api_client import _shown, read_token
from syft.cli.output import rows, say, shape_of
from syft.cli.paths import default_store
from syft.core.labels import description_of, tags_of
from syft.grid.isolation.confinement.confine import summary
from syft.grid.node.api.objects import meta_of
from syft.grid.node.api.status import connecting

if TYPE_CHECKING:
    from syft.grid.node.node import Node

_MANY = 20


def facts_of(node: Node, token_file: Path | None) -> dict[str, Any]:
    """Return the properties of a running node for scripts."""
    return {
        "id": node.settings.id,
        "url": node.url,
        "port": node.port,
        "pid": os.getpid(),
        "fingerprint": node.identity.fingerprint,
        "tokens": node.settings.tokens,
        "tls": node.settings.tls,
        "store": None if node.settings.store is None else _shown(str(node.settings.store)),
        "owner_token_file": None if token_file is None else str(token_file),
    }


def welcome(node: Node, facts: dict[str, Any], show_token: bool, beside: bool) -> None:
    """Print the text for operators."""
    from syft.grid.certificates import expiry_warning, fingerprint

    settings = node.settings
    url = public_url(node)
    tell = functools.partial(say, error=beside)
    tell(f"Node {settings.id} (resyft {node.context.version()['resyft']})", style="bold")
    _serves(node, facts, beside)
    lines = {"to": _to_whom(node), "at": url, "key": node.identity.fingerprint, "store": _where(facts)}
    if settings.certificate is not None:
        lines["certificate"] = fingerprint(settings.certificate)
    if facts["owner_token_file"] is not None:
        lines["owner's token"] = facts["owner_token_file"]
    for name, text in lines.items():
        tell(f"  {name:<14} {text}")
    if show_token and facts["owner_token_file"] is not None:
        tell(f"  {'':<14} {read_token(Path(facts['owner_token_file']))}")
    if settings.trust_script_modules:
        tell(
            f"  {'scripts':<14} of users are run: programs beyond the table of allowed calls, confined",
            style="yellow",
        )
    tell(f"  {summary()}")
    warning = None if settings.certificate is None else expiry_warning(settings.certificate)
    if warning is not None:
        tell(f"  {warning}", style="yellow")
    tell("\nA client connects with:")
    for line in connecting(url, settings.tokens, settings.tls).splitlines():
        tell(f"    {line}")
    if settings.tokens:
        tell("A user gets a token with:")
        tell(f"    python -m syft node tokens issue {_place(node, facts)} --user alice --expires 30d")
    tell("Stop it with Ctrl-C.\n")


def _serves(node: Node, facts: dict[str, Any], beside: bool) -> None:
    store = node.worker.object_store
    published = [(key, obj) for key, obj in store.outlines().items() if store.claims.is_published(key)]
    say(f"  {'serves':<14} {len(published)} published object{'' if len(published) == 1 else 's'}", error=beside)
    lines = []
    for _, obj in published[:_MANY]:
        meta = meta_of(obj)
        kind = str(getattr(meta, "dtype", getattr(meta, "kind", ""))).removeprefix("torch.")
        lines.append(
            ("   ", " ".join(sorted(tags_of(obj))), shape_of(getattr(meta, "shape", None)), kind, description_of(obj))
        )
    if lines:
        rows(("   ", "tags", "shape", "kind", "description"), lines, "", error=beside)
    if len(published) > _MANY:
        say(
            f"    and {len(published) - _MANY} more: python -m syft node data list {_place(node, facts)}",
            error=beside,
        )
    for name, why in getattr(node.loaded, "skipped", {}).items():
        say(f"    {name} was left out: {why}", style="yellow", error=beside)


def _to_whom(node: Node) -> str:
    settings = node.settings
    if not settings.tokens:
        return "programs of this machine only, without tokens: everybody who is logged in here can connect"
    from syft.workers.transport.tls import is_loopback

    reach = "programs of this machine" if is_loopback(settings.host) else "everybody who can reach it"
    users = [account.user for account in node.identity.users.list()]
    named = f"; users with a password: {', '.join(users[:_MANY])}" if users else ""
    return f"{reach} with a token{', over TLS' if settings.tls else ''}{named}"


def _where(facts: dict[str, Any]) -> str:
    return facts["store"] or "none (--no-store): nothing is kept when it stops"


def _place(node: Node, facts: dict[str, Any]) -> str:
    """Return the options by which the owner's commands find this node."""
    settings = node.settings
    if settings.store is None:
        trusted = " --ca authority.pem" if settings.tls else ""
        return f"--url {public_url(node)} --token-file {facts['owner_token_file']}{trusted}"
    home = f" --home {settings.home}" if settings.home is not None else ""
    if str(settings.store) == str(default_store(settings.id)):
        return f"--node {shlex.quote(settings.id)}{home}"
    return f"--store {_shown(str(settings.store))}{home}"


def public_url(node: Node) -> str:
    """Return the address that clients use: one that listens everywhere is known by the name in its certificate."""
    parts = urlsplit(node.url)
    if parts.hostname not in ("0.0.0.0", "::") or node.settings.certificate is None:  # noqa: S104
        return str(node.url)
    from cryptography import x509

    first = x509.load_pem_x509_certificates(Path(node.settings.certificate).read_bytes())[0]
    try:
        names = first.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return str(node.url)
    hosts = [*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))]
    host = next((host for host in hosts if "*" not in host), parts.hostname)
    return f"{parts.scheme}://{f'[{host}]' if ':' in str(host) else host}:{parts.port}"
