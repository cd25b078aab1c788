"""Views of links below autograd: what is written to a view reaches what it is a view of, and the other way round.

Shares and whole numbers are never written to in place; a link gets new ones instead. In torch, `x[0] = y` writes to a
view of x, so a link that came from another one by a view remembers it, and how to write back.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

from syft.core.tensor import AbstractTensor

Follow = Callable[[Any], Any]
WriteBack = Callable[[Any, Any], Any]


class _Watch(threading.local):
    # Told of a link before what is below it changes, while something is recorded in this thread.
    note: Callable[[Any], None] | None = None


watch = _Watch()


class Viewable(AbstractTensor):
    """A link that may be a view of another link, and have views of its own."""

    carries_labels = True
    # Whether all values are known to be 0 or 1, as those of a comparison are.
    is_bit = False
    # What else is known of the values, as bits that were found along with them: for gradients (see mpc/rules/facts.py).
    facts: dict[Any, Any] | None = None
    _parent: Viewable | None = None
    _follow: Follow | None = None
    _write_back: WriteBack | None = None
    _views: weakref.WeakSet[Viewable] | None = None

    @property
    def child(self) -> Any:
        """What is below this link."""
        try:
            return self.__dict__["child"]
        except KeyError:
            raise AttributeError(f"{type(self).__name__} has nothing below it yet") from None

    @child.setter
    def child(self, value: object) -> None:
        if watch.note is not None:
            watch.note(self)
        self._forget()
        if self._parent is None and self._views is None:
            self.__dict__["child"] = value
        else:
            self._store(value, None)

    @property
    def stands_alone(self) -> bool:
        """Whether this link is no view of another one, and has none."""
        return self._parent is None and not self._views

    @classmethod
    def handle(cls, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a call that has no rule: by calls that have one, or refuse it."""
        return _fallback[0](cls, function, args, kwargs)

    def view_of(self, parent: Viewable, follow: Follow, write_back: WriteBack) -> Viewable:
        """Make this link a view of another one.

        Args:
            parent: the other one.
            follow: gives what is below this link from what is below the parent.
            write_back: gives what is below the parent from that, and from what was written to this link.
        """
        self._parent, self._follow, self._write_back = parent, follow, write_back
        if parent._views is None:
            parent._views = weakref.WeakSet()
        parent._views.add(self)
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """Copy what is below where it is; the copy is no view of anything."""
        return self.clone()

    def _store(self, value: object, source: Viewable | None) -> None:
        """Take new contents: tell the parent, and every view but the one they came from."""
        parent = self._parent
        if parent is not None and self._write_back is not None:
            parent._store(self._write_back(parent.child, value), self)
        if watch.note is not None:
            watch.note(self)
        self.__dict__["child"] = value
        self._forget()
        self._tell_views(source)

    def _forget(self) -> None:
        """Forget what was known of the values that were here before."""
        self.is_bit = False
        if self.facts is not None:
            self.facts = None

    def _tell_views(self, source: Viewable | None) -> None:
        for view in list(self._views or ()):
            if view is not source and view._follow is not None:
                if watch.note is not None:
                    watch.note(view)
                view.__dict__["child"] = view._follow(self.__dict__["child"])
                view._forget()
                view._tell_views(None)


# Filled by syft.mpc: what becomes of calls without a rule.
_fallback: list[Any] = []


def register_fallback(fallback: object) -> None:
    """Tell links what becomes of calls without a rule (called once by syft.mpc)."""
    _fallback[:] = [fallback]
