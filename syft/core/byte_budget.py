"""ByteBudget: bytes in flight on behalf of strangers, asked for before the memory is taken.

Budgets form a tree: what a connection takes counts for its user and for the whole node. Code that allocates deep
inside a request (decompression, nested values, answers) calls `ask`, which charges the budget of that request.

Example:
    >>> node = ByteBudget(1000, name="the node")
    >>> user = ByteBudget(600, node, name="alice")
    >>> with user.holding(500):
    ...     node.taken
    500
    >>> user.take(700)
    Traceback (most recent call last):
    ...
    syft.exceptions.ByteBudgetError: 700 bytes were refused: alice may have 600 bytes in flight. Send less at once.
"""

from __future__ import annotations

import contextvars
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from syft.exceptions import ByteBudgetError

# Seconds that other frames have to complete before the largest of them is given up for a smaller one.
GRACE = 1.0
# Seconds that a request in progress waits for room.
WAIT_SECONDS = 3.0
# Bytes that a holding whose size changes all the time may keep beyond it.
_SURPLUS = 1 << 16


class ByteBudget:
    """A bound on bytes in flight, inside the bounds of its parents.

    Args:
        limit: the bytes that may be taken at once.
        parent: the budget that this one is part of.
        name: whose bytes these are, for errors.
    """

    __slots__ = ("__weakref__", "_chain", "_changed", "_receiving", "limit", "name", "parent", "taken")

    def __init__(self, limit: int, parent: ByteBudget | None = None, name: str = "this process") -> None:
        self.limit = limit
        self.parent = parent
        self.name = name
        self.taken = 0
        self._chain: tuple[ByteBudget, ...] = (self,) if parent is None else (self, *parent._chain)
        # One lock for the whole tree; the frames that are being received, the oldest first.
        self._changed: threading.Condition = (
            threading.Condition(threading.Lock()) if parent is None else parent._changed
        )
        self._receiving: dict[Holding, None] = {} if parent is None else parent._receiving

    @property
    def left(self) -> int:
        """The bytes that can be taken now."""
        return min(budget.limit - budget.taken for budget in self._chain)

    @property
    def largest(self) -> int:
        """The bytes that can be taken when nothing else is."""
        return min(budget.limit for budget in self._chain)

    def take(self, size: int, within: float = 0.0) -> None:
        """Take some bytes, after at most `within` seconds; if they do not fit by then, ByteBudgetError is raised."""
        if size < 0:
            raise ValueError(f"a budget can't give {size} bytes")
        with self._changed:
            full = self._add(size)
        if full is None:
            return
        if within <= 0 or size > self.largest:
            raise _refusal(full, size)
        self._wait(size, within)

    def give(self, size: int) -> None:
        """Give bytes back."""
        with self._changed:
            for budget in self._chain:
                budget.taken -= size
            self._changed.notify_all()

    @contextmanager
    def holding(self, size: int, within: float = 0.0) -> Iterator[None]:
        """Take bytes for the time of a `with` block; takes what `take` takes."""
        self.take(size, within)
        try:
            yield
        finally:
            self.give(size)

    def _add(self, size: int) -> ByteBudget | None:
        """Take bytes at all levels, or at none and return the level that is full; the lock is held."""
        for budget in self._chain:
            if budget.taken + size > budget.limit:
                return budget
        for budget in self._chain:
            budget.taken += size
        return None

    def _wait(self, size: int, within: float) -> None:
        now = time.monotonic()
        end, turn = now + within, now + min(GRACE, within)
        while True:
            with self._changed:
                full = self._add(size)
                if full is None:
                    return
                now = time.monotonic()
                if now >= end:
                    raise _refusal(full, size)
                victim = self._victim(size) if full.parent is None and now >= turn else None
                if victim is None:
                    self._changed.wait(min(end, max(turn, now + GRACE)) - now)
                    continue
                del self._receiving[victim]
            victim.evict()  # without the lock: it closes a connection, whose reader gives its bytes back

    def _victim(self, size: int) -> Holding | None:
        """Return the oldest unfinished frame of the user that holds most, if that is more than this one would hold."""
        held: dict[ByteBudget, int] = {}
        for holding in self._receiving:
            held[holding.budget._user] = held.get(holding.budget._user, 0) + holding.size
        worst = max(held, key=held.__getitem__, default=None)
        if worst is None or worst is self._user or held[worst] <= self._user.taken + size:
            return None
        return next(holding for holding in self._receiving if holding.budget._user is worst)

    @property
    def _user(self) -> ByteBudget:
        """The level below the root."""
        return self._chain[-2] if len(self._chain) > 1 else self

    def __repr__(self) -> str:
        return f"<ByteBudget of {self.name}: {self.taken} of {self.limit} bytes>"


def _refusal(full: ByteBudget, size: int) -> ByteBudgetError:
    taken = f", and {full.taken} are taken. Try again later, or send less at once." if size <= full.limit else None
    return ByteBudgetError(
        f"{size} bytes were refused: {full.name} may have {full.limit} bytes in flight"
        + (taken or ". Send less at once.")
    )


class Holding:
    """Bytes taken from a budget step by step, and given back together.

    Args:
        budget: the budget.
        evict: called when the bytes are needed for somebody else while a frame is received; it must lead to `release`.
    """

    __slots__ = ("_is_over", "budget", "evict", "size")

    def __init__(self, budget: ByteBudget, evict: Callable[[], None] = lambda: None) -> None:
        self.budget = budget
        self.evict = evict
        self.size = 0
        self._is_over = False

    def take(self, size: int, within: float = 0.0) -> None:
        """Take more bytes; ByteBudgetError if they do not fit."""
        self.budget.take(size, within)
        with self.budget._changed:
            if not self._is_over:
                self.size += size
                return
        self.budget.give(size)  # it was ended meanwhile, by another thread

    def follow(self, size: int) -> None:
        """Hold at least some bytes, and not many more; ByteBudgetError if more than before are needed and do not fit.

        A small surplus is kept, so that a size that goes up and down costs nothing.
        """
        if size > self.size:
            self.take(max(size - self.size, min(_SURPLUS, self.budget.left)))
        elif self.size - size > 2 * _SURPLUS:
            with self.budget._changed:
                surplus = max(0, self.size - size)
                self.size -= surplus
            self.budget.give(surplus)

    def begin(self) -> None:
        """Note that a frame is being received: it is given up if others need the memory more."""
        with self.budget._changed:
            self.budget._receiving[self] = None

    def complete(self) -> None:
        """Note that the frame is there."""
        with self.budget._changed:
            self.budget._receiving.pop(self, None)

    def release(self, for_good: bool = False) -> None:
        """Give everything back; with `for_good` hold nothing from now on either, whatever another thread still does."""
        if not self.size and not for_good:
            return
        with self.budget._changed:
            size, self.size = self.size, 0
            self._is_over = self._is_over or for_good
            self.budget._receiving.pop(self, None)
        self.budget.give(size)


_asked: contextvars.ContextVar[Holding | None] = contextvars.ContextVar("syft_byte_budget", default=None)


@contextmanager
def spending(budget: ByteBudget | None) -> Iterator[None]:
    """Charge a budget with whatever `ask` is called for inside, and give it back at the end; None changes nothing."""
    if budget is None:
        yield
        return
    holding = Holding(budget)
    token = _asked.set(holding)
    try:
        yield
    finally:
        _asked.reset(token)
        holding.release()


def ask(size: int) -> None:
    """Charge the request that this thread answers with bytes that are about to be allocated."""
    holding = _asked.get()
    if holding is not None:
        holding.take(size, WAIT_SECONDS)


class UserBudgets:
    """The budgets of a server: one for everything, and one for each user.

    Args:
        limit: bytes in flight altogether.
        user_limit: bytes in flight of one user; those who have no name share `limit`.
        strangers: bytes in flight of requests that nobody was identified for.
    """

    def __init__(self, limit: int, user_limit: int, strangers: int) -> None:
        self.node = ByteBudget(limit, name="this node")
        self.user_limit = user_limit
        self.strangers = ByteBudget(strangers, self.node, "all requests before authentication")
        self._users: weakref.WeakValueDictionary[str | None, ByteBudget] = weakref.WeakValueDictionary()
        self._lock = threading.Lock()

    def of(self, user: str | None) -> ByteBudget:
        """Return the budget of a user; it lasts as long as somebody uses it."""
        with self._lock:
            found = self._users.get(user)
            if found is None:
                name = "clients without a name" if user is None else f"user {user!r}"
                found = ByteBudget(self.node.limit if user is None else self.user_limit, self.node, name)
                self._users[user] = found
            return found
