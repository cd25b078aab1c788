"""What a node does with messages about rights. Those for owners ask what the connection says, never the message."""

from __future__ import annotations

from typing import Any

from syft.exceptions import NotPermittedError, SyftError
from syft.grid.rights.policy import OWNER, NodePolicy
from syft.messaging import message as m
from syft.workers.provenance import source_of, user_of
from syft.workers.router import handles
from syft.workers.session import Session
from syft.workers.visibility import find, turn_of

# How many rows of the audit log are told at a time.
MAX_TOLD = 1000


def policy_of(worker: Any) -> NodePolicy:
    """Return the policy of a node, or say that nobody can be asked here."""
    if not isinstance(worker.policy, NodePolicy):
        raise SyftError(f"Worker {worker.id!r} has no owner to ask: its policy decides by itself what leaves.")
    return worker.policy


def owners_policy(worker: Any, session: Session) -> NodePolicy:
    """Return the policy of a node for somebody who is an owner of it, or refuse."""
    policy = policy_of(worker)
    if session.role != OWNER:
        policy.audit.write(session.client_id, "owner only", allowed=False)
        raise NotPermittedError(f"Only an owner of {worker.id!r} may do this.")
    return policy


@handles(m.RequestReleaseMessage)
def request_release(worker: Any, session: Session, message: m.RequestReleaseMessage) -> dict[str, Any]:
    """Ask the owner to release an object."""
    policy = policy_of(worker)
    with turn_of(worker, session):
        obj = find(worker, session, message.contents)
        return policy.requests.ask(worker, session, message.contents, obj, message.reason)


@handles(m.RequestStatusMessage)
def request_status(worker: Any, session: Session, message: m.RequestStatusMessage) -> dict[str, Any]:
    """Say how a request stands."""
    return policy_of(worker).requests.status(session, message.contents)


@handles(m.ListRightsMessage)
def list_rights(worker: Any, session: Session, message: m.ListRightsMessage) -> list[dict[str, Any]]:
    """List requests, grants, or the latest rows of the audit log."""
    policy = owners_policy(worker, session)
    if message.contents == "requests":
        return policy.requests.list(message.status)
    if message.contents == "grants":
        return policy.grants.list()
    if message.contents == "audit":
        return policy.audit.rows()[-MAX_TOLD:]
    raise SyftError('There are lists of "requests", "grants" and "audit".')


@handles(m.DecideRequestMessage)
def decide_request(worker: Any, session: Session, message: m.DecideRequestMessage) -> dict[str, Any]:
    """Approve or deny a request."""
    requests = owners_policy(worker, session).requests
    if not message.approved:
        return requests.deny(message.contents, message.answer, by=session.client_id)
    return requests.approve(
        message.contents, message.expires, message.scope, by=session.client_id, answer=message.answer
    )


@handles(m.RevokeGrantMessage)
def revoke_grant(worker: Any, session: Session, message: m.RevokeGrantMessage) -> dict[str, Any]:
    """Take back what was granted."""
    return owners_policy(worker, session).requests.revoke(message.contents, by=session.client_id)


@handles(m.ShareSourceMessage)
def share_source(worker: Any, session: Session, message: m.ShareSourceMessage) -> None:
    """Say who may have a data set: for owners of the node, and for whoever owns the data."""
    policy = policy_of(worker)
    obj = find(worker, session, message.contents)
    source = source_of(worker, message.contents, obj)
    if source is None or source.owner != user_of(session):
        owners_policy(worker, session)
    policy.share(worker, message.contents, message.allowed_users, message.public, by=session.client_id)
