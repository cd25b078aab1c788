"""ShareRecording: protocols on shares are recorded, and nothing is sent.

Inside a recording `client.run` records each step and returns symbolic shares: shared tensors with a shape and parties,
and no values. Public values are computed as usual. In-place writes to links are undone when the recording ends.

Example:
    >>> import torch
    >>> import syft as sy
    >>> from syft.mpc.runtime.recording import ShareRecording
    >>> hook = sy.TorchHook(torch)
    >>> alice, bob, carol = (sy.VirtualWorker(hook, id=f"recording-{name}") for name in ("alice", "bob", "carol"))
    >>> x = torch.tensor([1, 2]).share(alice, bob, crypto_provider=carol)
    >>> with ShareRecording() as recording:
    ...     y = x * x + 1
    >>> [step.name for step in recording.steps]
    ['square', 'add_public']
"""

from __future__ import annotations

import dataclasses
import threading
from typing import TYPE_CHECKING, Any

import torch

from syft.core.trees import map_tensors
from syft.exceptions import SyftError
from syft.serde.registry import refuse
from syft.tensors.additive_shared import AdditiveSharingTensor
from syft.tensors.views import Viewable, watch

if TYPE_CHECKING:
    from syft.core.id_provider import ObjectId
    from syft.workers.base import BaseWorker

WHY = (
    "These values are recorded and not computed yet, so they can't be fetched or sent. "
    "Do that outside of the recorded function."
)


class SymbolicShareError(SyftError):
    """Values were requested that are only recorded."""

    def __init__(self) -> None:
        super().__init__(WHY)


@dataclasses.dataclass(slots=True, eq=False)
class Value:
    """A shared tensor in a recording: an input with its pointers and link, or the result of a step."""

    shape: torch.Size
    shares: dict[Any, Any] | None = None
    link: Any = None


class SymbolicShare:
    """A share of one party during a recording."""

    __slots__ = ("__weakref__", "location", "value")

    def __init__(self, value: Value, location: object) -> None:
        self.value = value
        self.location = location

    @property
    def shape(self) -> torch.Size:
        """The shape that the share will have."""
        return self.value.shape

    def clone(self, *args: object, **kwargs: object) -> SymbolicShare:
        """Return this object: results of steps are never written to."""
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # Python checks for special methods
            raise AttributeError(name)
        raise SymbolicShareError

    def __repr__(self) -> str:
        return f"[Outline | {tuple(self.shape)} at {getattr(self.location, 'id', self.location)}]"


refuse(SymbolicShare, WHY)


def outline(value: Value, model: AdditiveSharingTensor) -> AdditiveSharingTensor:
    """Return a link to a value of a recording, of the parties of another link."""
    return model.like({party: SymbolicShare(value, share.location) for party, share in model.child.items()})


def key_of(link: AdditiveSharingTensor) -> int:
    """Return a key of the shares of a link, valid while the link exists; several links may have the same shares."""
    return id(next(iter(link.child.values())))


def value_of(content: object) -> Value | None:
    """Return the recorded value of a link, or of its shares; None if they are real shares."""
    shares = content.child if isinstance(content, AdditiveSharingTensor) else content
    first = next(iter(shares.values())) if type(shares) is dict else None
    return first.value if type(first) is SymbolicShare else None


@dataclasses.dataclass(slots=True)
class RecordedStep:
    """One run of a protocol, with values in place of shared tensors."""

    name: str
    args: tuple[Any, ...]
    options: dict[str, Any]
    results: list[Value]
    parties: frozenset[Any]
    provider: Any


class _Current(threading.local):
    recording: ShareRecording | None = None


current = _Current()


class ShareRecording:
    """Steps that are recorded and not run, inside a `with` block and in one thread.

    Attributes:
        steps: the steps, in order.
        writes: links from outside that were written to in place, with their content at the end.
        noted: new facts about links from outside (see `rules.cached_comparisons`): the link, the name, and the fact.
    """

    def __init__(self) -> None:
        self.steps: list[RecordedStep] = []
        self.writes: list[tuple[Viewable, Any]] = []
        self.noted: list[tuple[Viewable, Any, Any]] = []
        self._inputs: dict[int, Value] = {}
        self._results: set[Value] = set()
        self._before: dict[int, tuple[Viewable, Any, bool, Any]] = {}
        self._mark = object()
        self._outer: tuple[Any, Any] = (None, None)

    def __enter__(self) -> ShareRecording:
        self._outer = current.recording, watch.note
        current.recording, watch.note = self, self._about_to_change
        return self

    def __exit__(self, *exception: object) -> None:
        current.recording, watch.note = self._outer
        self._outer = (None, None)
        for link, child, is_bit, facts in self._before.values():
            if link.__dict__["child"] is not child:
                self.writes.append((link, link.__dict__["child"]))
            else:
                self.noted += [
                    (link, key, fact) for key, fact in (link.facts or {}).items() if key not in (facts or {})
                ]
            link.__dict__["child"], link.is_bit, link.facts = child, is_bit, facts
        self._before = {}

    def _about_to_change(self, link: Viewable) -> None:
        """Store the content of a link from outside before it changes; links of this recording may change."""
        if "child" not in link.__dict__:
            link.__dict__["_made_by"] = self._mark
        elif not self.has_made(link) and id(link) not in self._before:
            facts = None if link.facts is None else dict(link.facts)
            self._before[id(link)] = (link, link.__dict__["child"], link.is_bit, facts)

    def note(
        self,
        name: str,
        args: tuple[Any, ...],
        options: dict[str, Any],
        model: AdditiveSharingTensor,
        provider: BaseWorker | ObjectId | None,
        shapes: torch.Size | list[torch.Size],
    ) -> Any:
        """Record a run, and return symbolic shares of its results."""
        several = isinstance(shapes, list)
        results = [Value(torch.Size(shape)) for shape in (shapes if isinstance(shapes, list) else [shapes])]
        args, options = map_tensors(self._noted, (args, options))
        self.steps.append(RecordedStep(name, args, options, results, frozenset(model.child), provider))
        self._results.update(results)
        made = [outline(value, model) for value in results]
        return tuple(made) if several else made[0]

    def _noted(self, leaf: object) -> object:
        if isinstance(leaf, AdditiveSharingTensor):
            return self.value(leaf)
        # Public tensors may change before the steps are run.
        return leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf

    def value(self, link: AdditiveSharingTensor) -> Value:
        """Return the value of a link: the result of a step, or an input."""
        known = value_of(link)
        if known in self._results:
            return known
        key = key_of(link)
        found = self._inputs.get(key)
        if found is None:
            found = self._inputs[key] = Value(link.shape, link.child, link)
        return found

    def gives(self, value: Value | None) -> bool:
        """Return whether a value is the result of a step of this recording."""
        return value in self._results

    def has_made(self, link: Viewable) -> bool:
        """Return whether a link was made in this recording."""
        return link.__dict__.get("_made_by") is self._mark
