"""Cached programs: a function on shares is recorded, sent as one program, and replayed in later calls."""

from __future__ import annotations

import contextvars
import dataclasses
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
from syft.mpc.rules.types import Link
from syft.mpc.runtime.recording import ShareRecording, SymbolicShareError, Value, current, value_of
from syft.tensors.precision import FixedPrecisionTensor
from syft.tensors.views import Viewable

# The maximum of cached signatures per function; each has a copy of the public tensors.
MAX_SIGNATURES = 8


_is_op_by_op = contextvars.ContextVar("syft_op_by_op", default=False)


@contextmanager
def op_by_op() -> Iterator[None]:
    """Run every operation by itself inside a `with` block, without programs."""
    token = _is_op_by_op.set(True)
    try:
        yield
    finally:
        _is_op_by_op.reset(token)


# --- one function -----------------------------------------------------------------------------------------------


@dataclasses.dataclass(slots=True)
class _CachedProgram:
    """A recorded program for one signature.

    Attributes:
        assembled: the steps.
        sources: the source of each input.
        public: the public tensors, by index.
        result: the result of the function, with symbolic shares.
    """

    assembled: Assembled
    sources: dict[Value, ProgramInput]
    public: dict[int, torch.Tensor]
    result: Any

    def inputs(self, leaves: list[Any]) -> dict[Value, Any] | None:
        """Return the current links of the inputs; None if a public tensor has changed."""
        if not all(torch.equal(plain_of(leaves[number]), value) for number, value in self.public.items()):
            return None
        links = {value: source.find(leaves) for value, source in self.sources.items()}
        return None if None in links.values() else links

    def run(self, links: dict[Value, Any]) -> Any:
        """Run the steps again, on the shares of other tensors."""
        shares: dict[Value, Shares] = {value: link.child for value, link in links.items()}
        made = self.assembled.run(shares, next(iter(links.values()))) if links else {}
        return _Realized(made).tree(self.result, copied=True)


class _Realized:
    """Replaces symbolic shares by pointers to the shares of the parties."""

    def __init__(self, made: dict[Value, Shares]) -> None:
        self.made = made
        self._known: dict[int, Any] = {}

    def tree(self, result: object, copied: bool = False) -> Any:
        """Return a result with links to shares; plain tensors are copied if asked for."""

        def real(leaf: object) -> object:
            if isinstance(leaf, SyftTensor):
                link = self.link(leaf.__dict__["child"])
                return leaf if link is leaf.__dict__["child"] else self._once(leaf, lambda: make_shell(link, False))
            if isinstance(leaf, AbstractTensor):
                return self.link(leaf)
            return leaf.clone() if copied and type(leaf) is torch.Tensor else leaf

        return map_tensors(real, result)

    def link(self, link: Any) -> Any:
        """Return a link to shares for a symbolic link; any other link unchanged."""
        if isinstance(link, FixedPrecisionTensor):
            below = self.link(link.child)
            return link if below is link.child else self._once(link, lambda: _flagged(link.like(below), link))
        value = value_of(link)
        if value is None or value not in self.made:
            return link
        if type(link) is dict:  # the child of a link to shares
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
    """The programs of a function on shares, one for each signature of its arguments."""

    def __init__(self) -> None:
        self._known: dict[Any, _CachedProgram] = {}

    def run(self, call: Callable[[], Any], leaves: list[Any], key: object = ()) -> Any:
        """Call a function as a program; replays the steps of an earlier call with the same signature.

        Args:
            call: calls the function.
            leaves: the tensors that it depends on.
            key: everything else it depends on; None if unknown, so that it is recorded each time.
        """
        if is_followed(leaves) or current.recording is not None or _is_op_by_op.get() or observers.state.watchers:
            return call()
        signature_key = None if key is None else (key, signature(leaves))
        known = None if signature_key is None else self._known.get(signature_key)
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
            link.__dict__["child"] = realized.link(child)  # the writes include its views
            link._clear_cache()
        for link, name, (fact, about) in _lasting(recording):
            link.facts = {**(link.facts or {}), name: (realized.tree(fact), about)}
        if signature_key is not None:
            self._remember(signature_key, assembled, recording, before, result)
        return realized.tree(result)

    def _remember(
        self, signature_key: object, assembled: Assembled, recording: ShareRecording, before: _Before, result: object
    ) -> None:
        """Cache a recording, unless the next call may differ."""
        sources = sources_of(assembled.inputs, before.leaves)
        changes = recording.writes or recording.noted or not before.is_now()
        if changes or sources is None or not _is_all_new(result, recording):
            return
        for value in assembled.inputs:  # do not keep the shares of this call
            value.shares, value.link = {}, None
        self._known.pop(signature_key, None)
        for oldest in list(self._known)[: max(0, len(self._known) + 1 - MAX_SIGNATURES)]:
            self._known.pop(oldest, None)
        own = map_tensors(lambda leaf: leaf.clone() if type(leaf) is torch.Tensor else leaf, result)
        self._known[signature_key] = _CachedProgram(assembled, sources, before.public, own)


def is_followed(leaves: list[Any]) -> bool:
    """Return whether autograd records a computation on some tensors."""
    return torch.is_grad_enabled() and any(leaf.requires_grad for leaf in leaves if isinstance(leaf, torch.Tensor))


class _Before:
    """A snapshot of the state that a recording may change besides links: plain tensors and torch's random state."""

    def __init__(self, leaves: list[Any]) -> None:
        self.leaves = leaves
        self.public = {
            n: plain.detach().clone() for n, leaf in enumerate(leaves) if (plain := plain_of(leaf)) is not None
        }
        self.random = torch.get_rng_state()

    def is_now(self) -> bool:
        """Return whether nothing has changed."""
        same = all(torch.equal(plain_of(self.leaves[number]), value) for number, value in self.public.items())
        return same and torch.equal(self.random, torch.get_rng_state())

    def restore(self) -> None:
        """Restore the snapshot."""
        torch.set_rng_state(self.random)
        for number, value in self.public.items():
            plain = plain_of(self.leaves[number])
            if not torch.equal(plain, value):
                plain.data.copy_(value)


def _is_tree(value: object) -> bool:
    """Return whether a value consists of containers that can be traversed."""
    if type(value) in SCALARS or is_leaf(value):
        return True
    if isinstance(value, tuple) or type(value) is list:
        return all(map(_is_tree, value))
    return type(value) is dict and all(map(_is_tree, value.values()))


def _assemble(recording: ShareRecording, result: object) -> Assembled:
    """Compile a recording; raises if its steps must run one by one."""
    leaves = list(iter_tensors(result))
    if not _is_tree(result) or any(
        leaf.requires_grad and not leaf.is_leaf for leaf in leaves if isinstance(leaf, torch.Tensor)
    ):
        raise NotOneProgramError("Gradients, and results in containers of other classes, need every step by itself.")
    links = {id(link): link for leaf in leaves if (link := link_of(leaf)) is not None}
    roots = {id(_root(link)): _root(link) for link in links.values()}
    views = [link for link in links.values() if link._parent is not None]
    if len(roots) != len(links) or not all(recording.has_made(_root(link)) for link in views):
        raise NotOneProgramError("A result that is a view of an input must stay a view.")
    facts = [link_of(part) for _, _, (fact, _) in _lasting(recording) for part in iter_tensors(fact)]
    contents = [*links.values(), *[child for _, child in recording.writes], *facts]
    values = [value_of(c.child if isinstance(c, FixedPrecisionTensor) else c) for c in contents]
    return Assembled(recording, [value for value in values if value is not None and recording.gives(value)])


def _lasting(recording: ShareRecording) -> list[Any]:
    """Return the facts of links from outside the recording that do not refer to temporary tensors."""
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
    """Return whether a result has no links or shares from outside the recording."""
    links = [link for leaf in iter_tensors(result) if (link := link_of(leaf)) is not None]
    sharings = [sharing for link in links if (sharing := sharing_of(link)) is not None]
    return all(map(recording.has_made, links)) and all(recording.gives(value_of(sharing)) for sharing in sharings)
