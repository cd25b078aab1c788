"""Views of links below autograd: a write to a view also changes its base, and the reverse.

Shares and integers are never changed in place; a link gets new ones instead. In torch, `x[0] = y` writes to a view of
x, so a view keeps its base link, and a function to write back.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

from syft.core.providers import providers
from syft.core.tensor import AbstractTensor

Follow = Callable[[Any], Any]
WriteBack = Callable[[Any, Any], Any]


class _Watch(threading.local):
    # Called with a link before its child changes, while a program is recorded in this thread.
    note: Callable[[Any], None] | None = None


watch = _Watch()


class Viewable(AbstractTensor):
    """A link that may be a view of another link, and may have views."""

    carries_labels = True
    # Whether all values are known to be 0 or 1, as those of a comparison are.
    is_bit = False
    # Cached comparisons of the values, for gradients (see mpc/rules).
    facts: dict[Any, Any] | None = None
    _parent: Viewable | None = None
    _follow: Follow | None = None
    _write_back: WriteBack | None = None
    _views: weakref.WeakSet[Viewable] | None = None

    @property
    def child(self) -> Any:
        """The tensor or link below this link."""
        try:
            return self.__dict__["child"]
        except KeyError:
            raise AttributeError(f"{type(self).__name__} has no child yet") from None

    @child.setter
    def child(self, value: object) -> None:
        if watch.note is not None:
            watch.note(self)
        self._clear_cache()
        if self._parent is None and self._views is None:
            self.__dict__["child"] = value
        else:
            self._store(value, None)

    @property
    def stands_alone(self) -> bool:
        """Whether this link is not a view and has no views."""
        return self._parent is None and not self._views

    @property
    def grad(self) -> None:
        """None: gradients belong to the tensor around this link."""
        return None

    def backward(
        self,
        gradient: object = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: object = None,
    ) -> None:
        """Do nothing: gradients are computed from the tensor around this link."""

    @classmethod
    def handle(cls, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a call without a rule by calls that have one, or refuse it."""
        return providers.fallback(cls, function, args, kwargs)

    def view_of(self, parent: Viewable, follow: Follow, write_back: WriteBack) -> Viewable:
        """Make this link a view of another one.

        Args:
            parent: the other link.
            follow: returns the child of this link from the child of the parent.
            write_back: returns the child of the parent from its old child and the new child of this link.
        """
        self._parent, self._follow, self._write_back = parent, follow, write_back
        if parent._views is None:
            parent._views = weakref.WeakSet()
        parent._views.add(self)
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """Copy the child; the copy is not a view."""
        return self.copy()

    def _store(self, value: object, source: Viewable | None) -> None:
        """Set a new child, and update the parent and every view except `source`."""
        parent = self._parent
        if parent is not None and self._write_back is not None:
            parent._store(self._write_back(parent.child, value), self)
        if watch.note is not None:
            watch.note(self)
        self.__dict__["child"] = value
        self._clear_cache()
        self._update_views(source)

    def _clear_cache(self) -> None:
        """Discard cached facts about the earlier values."""
        self.is_bit = False
        if self.facts is not None:
            self.facts = None

    def _update_views(self, source: Viewable | None) -> None:
        for view in list(self._views or ()):
            if view is not source and view._follow is not None:
                if watch.note is not None:
                    watch.note(view)
                view.__dict__["child"] = view._follow(self.__dict__["child"])
                view._clear_cache()
                view._update_views(None)
