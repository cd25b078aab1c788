"""Slows down who guesses passwords: by user, and by the address they come from."""

from __future__ import annotations

import collections
import dataclasses
import ipaddress
import threading
import time
from collections.abc import Callable

from syft.exceptions import TooManyAttemptsError

__all__ = ["Attempt", "AttemptLimit", "Throttle"]


@dataclasses.dataclass(frozen=True, slots=True)
class AttemptLimit:
    """How failures of one kind slow down further tries.

    Attributes:
        free: how many failures cost nothing.
        first: seconds to wait after the next one; each further one doubles them.
        most: seconds to wait at most. After twice as long without a failure all is forgotten.
    """

    free: int
    first: float = 1.0
    most: float = 60.0

    def wait(self, failures: int) -> float:
        """Return the seconds to wait after so many failures."""
        beyond = failures - self.free
        return 0.0 if beyond <= 0 else min(self.first * 2.0 ** min(beyond - 1, 64), self.most)


@dataclasses.dataclass(slots=True)
class _Failures:
    number: int = 0
    last: float = 0.0


# "place" is a user at an address from which it logged in before. It alone counts there, so that neither who guesses the
# user's password elsewhere, nor who guesses others' behind the same address, keeps the user out.
LIMITS = {
    "user": AttemptLimit(free=5, most=60.0),
    "place": AttemptLimit(free=5, most=60.0),
    "address": AttemptLimit(free=20, most=900.0),
}
Key = tuple[str, str, str]


@dataclasses.dataclass(frozen=True, slots=True)
class Attempt:
    """A try that has begun.

    Attributes:
        place: the user at the address.
        keys: what it counts for.
    """

    place: Key
    keys: tuple[Key, ...]


class Throttle:
    """Counts failed logins in bounded memory. Any thread may call it.

    A try counts as failed from its start, so that many at the same time gain nothing; success takes that back.

    Args:
        clock: returns seconds that never go back.
        capacity: how many users and addresses are remembered; the ones that failed longest ago are forgotten.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, capacity: int = 20_000) -> None:
        self._clock = clock
        self._capacity = capacity
        self._lock = threading.Lock()
        self._failures: collections.OrderedDict[Key, _Failures] = collections.OrderedDict()
        self._places: collections.OrderedDict[Key, None] = collections.OrderedDict()

    def __len__(self) -> int:
        return len(self._failures) + len(self._places)

    def enter(self, user: str, address: str) -> Attempt:
        """Let somebody try, or not.

        Raises:
            TooManyAttemptsError: it is too early; it says when to come back.
        """
        network = _network(address)
        place = ("place", user, network)
        with self._lock:
            keys: tuple[Key, ...] = (("user", user, ""), ("address", "", network))
            if place in self._places:
                keys = (place,)
            now = self._clock()
            wait = max(self._wait(key, now) for key in keys)
            if wait > 0:
                raise TooManyAttemptsError(wait)
            for key in keys:
                failures = self._failures.setdefault(key, _Failures())
                failures.number += 1
                failures.last = now
                self._failures.move_to_end(key)
            self._shrink(self._failures)
        return Attempt(place, keys)

    def withdraw(self, attempt: Attempt) -> None:
        """Take back a try that came to nothing."""
        with self._lock:
            for key in attempt.keys:
                self._take_back(key)

    def succeed(self, attempt: Attempt) -> None:
        """Take back a try that went well, and forget earlier ones of the user.

        Those of the address stay: else who has one account could guess the passwords of all others.
        """
        with self._lock:
            for key in attempt.keys:
                if key[0] == "address":
                    self._take_back(key)
                else:
                    self._failures.pop(key, None)
            self._places[attempt.place] = None
            self._places.move_to_end(attempt.place)
            self._shrink(self._places)

    def _take_back(self, key: Key) -> None:
        failures = self._failures.get(key)
        if failures is not None:
            failures.number -= 1
            if failures.number <= 0:
                del self._failures[key]

    def _wait(self, key: Key, now: float) -> float:
        failures, limit = self._failures.get(key), LIMITS[key[0]]
        if failures is None:
            return 0.0
        if now - failures.last > 2 * limit.most:
            del self._failures[key]
            return 0.0
        return failures.last + limit.wait(failures.number) - now

    def _shrink(self, entries: collections.OrderedDict[Key, _Failures] | collections.OrderedDict[Key, None]) -> None:
        while len(entries) > self._capacity:
            entries.popitem(last=False)


def _network(address: str) -> str:
    """Return what one party can be taken to own: an IPv4 address, or the /64 of an IPv6 one."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address[:64]
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is None:
            return str(ipaddress.ip_network((int(found), 64), strict=False))
        found = found.ipv4_mapped
    return str(found)
