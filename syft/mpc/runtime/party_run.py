"""PartyRun: one run at one party in a process of its own, from its first round to its last."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from syft.config import current
from syft.core.references import Ref
from syft.core.trees import SCALARS, map_tensors
from syft.exceptions import PartyLostError, ProtocolError
from syft.mpc.dealer import wire_protocol
from syft.mpc.dealer.wire_protocol import Deals
from syft.mpc.links import party_link, poll
from syft.mpc.links.frame_layout import write_forms
from syft.mpc.links.party_link import FrameTag, PartyLink
from syft.mpc.runtime import lockstep
from syft.mpc.runtime.group import Group
from syft.mpc.runtime.party import Batch, Deal, Exchange, Open

# How long a party that gives up tries to tell the others, in seconds.
_FAREWELL = 5.0
# How often a run is begun: anew, with other masks, when parties see that they are not at the same place.
ATTEMPTS = 4


class PartyRun:
    """One run at one party.

    Args:
        group: those who take part.
        message: what was asked for.
        attempt: the how-manieth time it is begun, from 0.
    """

    def __init__(self, group: Group, message: Any, attempt: int = 0) -> None:
        self.group = group
        self.count = group.count
        self.is_helper = group.index >= self.count
        known = wire_protocol.digest(group.client_id, message.run_id)[: party_link.ID_BYTES]
        agreed = wire_protocol.digest(_told_to_all(message))
        self.tags = [known + agreed + bytes([number]) for number in range(ATTEMPTS)]
        self.tag = self.tags[attempt]
        self.deals = Deals(_base_of(message), group.dealer)
        self.timeout = current().stream_timeout
        self.rounds = 0
        self.sent = 0
        self._links: dict[int, PartyLink] = {}

    def drive(self, coroutine: Any) -> Any:
        """Run the protocol to its end and return its result."""
        answer = None
        try:
            while True:
                try:
                    request = coroutine.send(answer)
                except StopIteration as stop:
                    return stop.value
                answer = self._serve(request)
        finally:
            coroutine.close()

    def _serve(self, request: Any) -> Any:
        leaves = list(_leaves(request))
        answers: dict[int, Any] = {}
        talks = []
        for position, leaf in enumerate(leaves):
            if type(leaf) is Open and self.group.helper is not None:
                raise ProtocolError("Nothing is opened while the dealer looks on as a helper: it knows the masks.")
            if type(leaf) is Deal:
                answers[position] = () if self.is_helper else self.deals.deal(leaf.kind, leaf.spec)
            else:
                talks.append((position, leaf))
        if talks:
            found = self._round([leaf for _, leaf in talks])
            answers.update({position: answer for (position, _), answer in zip(talks, found, strict=True)})
        return _rebuild(request, iter([answers[position] for position in range(len(leaves))]))

    def _round(self, leaves: list[Any]) -> list[Any]:
        """Send what goes to each other member in one frame, and wait for theirs."""
        self.rounds += 1
        writing, reading, sources = [], {}, {}
        forms = self._forms(leaves)
        for index in range(len(self.group.members)):
            if index == self.group.index:
                continue
            outgoing = [self._for(leaf, index) for leaf in leaves]
            expected = [self._expects(leaf, index) for leaf in leaves]
            sends = any(tensors is not None for tensors in outgoing)
            if not sends and not any(expected):
                continue
            link = self._link(index)
            stamp = self._stamp(index)
            if sends:
                self.sent += link.put(stamp, outgoing, forms)
                writing.append(link)
            if any(expected):
                reading[link] = functools.partial(link.take, stamp, forms)
                sources[link] = (index, expected)
        try:
            received = poll.transfer(writing, reading, self.timeout)
        except party_link.Disagreement as error:
            self.deals.disagree(error.stamp.instance, error.stamp.seeds)
            raise
        arrived: dict[int, list[Any]] = {}
        for link, groups in received.items():
            index, expected = sources[link]
            if [group is not None for group in groups] != expected:
                raise ProtocolError(f"Party {link.peer!r} sent something else than this one waits for.")
            arrived[index] = groups
        return [_ANSWERS[type(leaf)](self, leaf, position, arrived) for position, leaf in enumerate(leaves)]

    def _link(self, index: int) -> PartyLink:
        """Return the connection to another member, which was looked at once in this run."""
        link = self._links.get(index)
        if link is None:
            link = self._links[index] = self.group.link(index, self.timeout)
        return link

    def _stamp(self, index: int) -> FrameTag:
        """Return where frames to and from another member belong; nothing is dealt to a helper."""
        if index >= self.count or self.is_helper:
            return FrameTag(self.tag, self.rounds, 0, 0)
        return FrameTag(self.tag, self.rounds, self.deals.instance, self.deals.generation)

    def _for(self, leaf: Any, index: int) -> Any:
        """Return the tensors of a request that go to another member."""
        if type(leaf) is Open:
            return leaf.shares
        return leaf.outgoing.get(index)

    def _expects(self, leaf: Any, index: int) -> bool:
        """Say whether tensors of a request come from another member."""
        return type(leaf) is Open or index in leaf.sources

    def _forms(self, leaves: list[Any]) -> bytes | None:
        """Return the forms of what everybody sends, where only values are opened that this party has shares of."""
        if any(type(leaf) is not Open for leaf in leaves):
            return None
        return write_forms(leaf.shares for leaf in leaves)

    def _opened(self, leaf: Open, position: int, arrived: dict[int, list[Any]]) -> Any:
        """Add up the shares of all parties, in the memory of those that arrived."""
        others = [arrived[index][position] for index in range(self.count) if index != self.group.index]
        join = torch.bitwise_xor if leaf.xor else torch.add
        totals = list(others[0])
        for shares in (*others[1:], leaf.shares):
            if [(t.shape, t.dtype) for t in shares] != [(t.shape, t.dtype) for t in totals]:
                raise ProtocolError("The shares of one value have different shapes, so it can't be opened.")
            for total, share in zip(totals, shares, strict=True):
                join(total, share, out=total)
        return tuple(totals)

    def _exchanged(self, leaf: Exchange, position: int, arrived: dict[int, list[Any]]) -> Any:
        own = self.group.index
        return {i: leaf.outgoing[own] if i == own else arrived[i][position] for i in leaf.sources}

    def give_up(self, error: Exception) -> None:
        """Tell the others, so that nobody waits."""
        lost = error.party if isinstance(error, PartyLostError) else None
        number = self.group.known.index(lost) if lost in self.group.known else None
        told = []
        for index, peer in enumerate(self.group.members):
            if index == self.group.index or peer == lost:
                continue
            try:
                link = self.group.link(index, _FAREWELL)
                for tag in self.tags:
                    stamp = FrameTag(tag, 0, self.deals.instance, self.deals.generation)
                    link.put_abort(stamp, self.deals.key, number, type(error).__name__)
                told.append(link)
            except (ProtocolError, OSError):  # that one is gone too
                continue
        poll.drain(told, _FAREWELL)

    def settle(self, cost: lockstep.RunCost) -> None:
        """Add what the run cost to what is being counted."""
        for tally in (cost, *lockstep._tallies):
            tally.runs += 1
            tally.rounds += self.rounds
            tally.bytes += self.sent
            tally.dealt += self.deals.bytes


_ANSWERS: dict[type, Callable[..., Any]] = {Open: PartyRun._opened, Exchange: PartyRun._exchanged}


def _leaves(request: Any) -> Iterator[Any]:
    if type(request) is not Batch:
        yield request
        return
    for part in request.requests:
        yield from _leaves(part)


def _rebuild(request: Any, answers: Iterator[Any]) -> Any:
    if type(request) is not Batch:
        return next(answers)
    return [_rebuild(part, answers) for part in request.requests]


def _base_of(message: Any) -> bytes:
    """Return what stands for a protocol, its options and the forms of its arguments."""

    def form(leaf: Any) -> Any:
        if type(leaf) is Ref:
            return "share"
        return ("public", tuple(leaf.shape)) if isinstance(leaf, torch.Tensor) else leaf

    return wire_protocol.digest(message.name, repr(map_tensors(form, (message.contents, message.options))))


def _told_to_all(message: Any) -> Any:
    """Return the run's arguments that must be equal at every party; a share is replaced by its shape.

    The options of a hosted model's run hold its name, its version and the digest of its program (see `hosted`).
    """

    def form(item: Any) -> Any:
        if isinstance(item, torch.Tensor):
            return ("public", tuple(item.shape))
        return item if type(item) in SCALARS else "share"

    options = sorted((name, repr(map_tensors(form, value))) for name, value in message.options.items())
    return message.name, message.parties, message.provider, tuple(map(form, message.contents)), options
