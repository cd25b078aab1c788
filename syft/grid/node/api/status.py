"""The status of a node for its owner, and its HTML page. The page loads nothing from elsewhere and runs no scripts."""

from __future__ import annotations

import base64
import hashlib
import html
import time
from typing import TYPE_CHECKING

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from syft.core.labels import printable
from syft.grid.identity.roles import Capability
from syft.grid.node.api.access import make_router, needs, refusals
from syft.grid.node.api.models import Status
from syft.grid.server.auth import Principal
from syft.grid.server.middleware import POLICY

if TYPE_CHECKING:
    from syft.grid.node.node import Node

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 42rem; margin: 3rem auto; padding: 0 1rem;
       color: #1b1b1b; background: #fff; }
table { border-collapse: collapse; } th { text-align: left; font-weight: 600; padding-right: 1.5rem; }
th, td { padding-top: .2rem; vertical-align: top; overflow-wrap: anywhere; }
pre { background: #f2f2f2; padding: .8rem; overflow-x: auto; }
@media (prefers-color-scheme: dark) { body { color: #e8e8e8; background: #161616; } pre { background: #242424; } }
"""
_DIGEST = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
# Only the style above is allowed: no other style, script, image or form.
_POLICY = f"{POLICY}; style-src 'sha256-{_DIGEST}'"
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title><style>{style}</style></head><body>
<h1>{title}</h1>
<p>{about}</p>
<table>{rows}</table>
<h2>Connect</h2>
<pre>{connect}</pre>
<p>The HTTP API is described at <a href="/openapi.json">/openapi.json</a>. Values of data do not travel over HTTP.</p>
</body></html>
"""
_ABOUT = (
    "This node holds private data. Clients compute on it by commands; the owner decides which results are released, "
    "and every release is logged."
)
_OPEN = "Without tokens, for programs on this machine only."


def make_status(node: Node) -> APIRouter:
    """Return the routes of the node's status."""
    router = make_router("node")
    owner = needs(node, Capability.MANAGE_NODE)
    started = time.monotonic()

    @router.get("/status", responses=refusals())
    def status(principal: Principal = owner) -> Status:
        """Return the status of the node."""
        usage, settings = node.object_manager.ledger.usage(node=True), node.settings
        return Status(
            id=str(node.worker.id),
            owner=settings.owner,
            version=node.context.version(),
            fingerprint=node.identity.fingerprint,
            uptime=time.monotonic() - started,
            tokens=node.context.authenticator.tokens,
            tls=settings.tls,
            durable=node.storage is not None,
            figures=node.context.figures(),
            users=len(node.identity.users),
            published=count_published(node),
            objects=usage.objects,
            bytes=usage.bytes,
            max_objects=settings.max_objects,
            max_bytes=settings.max_bytes,
            pending_requests=len(node.policy.requests.list(status="pending")),
        )

    return router


def count_published(node: Node) -> int:
    """Return the number of published objects."""
    store = node.worker.object_store
    return sum(store.claims.is_published(obj_id) for obj_id in store.outlines())


def make_page(node: Node) -> APIRouter:
    """Return the route of the page."""
    router = APIRouter()

    @router.get("/", include_in_schema=False, response_class=HTMLResponse)
    def page() -> HTMLResponse:
        """Show the page of the node."""
        return HTMLResponse(_render(node), headers={"content-security-policy": _POLICY})

    return router


def _render(node: Node) -> str:
    facts = {
        "Node": node.worker.id,
        "Owner": node.settings.owner,
        "Version": f"resyft {node.context.version()['resyft']}",
        "Key": node.identity.fingerprint,
        "Published objects": count_published(node),
        "Access": "TLS and tokens" if node.settings.tls else ("tokens" if node.context.authenticator.tokens else _OPEN),
    }
    rows = "".join(f"<tr><th>{_safe(name)}</th><td>{_safe(value)}</td></tr>" for name, value in facts.items())
    return _PAGE.format(
        title=_safe(f"resyft node {node.worker.id}"),
        style=_STYLE,
        about=_ABOUT,
        rows=rows,
        connect=_safe(connecting(node.url, tokens=node.context.authenticator.tokens, tls=node.settings.tls)),
    )


def _safe(text: object) -> str:
    return html.escape(printable(text))


def connecting(url: str, tokens: bool, tls: bool) -> str:
    """Return the Python code by which a client connects."""
    arguments = "".join(text for text, needed in ((", token=TOKEN", tokens), (', ca="authority.pem"', tls)) if needed)
    return "\n".join(
        (
            "import torch, syft as sy",
            "hook = sy.TorchHook(torch)",
            f'node = sy.connect("{url}"{arguments})',
            'node.search("#tag")',
        )
    )
