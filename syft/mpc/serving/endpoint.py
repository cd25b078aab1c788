"""Endpoints: what a party keeps of a model that it serves, and what the model's owner may ask it for.

An endpoint is a program of protocols, with the owner's shares as fixed arguments; the others are brought by guests (see
`guests`). Each party counts requests for itself, before it takes part. Only who opened an endpoint has a say in it, and
it ends with the owner's session.
"""

from __future__ import annotations

import dataclasses
import threading
import weakref
from typing import Any

import torch

from syft.core.id_provider import ObjectId, is_id
from syft.exceptions import CommandNotAllowed, ProtocolError
from syft.messaging.message import RunMessage
from syft.mpc.dealer.wire_protocol import digest
from syft.mpc.protocols import program
from syft.mpc.runtime.party import Party
from syft.mpc.runtime.protocol_registry import entry_of
from syft.mpc.runtime.worker import MAX_PARTIES
from syft.workers.execution.execute import WORKER_COMMANDS
from syft.workers.execution.session import Session

OPEN, INVITE, REVOKE, LEFT, CLOSE = (f"syft.mpc_endpoint_{what}" for what in "open invite revoke left close".split())
MAX_ENDPOINTS = 256
MAX_GUESTS = 4096

Shape = tuple[int, ...]
_endpoints: weakref.WeakKeyDictionary[Any, dict[str, Endpoint]] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


@dataclasses.dataclass(frozen=True, slots=True)
class Served:
    """What an endpoint runs.

    Attributes:
        steps: the steps of its program.
        outputs: the numbers of the values that it gives.
        given: what it begins with, in order: a tensor that is fixed, or the number of something that a guest brings.
        inputs: the shapes of what a guest brings.
    """

    steps: tuple[Any, ...] = dataclasses.field(repr=False)
    outputs: tuple[int, ...]
    given: tuple[Any, ...] = dataclasses.field(repr=False)
    inputs: tuple[Shape, ...]

    def check(self, parties: int) -> None:
        """Raise unless this can be run: all that comes from a client is checked before the first guest comes."""
        if type(self.given) is not tuple or not all(self._is_given(item) for item in self.given):
            raise ProtocolError("A served program begins with tensors, and with what its guests bring.")
        if not all(type(shape) is tuple and all(type(n) is int and n >= 0 for n in shape) for shape in self.inputs):
            raise ProtocolError("A shape is a tuple of whole numbers.")
        program.read(self.steps, self.outputs, len(self.given), parties)
        forms = [torch.empty(tuple(item.shape), dtype=item.dtype, device="meta") for item in self.begin(self._empty())]
        entry_of(program.NAME).shape(*forms, steps=self.steps, outputs=self.outputs)

    def digest(self) -> str:
        """Return the digest of the program: equal at all parties, whose shares differ."""
        given = [item if type(item) is int else (tuple(item.shape), str(item.dtype)) for item in self.given]
        return digest(self.steps, self.outputs, given, self.inputs).hex()

    def _is_given(self, item: Any) -> bool:
        return type(item) is torch.Tensor or (type(item) is int and 0 <= item < len(self.inputs))

    def _empty(self) -> tuple[torch.Tensor, ...]:
        return tuple([torch.empty(shape, dtype=torch.int64, device="meta") for shape in self.inputs])

    def begin(self, shares: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
        """Return what the program begins with, with the shares of a guest in their places."""
        return [shares[item] if type(item) is int else item for item in self.given]


class Endpoint:
    """A program and its fixed shares at one party.

    Args:
        owner: the session of whoever opened it; the endpoint ends with it.
        name: what it is known by.
        served: what is run.
        parties: the ids of those who hold shares, in order.
        provider: the id of the dealer.
        limit: how many requests are answered, all guests together; None: any number.
    """

    def __init__(
        self,
        owner: Session,
        name: str,
        served: Served,
        parties: tuple[ObjectId, ...],
        provider: ObjectId | None,
        limit: int | None,
    ) -> None:
        self.owner = owner
        self.name = name
        self.served = served
        self.parties = parties
        self.provider = provider
        # Compared by the parties of a run, beside the name.
        self.options = {"program": served.digest()}
        self._unpromised = limit
        # guest -> requests left
        self._left: dict[ObjectId, int | None] = {}
        self._visits: dict[ObjectId, Any] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<Endpoint of {self.owner.client_id!r} for {len(self._left)} guests>"

    @property
    def is_over(self) -> bool:
        """Whether its owner is gone."""
        return self.owner not in self.owner.worker._sessions

    def invite(self, guest: ObjectId, requests: int | None) -> None:
        """Let a guest ask so many times; all guests together not more often than the owner said."""
        with self._lock:
            if guest in self._left or len(self._left) >= MAX_GUESTS:
                raise ProtocolError("This guest was invited already, or too many were.")
            if self._unpromised is not None:
                if requests is None or requests > self._unpromised:
                    raise ProtocolError(f"{self._unpromised} requests are left to be promised to a guest.")
                self._unpromised -= requests
            self._left[guest] = requests

    def revoke(self, guest: ObjectId) -> None:
        """Answer a guest no more; what it was promised can be promised to another one."""
        with self._lock:
            left = self._left.pop(guest, None)
            if self._unpromised is not None and left is not None:
                self._unpromised += left
            visit = self._visits.pop(guest, None)
        if visit is not None:
            visit.dismiss()

    def close(self) -> None:
        """Answer nobody any more."""
        for guest in list(self._left):
            self.revoke(guest)

    def left(self, guest: ObjectId) -> int | None:
        """Return how many requests a guest has left."""
        with self._lock:
            return self._left.get(guest, 0)

    def spend(self, guest: ObjectId) -> None:
        """Count a request of a guest, or refuse it; one that fails later has been counted."""
        with self._lock:
            self._require(guest)
            left = self._left[guest]
            if left == 0:
                raise ProtocolError("All requests of this invitation were used; ask the model's owner for another one.")
            if left is not None:
                self._left[guest] = left - 1

    def _require(self, guest: ObjectId) -> None:
        if guest not in self._left or self.is_over:
            raise ProtocolError("This model is not served to you, or not any more; ask its owner for an invitation.")

    def arrive(self, visit: Any) -> None:
        """Receive a guest; an earlier visit of the same one ends, so that nobody comes in many at once."""
        with self._lock:
            self._require(visit.client_id)
            earlier = self._visits.pop(visit.client_id, None)
            self._visits[visit.client_id] = visit
        if earlier is not None:
            earlier.hang_up()

    def depart(self, visit: Any) -> bool:
        """Take note that a visit is over; says whether it was the guest's last one."""
        with self._lock:
            last = self._visits.get(visit.client_id) is visit
            if last:
                del self._visits[visit.client_id]
        return last

    def check(self, message: RunMessage) -> tuple[torch.Tensor, ...]:
        """Return the shares that a guest brings, if they are what the endpoint takes."""
        told = (message.name, message.parties, message.provider, message.options)
        if told != (self.name, self.parties, self.provider, {}):
            raise ProtocolError("This is not how the served model is asked.")
        shares: tuple[Any, ...] = message.contents
        if any(type(share) is not torch.Tensor or share.dtype is not torch.int64 for share in shares):
            raise ProtocolError("A served model takes shares: tensors of int64.")
        forms = tuple([tuple(share.shape) for share in shares])
        if forms != self.served.inputs:
            raise ProtocolError(f"The served model takes {_shown(self.served.inputs)}, not {_shown(forms[:8])}.")
        return shares

    def start(self, shares: tuple[torch.Tensor, ...], party: Party) -> Any:
        """Make the coroutine of this party."""
        served = self.served
        return program.program(party, *served.begin(shares), steps=served.steps, outputs=served.outputs)


def _shown(shapes: tuple[Shape, ...]) -> str:
    return " and ".join(str(tuple(shape)) for shape in shapes) or "nothing"


# --- what the owner asks for ----------------------------------------------------------------------------------


def endpoint_of(worker: Any, name: Any) -> Endpoint:
    """Return an endpoint of a worker."""
    found = _endpoints.get(worker, {}).get(name) if type(name) is str else None
    if found is None or found.is_over:
        raise ProtocolError("No model is served here under this name.")
    return found


def _own(worker: Any, session: Session, name: Any) -> Endpoint:
    """Return an endpoint that a client opened; nobody else has a say in it."""
    endpoint = endpoint_of(worker, name)
    if endpoint.owner is not session:
        raise ProtocolError("No model is served here under this name.")
    return endpoint


def _open(worker: Any, session: Session, *args: Any) -> None:
    """Open an endpoint: its name, what it runs (steps, outputs, given, inputs), parties, provider, and a limit."""
    if len(args) != 8 or session not in worker._sessions:
        raise CommandNotAllowed("Serving this")
    name, steps, outputs, given, inputs, parties, provider, limit = args
    _check_name(name)
    check_places(parties, provider)
    if worker.id not in parties:
        raise ProtocolError(f"Worker {worker.id!r} is not one of the parties of this endpoint.")
    if not _is_requests(limit) or type(inputs) is not tuple:
        raise ProtocolError("An endpoint takes the shapes of its inputs, and how many requests it answers.")
    if type(given) is tuple:  # as they are now: what is written to a share later does not change what is served
        given = tuple(item.clone() if isinstance(item, torch.Tensor) else item for item in given)
    served = Served(steps, outputs, given, inputs)
    served.check(len(parties))
    endpoint = Endpoint(session, name, served, parties, provider, limit)
    with _lock:
        mine = _endpoints.setdefault(worker, {})
        for over in [key for key, other in mine.items() if other.is_over]:
            del mine[over]
        if name in mine or len(mine) >= MAX_ENDPOINTS:
            raise ProtocolError("A model is served under this name already, or too many are.")
        mine[name] = endpoint


def _check_name(name: Any) -> None:
    if type(name) is not str or len(name) != 32 or not set(name) <= set("0123456789abcdef"):
        raise ProtocolError("The name of an endpoint has 32 hexadecimal digits.")


def check_places(parties: Any, provider: Any) -> None:
    """Raise unless parties and dealer can be those of a served program."""
    if type(parties) is not tuple or not all(map(is_id, parties)) or len(set(parties)) != len(parties):
        raise ProtocolError("The parties of an endpoint are different workers, by id.")
    if not 2 <= len(parties) <= MAX_PARTIES:
        raise ProtocolError(f"A served program has from 2 to {MAX_PARTIES} parties.")
    if provider is not None and not is_id(provider):
        raise ProtocolError("The dealer of an endpoint is named by its id.")


def _is_requests(number: Any) -> bool:
    return number is None or (type(number) is int and number >= 0)


def _invite(worker: Any, session: Session, name: Any, guest: Any, requests: Any) -> None:
    """Let a guest ask an endpoint."""
    if not is_id(guest) or not _is_requests(requests):
        raise ProtocolError("A guest has an id, and a number of requests.")
    _own(worker, session, name).invite(guest, requests)


def _revoke(worker: Any, session: Session, name: Any, guest: Any) -> None:
    """Let a guest ask no more."""
    if is_id(guest):
        _own(worker, session, name).revoke(guest)


def _left(worker: Any, session: Session, name: Any, guest: Any) -> int:
    """Say how many requests a guest has left (-1: any number)."""
    left = _own(worker, session, name).left(guest) if is_id(guest) else 0
    return -1 if left is None else left


def _close(worker: Any, session: Session, name: Any) -> None:
    """Close an endpoint."""
    endpoint = _own(worker, session, name)
    with _lock:
        _endpoints[worker].pop(name, None)
    endpoint.close()


WORKER_COMMANDS.update({OPEN: _open, INVITE: _invite, REVOKE: _revoke, LEFT: _left, CLOSE: _close})
