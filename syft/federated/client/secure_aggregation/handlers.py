"""Handlers for the steps of secure aggregation other than training. Their results do not derive from the data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syft.federated.client.secure_aggregation import participant
from syft.federated.client.secure_aggregation.client_policy import _policy

if TYPE_CHECKING:
    from syft.federated.client.session import ClientSession


def keys(client: ClientSession, payload: dict[str, Any]) -> dict[str, Any]:
    """Start a round with fresh keys."""
    return {"keys": participant.make_keys(client.memory, client.run, payload.get("round"), _policy(client.worker))}


def shares(client: ClientSession, payload: dict[str, Any]) -> dict[str, Any]:
    """Return shares of this client's secrets, sealed for the other clients."""
    entries, threshold = payload.get("entries"), payload.get("threshold")
    sealed, promise = participant.make_shares(
        client.memory, client.run, payload.get("round"), entries, threshold, _policy(client.worker)
    )
    return {"sealed": sealed, "commitment": promise}


def agree(client: ClientSession, payload: dict[str, Any]) -> dict[str, Any]:
    """Return a confirmation of the list of survivors for each of them."""
    return {"vows": participant.agree(client.memory, payload.get("round"), payload.get("survivors"))}


def unmask(client: ClientSession, payload: dict[str, Any]) -> dict[str, Any]:
    """Return the shares that unmask the sum, if enough clients confirmed the same list of survivors."""
    return {"shares": participant.unmask(client.memory, payload.get("round"), payload.get("vows"))}
