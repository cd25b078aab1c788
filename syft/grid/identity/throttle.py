"""Rate limits of failed logins, by user and by client address."""

from __future__ import annotations

import collections
import dataclasses
import ipaddress
import threading
import time
from collections.abc import Callable

from syft.exceptions import TooManyAttemptsError


@dataclasses.dataclass(frozen=True, slots=True)
class AttemptLimit:
    """Delays after failed attempts.

    Attributes:
        free: the number of failures without a delay.
        first: the delay after the next failure, in seconds; each further failure doubles it.
        max_seconds: the maximum delay. After twice as long without a failure the count is reset.
    """

    free: int
    first: float = 1.0
    max_seconds: float = 60.0

    def wait(self, failures: int) -> float:
        """Return the delay in seconds after a number of failures."""
        beyond = failures - self.free
        return 0.0 if beyond <= 0 else min(self.first * 2.0 ** min(beyond - 1, 64), self.max_seconds)


@dataclasses.dataclass(slots=True)
class _Failures:
    number: int = 0
    last: float = 0.0


# "known" is a user at an address from which it logged in before. Only this limit applies there, so neither guesses at
# the user's password from elsewhere, nor guesses at others from the same address, lock the user out.
LIMITS = {
    "user": AttemptLimit(free=5, max_seconds=60.0),
    "known": AttemptLimit(free=5, max_seconds=60.0),
    "address": AttemptLimit(free=20, max_seconds=900.0),
}
Key = tuple[str, str, str]


@dataclasses.dataclass(frozen=True, slots=True)
class Attempt:
    """A login attempt."""

    origin: Key
    keys: tuple[Key, ...]


class Throttle:
    """Counts failed logins in bounded memory. Any thread may call it.

    An attempt counts as failed from its start, so concurrent attempts have no advantage; success reverts that.

    Args:
        clock: a monotonic clock, in seconds.
        capacity: the maximum number of users and addresses; the oldest are evicted.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, capacity: int = 20_000) -> None:
        self._clock = clock
        self._capacity = capacity
        self._lock = threading.Lock()
        self._failures: collections.OrderedDict[Key, _Failures] = collections.OrderedDict()
        self._origins: collections.OrderedDict[Key, None] = collections.OrderedDict()

    def __len__(self) -> int:
        return len(self._failures) + len(self._origins)

    def enter(self, user: str, address: str) -> Attempt:
        """Begin an attempt.

        Raises:
            TooManyAttemptsError: the delay is not over; the error contains the remaining seconds.
        """
        network = network_of(address)
        origin = ("known", user, network)
        with self._lock:
            keys: tuple[Key, ...] = (("user", user, ""), ("address", "", network))
            if origin in self._origins:
                keys = (origin,)
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
        return Attempt(origin, keys)

    def withdraw(self, attempt: Attempt) -> None:
        """Revert an attempt that was not made."""
        with self._lock:
            for key in attempt.keys:
                self._decrement(key)

    def succeed(self, attempt: Attempt) -> None:
        """Revert a successful attempt, and reset the failures of the user.

        The failures of the address stay: otherwise the owner of one account could guess the passwords of others.
        """
        with self._lock:
            for key in attempt.keys:
                if key[0] == "address":
                    self._decrement(key)
                else:
                    self._failures.pop(key, None)
            self._origins[attempt.origin] = None
            self._origins.move_to_end(attempt.origin)
            self._shrink(self._origins)

    def _decrement(self, key: Key) -> None:
        failures = self._failures.get(key)
        if failures is not None:
            failures.number -= 1
            if failures.number <= 0:
                del self._failures[key]

    def _wait(self, key: Key, now: float) -> float:
        failures, limit = self._failures.get(key), LIMITS[key[0]]
        if failures is None:
            return 0.0
        if now - failures.last > 2 * limit.max_seconds:
            del self._failures[key]
            return 0.0
        return failures.last + limit.wait(failures.number) - now

    def _shrink(self, entries: collections.OrderedDict[Key, _Failures] | collections.OrderedDict[Key, None]) -> None:
        while len(entries) > self._capacity:
            entries.popitem(last=False)


def network_of(address: str) -> str:
    """Return the network that one client is assumed to control: an IPv4 address, or the /64 of an IPv6 address."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address[:64]
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is None:
            return str(ipaddress.ip_network((int(found), 64), strict=False))
        found = found.ipv4_mapped
    return str(found)
