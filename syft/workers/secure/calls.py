"""What a station answers in a round of secure aggregation, besides to train. Nothing here derives from its data."""

from __future__ import annotations

from typing import Any

from syft.workers.secure import member
from syft.workers.secure.guard import guard_of
from syft.workers.station import Station, answers


@answers("secure.keys", derives=False)
def keys(station: Station, payload: dict[str, Any]) -> dict[str, Any]:
    """Begin a round with fresh keys."""
    return {"keys": member.make_keys(station.memory, station.run, payload.get("round"), guard_of(station))}


@answers("secure.shares", derives=False)
def shares(station: Station, payload: dict[str, Any]) -> dict[str, Any]:
    """Give shares of this client's secrets, sealed for the others."""
    entries, threshold = payload.get("entries"), payload.get("threshold")
    sealed, promise = member.make_shares(
        station.memory, station.run, payload.get("round"), entries, threshold, guard_of(station)
    )
    return {"sealed": sealed, "commitment": promise}


@answers("secure.agree", derives=False)
def agree(station: Station, payload: dict[str, Any]) -> dict[str, Any]:
    """Vow to the others who is said to have answered."""
    return {"vows": member.agree(station.memory, payload.get("round"), payload.get("survivors"))}


@answers("secure.unmask", derives=False)
def unmask(station: Station, payload: dict[str, Any]) -> dict[str, Any]:
    """Give what takes the masks off the sum, if enough others agree on who answered."""
    return {"shares": member.unmask(station.memory, payload.get("round"), payload.get("vows"))}
