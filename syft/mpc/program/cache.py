"""Replay: what a function does on shares is recorded, sent as one program, and used again when it is called again."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from syft.core import observers
from syft.core.tensor import AbstractTensor
from syft.core.trees import SCALARS, is_leaf, iter_tensors, map_tensors
from syft.hook.syft_tensor import SyftTensor, make_shell
from syft.mpc.program.compile import Assembled, NotOneProgramError, Shares
from syft.mpc.program.inputs import ProgramInput, link_of, plain_of, sharing_of, signature, sources_of
from syft.mpc.rules.operands import Link
from syft.mpc.runtime.recording import ShareRecording, SymbolicShareError, Value, current, value_of
from syft.tensors.precision import FixedPrecisionTensor
from syft.tensors.views import Viewable

# For how many forms of its arguments a function is remembered; each has a copy of what is public.
MAX_FORMS = 8


class _Switch(threading.local):
    off = 0


_switch = _Switch()


@contextmanager
def op_by_op() -> Iterator[None]:
    """Run every operation by itself inside a `with` block: no programs, as a profile by operations needs it."""
    _switch.off += 1
    try:
        yield
    finally:
        _switch.off -= 1


# --- one function -----------------------------------------------------------------------------------------------


@dataclasses.dataclass(slots=True)
class _Known:
    """What was recorded for some forms, and can be used again.

    Attributes:
        assembled: the steps.
        sources: for each input, where it comes from.
        public: what was public, by number of the tensor.
        result: what the function returned, with outlines.
    """

    assembled: Assembled
    sources: dict[Value, ProgramInput]
    public: dict[int, torch.Tensor]
    result: Any

    def inputs(self, leaves: list[Any]) -> dict[Value, Any] | None:
        """Return the links that the inputs are now; None if something else than shares is not as it was."""
        if not all(torch.equal(_plain(leaves[number]), value) for number, value in self.public.items()):
            return None
        links = {value: source.find(leaves) for value, source in self.sources.items()}
        return None if None in links.values() else links

    def run(self, links: dict[Value, Any]) -> Any:
        """Run the steps again, on the shares of other tensors."""
        shares: dict[Value, Shares] = {value: link.child for value, link in links.items()}
        made = self.assembled.run(shares, next(iter(links.values()))) if links else {}
        return _Realized(made).tree(self.result, copied=True)


def _plain(leaf: object) -> torch.Tensor:
    found = plain_of(leaf)
    if found is None:
        raise TypeError("this tensor is not public")
    return found


class _Realized:
    """Put what the parties hold in place of outlines.

    Args:
        made: the pointers to it, by value.
    """

    def __init__(self, made: dict[Value, Shares]) -> None:
        self.made = made
        self._known: dict[int, Any] = {}

    def tree(self, result: object, copied: bool = False) -> Any:
        """Return a result with links to shares; what is plain is copied if it is to be given out again."""

        def real(leaf: object) -> object:
            if isinstance(leaf, SyftTensor):
                link = self.link(leaf.child)
                return leaf if link is leaf.child else self._once(leaf, lambda: make_shell(link, False))
            if isinstance(leaf, AbstractTensor):
                return self.link(leaf)
            return leaf.clone() if copied and type(leaf) is torch.Tensor else leaf

        return map_tensors(real, result)

    def link(self, link: Any) -> Any:
        """Return a link to shares in place of an outline; any other is returned as it is."""
        if isinstance(link, FixedPrecisionTensor):
            below = self.link(link.child)
            return link if below is link.child else self._once(link, lambda: _flagged(link.like(below), link))
        value = value_of(link)
        if value is None or value not in self.made:
            return link
        if type(link) is dict:  # what is below a link to shares
            return self.made[value]
        return self._once(link, lambda: _flagged(link.like(self.made[value]), link))

    def _once(self, old: object, make: Callable[[], Any]) -> Any:
        if id(old) not in self._known:
            self._known[id(old)] = (old, make())
        return self._known[id(old)][1]


def _flagged(link: Link, source: Link) -> Link:
    link.is_bit = source.is_bit
    return link


class Programs:
    """What a function does on shares, for each form of its arguments that it was called with."""

    def __init__(self) -> None:
        self._known: dict[Any, _Known] = {}

    def run(self, call: Callable[[], Any], leaves: list[Any], key: object = ()) -> Any:
        """Call a function as a program, with the steps of an earlier call if they are the same.

        Args:
            call: calls it.
            leaves: the tensors that it depends on.
            key: what else it depends on; None if that can't be said, so that it is recorded each time.
        """
        if is_followed(leaves) or current.recording is not None or _switch.off or observers.state.watchers:
            return call()
        form = None if key is None else (key, signature(leaves))
        known = None if form is None else self._known.get(form)
        links = None if known is None else known.inputs(leaves)
        if known is not None and links is not None:
            return known.run(links)
        before = _Before(leaves)
        try:
            with ShareRecording() as recording:
                result = call()
            assembled = _assemble(recording, result)
        except (SymbolicShareError, NotOneProgramError):
            before.restore()
            return call()
        model: Any = assembled.inputs[0].link if assembled.inputs else None
        realized = _Realized(assembled.run({value: value.shares or {} for value in assembled.inputs}, model))
        for link, child in recording.writes:
            link.__dict__["child"] = realized.link(child)  # its views are among the writes
            link._forget()
        for link, name, (fact, about) in _lasting(recording):
            link.facts = {**(link.facts or {}), name: (realized.tree(fact), about)}
        if form is not None:
            self._remember(form, assembled, recording, before, result)
        return realized.tree(result)

    def _remember(
        self, form: object, assembled: Assembled, recording: ShareRecording, before: _Before, result: object
    ) -> None:
        """Keep what was recorded, unless another call may have to do something else."""
        sources = sources_of(assembled.inputs, before.leaves)
        changes = recording.writes or recording.noted or not before.is_now()
        if changes or sources is None or not _is_all_new(result, recording):
            return
        for value in assembled.inputs:  # not to keep the shares of this call
            value.shares, value.link = {}, None
        self._known.pop(form, None)
        for oldest in list(self._known)[: max(0, len(self._known) + 1 - MAX_FORMS)]:
            self._known.pop(oldest, None)
        self._known[form] = _Known(assembled, sources, before.public, map_tensors(_own, result))


def _own(leaf: object) -> object:
    return leaf.clone() if type(leaf) is torch.Tensor else leaf


def is_followed(leaves: list[Any]) -> bool:
    """Return whether autograd records a computation on some tensors."""
    return torch.is_grad_enabled() and any(leaf.requires_grad for leaf in leaves if isinstance(leaf, torch.Tensor))


class _Before:
    """What a recording might change besides links: plain tensors, and torch's random numbers.

    Args:
        leaves: the tensors that a function depends on.
    """

    def __init__(self, leaves: list[Any]) -> None:
        self.leaves = leaves
        self.public = {
            n: plain.detach().clone() for n, leaf in enumerate(leaves) if (plain := plain_of(leaf)) is not None
        }
        self.random = torch.get_rng_state()

    def is_now(self) -> bool:
        """Return whether everything is as it was."""
        same = all(torch.equal(_plain(self.leaves[number]), value) for number, value in self.public.items())
        return same and torch.equal(self.random, torch.get_rng_state())

    def restore(self) -> None:
        """Put back what was changed."""
        torch.set_rng_state(self.random)
        for number, value in self.public.items():
            plain = _plain(self.leaves[number])
            if not torch.equal(plain, value):
                plain.data.copy_(value)


def _is_tree(value: object) -> bool:
    """Return whether all tensors of a value are found by walking it."""
    if type(value) in SCALARS or is_leaf(value):
        return True
    if isinstance(value, tuple) or type(value) is list:
        return all(map(_is_tree, value))
    return type(value) is dict and all(map(_is_tree, value.values()))


def _assemble(recording: ShareRecording, result: object) -> Assembled:
    """Make a program of what was recorded, or say why it has to be run step by step."""
    leaves = list(iter_tensors(result))
    if not _is_tree(result) or any(
        leaf.requires_grad and not leaf.is_leaf for leaf in leaves if isinstance(leaf, torch.Tensor)
    ):
        raise NotOneProgramError("Gradients, and results in containers of other kinds, need every step by itself.")
    links = {id(link): link for leaf in leaves if (link := link_of(leaf)) is not None}
    roots = {id(_root(link)): _root(link) for link in links.values()}
    views = [link for link in links.values() if link._parent is not None]
    if len(roots) != len(links) or not all(recording.has_made(_root(link)) for link in views):
        raise NotOneProgramError("What is returned as a view of something else stays one.")
    facts = [link_of(part) for _, _, (fact, _) in _lasting(recording) for part in iter_tensors(fact)]
    contents = [*links.values(), *[child for _, child in recording.writes], *facts]
    values = [value_of(c.child if isinstance(c, FixedPrecisionTensor) else c) for c in contents]
    return Assembled(recording, [value for value in values if value is not None and recording.gives(value)])


def _lasting(recording: ShareRecording) -> list[Any]:
    """Return what was noted of links from outside, and is not about something that was there for the moment."""
    return [
        row
        for row in recording.noted
        if row[2][1] is None or (row[2][1].of() is not None and not recording.has_made(row[2][1].of()))
    ]


def _root(link: Viewable) -> Viewable:
    while link._parent is not None:
        link = link._parent
    return link


def _is_all_new(result: object, recording: ShareRecording) -> bool:
    """Return whether a result holds nothing that was there before: neither links nor shares."""
    links = [link for leaf in iter_tensors(result) if (link := link_of(leaf)) is not None]
    sharings = [sharing for link in links if (sharing := sharing_of(link)) is not None]
    return all(map(recording.has_made, links)) and all(recording.gives(value_of(sharing)) for sharing in sharings)
