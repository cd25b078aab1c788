"""Polling: writes to and reads from several parties at the same time."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from syft.exceptions import PartyLostError
from syft.mpc.links.party_link import STILL_THERE, PartyLink


def transfer(
    writing: Iterable[PartyLink], reading: Mapping[PartyLink, Callable[[], list[Any] | None]], timeout: float
) -> dict[PartyLink, list[Any]]:
    """Write all queued frames and read the expected ones, at the same time; a party without progress is lost."""
    unwritten = {link for link in writing if not link.flush()}
    received: dict[PartyLink, list[Any]] = {}
    unread = dict(reading)
    while True:
        for link in list(unread):
            groups = unread[link]()
            if groups is not None:
                received[link] = groups
                del unread[link]
        unwritten = {link for link in unwritten if not link.flush()}
        if not unread and not unwritten:
            return received
        _wait(unwritten, set(unread), timeout)


def _wait(writing: set[PartyLink], reading: set[PartyLink], timeout: float) -> None:
    poll = select.poll()
    for link in writing | reading:
        events = (select.POLLOUT if link in writing else 0) | (select.POLLIN if link in reading else 0)
        poll.register(link.sock, events)
    seconds = min([timeout, *[link.wait_limit(timeout) for link in reading]])
    if not poll.poll(seconds * 1000) and seconds == timeout:
        late = next(iter(reading or writing))
        raise PartyLostError(late.peer, f"it did not answer within {timeout:g} s", STILL_THERE)


def drain(links: Iterable[PartyLink], seconds: float) -> None:
    """Write queued frames for some seconds; connections with frames left are closed."""
    end = time.monotonic() + seconds
    for link in links:
        try:
            while not link.flush():
                left = end - time.monotonic()
                if left <= 0:
                    link.close()
                    break
                _wait({link}, set(), left)
        except (PartyLostError, OSError, ValueError):  # the party is lost anyway
            link.close()
