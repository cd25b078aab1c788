"""PartyRun: one run at one party in a process of its own, from its first round to its last."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from syft.config import current
from syft.core.references import Ref
from syft.core.trees import SCALARS, map_tensors
from syft.exceptions import PartyLostError, ProtocolError
from syft.mpc.dealer import wire_protocol
from syft.mpc.dealer.wire_protocol import RunDeals
from syft.mpc.links import party_link
from syft.mpc.links.frame_layout import FrameTag, write_layout
from syft.mpc.links.party_link import PartyLink
from syft.mpc.runtime.group import Group
from syft.mpc.runtime.party import Batch, Deal, Exchange, Open, PartyCoroutine, PartyRequest

if TYPE_CHECKING:
    from syft.messaging.message import RunMessage

# Seconds in which a party that aborts a run notifies the others.
_ABORT_TIMEOUT = 5.0
# Attempts of a run: it starts again, with other masks, if the parties used different numbers of deals.
ATTEMPTS = 4
# The tensors of each request that another member sent, by the index of the member.
Received = dict[int, list[Any]]


class PartyRun:
    """One run at one party."""

    def __init__(self, group: Group, message: RunMessage, attempt: int = 0) -> None:
        self.group = group
        self.count = group.count
        self.is_helper = group.index >= self.count
        run_id = wire_protocol.digest(group.client_id, message.run_id)[: party_link.ID_BYTES]
        agreement = wire_protocol.digest(_agreement(message))
        self.tags = [run_id + agreement + bytes([number]) for number in range(ATTEMPTS)]
        self.tag = self.tags[attempt]
        self.deals = RunDeals(_base_of(message), group.dealer)
        self.timeout = current().stream_timeout
        self.rounds = 0
        self.sent = 0
        self._links: dict[int, PartyLink] = {}

    def drive(self, coroutine: PartyCoroutine) -> Any:
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

    def _serve(self, request: PartyRequest) -> Any:
        leaves = list(_leaves(request))
        answers: dict[int, Any] = {}
        messages: list[tuple[int, Open | Exchange]] = []
        for position, leaf in enumerate(leaves):
            if type(leaf) is Open and self.group.helper is not None:
                raise ProtocolError("A run with the dealer as a helper can't open values: the dealer knows the masks.")
            if type(leaf) is Deal:
                answers[position] = () if self.is_helper else self.deals.deal(leaf.kind, leaf.spec)
            else:
                messages.append((position, leaf))
        if messages:
            found = self._round([leaf for _, leaf in messages])
            answers.update({position: answer for (position, _), answer in zip(messages, found, strict=True)})
        return _rebuild(request, iter([answers[position] for position in range(len(leaves))]))

    def _round(self, leaves: list[Open | Exchange]) -> list[Any]:
        """Send one frame to each other member, and wait for theirs."""
        self.rounds += 1
        writing, reading, sources = [], {}, {}
        opened = [leaf.shares for leaf in leaves if isinstance(leaf, Open)]
        # All frames of a round that only opens values have one layout; other layouts may differ.
        layout = write_layout(opened) if len(opened) == len(leaves) else None
        for index in range(len(self.group.members)):
            if index == self.group.index:
                continue
            outgoing = [leaf.shares if isinstance(leaf, Open) else leaf.outgoing.get(index) for leaf in leaves]
            expected = [isinstance(leaf, Open) or index in leaf.sources for leaf in leaves]
            sends = any(tensors is not None for tensors in outgoing)
            if not sends and not any(expected):
                continue
            link = self._link(index)
            tag = self._frame_tag(index)
            if sends:
                self.sent += link.put(tag, outgoing, layout)
                writing.append(link)
            if any(expected):
                reading[link] = functools.partial(link.receive, tag, layout)
                sources[link] = (index, expected)
        try:
            received = party_link.transfer(writing, reading, self.timeout)
        except party_link.DisagreementError as error:
            self.deals.disagree(error.tag.instance, error.tag.seeds)
            raise
        arrived: Received = {}
        for link, groups in received.items():
            index, expected = sources[link]
            if [group is not None for group in groups] != expected:
                raise ProtocolError(f"Party {link.peer!r} sent tensors for other requests than expected.")
            arrived[index] = groups
        return [_ANSWERS[type(leaf)](self, leaf, position, arrived) for position, leaf in enumerate(leaves)]

    def _link(self, index: int) -> PartyLink:
        """Return the connection to another member; checked once in each run."""
        link = self._links.get(index)
        if link is None:
            link = self._links[index] = self.group.link(index, self.timeout)
        return link

    def _frame_tag(self, index: int) -> FrameTag:
        """Return the tag of frames to and from another member; nothing is dealt to a helper."""
        if index >= self.count or self.is_helper:
            return FrameTag(self.tag, self.rounds, 0, 0)
        return FrameTag(self.tag, self.rounds, self.deals.instance, self.deals.generation)

    def _opened(self, leaf: Open, position: int, arrived: Received) -> tuple[torch.Tensor, ...]:
        """Add up the shares of all parties, in the memory of the received tensors."""
        others = [arrived[index][position] for index in range(self.count) if index != self.group.index]
        join = torch.bitwise_xor if leaf.xor else torch.add
        totals = list(others[0])
        for shares in (*others[1:], leaf.shares):
            if [(t.shape, t.dtype) for t in shares] != [(t.shape, t.dtype) for t in totals]:
                raise ProtocolError("The shares of a value have different shapes, so it can't be opened.")
            for total, share in zip(totals, shares, strict=True):
                join(total, share, out=total)
        return tuple(totals)

    def _exchanged(self, leaf: Exchange, position: int, arrived: Received) -> dict[int, Any]:
        own = self.group.index
        return {i: leaf.outgoing[own] if i == own else arrived[i][position] for i in leaf.sources}

    def give_up(self, error: Exception) -> None:
        """Notify the others of an error, so that none waits."""
        lost = error.party if isinstance(error, PartyLostError) else None
        number = self.group.known.index(lost) if lost in self.group.known else None
        notified = []
        for index, peer in enumerate(self.group.members):
            if index == self.group.index or peer == lost:
                continue
            try:
                link = self.group.link(index, _ABORT_TIMEOUT)
                for tag in self.tags:
                    frame_tag = FrameTag(tag, 0, self.deals.instance, self.deals.generation)
                    link.put_abort(frame_tag, self.deals.key, number, type(error).__name__)
                notified.append(link)
            except (ProtocolError, OSError):  # this member is lost too
                continue
        party_link.drain(notified, _ABORT_TIMEOUT)


_ANSWERS: dict[type, Callable[..., Any]] = {Open: PartyRun._opened, Exchange: PartyRun._exchanged}


def _leaves(request: PartyRequest) -> Iterator[Any]:
    if not isinstance(request, Batch):
        yield request
        return
    for part in request.requests:
        yield from _leaves(part)


def _rebuild(request: PartyRequest, answers: Iterator[Any]) -> Any:
    if not isinstance(request, Batch):
        return next(answers)
    return [_rebuild(part, answers) for part in request.requests]


def _base_of(message: RunMessage) -> bytes:
    """Return the digest of a protocol, its options and the shapes of its public arguments."""

    def spec(leaf: object) -> object:
        if type(leaf) is Ref:
            return "share"
        return ("public", tuple(leaf.shape)) if isinstance(leaf, torch.Tensor) else leaf

    return wire_protocol.digest(message.name, repr(map_tensors(spec, (message.contents, message.options))))


def _agreement(message: RunMessage) -> tuple[object, ...]:
    """Return the run's arguments; must be equal at every party. Shares are left out.

    The options of a served model hold the digest of its program, and those of a hosted model its name and version.
    """

    def spec(item: object) -> object:
        if isinstance(item, torch.Tensor):
            return ("public", tuple(item.shape))
        return item if type(item) in SCALARS else "share"

    options = sorted((name, repr(map_tensors(spec, value))) for name, value in message.options.items())
    return message.name, message.parties, message.provider, tuple(map(spec, message.contents)), options
