"""SharedProgram: a fixed program with one party's shares of a model, to which clients add shares of their inputs.

Endpoints of invited clients (`endpoint`) and hosted encrypted models (`server`) both run one. No client can name the
model's shares in a run of another program: the shares are in no object store under an id of their own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeGuard

import torch

from syft.core.id_provider import ObjectId, is_id
from syft.exceptions import ProtocolError, SyftError
from syft.messaging.message import RunMessage
from syft.mpc.dealer.wire_protocol import digest
from syft.mpc.protocols import program
from syft.mpc.runtime.party import MAX_PARTIES, Party, PartyCoroutine
from syft.mpc.runtime.protocol_registry import entry_of
from syft.mpc.runtime.rendezvous import Finish
from syft.mpc.runtime.worker import join_run
from syft.workers.execution.session import Session

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

Shape = tuple[int, ...]
Shares = tuple[torch.Tensor, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class SharedProgram:
    """A program at one of its parties.

    Attributes:
        steps: the steps.
        outputs: the numbers of the values that are returned.
        given: the first values, in order: a fixed tensor, or the index of an input of the client.
        inputs: the shapes of the client's inputs.
        parties: the ids of the parties, in order.
        provider: the id of the dealer.
    """

    steps: tuple[Any, ...] = dataclasses.field(repr=False)
    outputs: tuple[int, ...]
    given: tuple[Any, ...] = dataclasses.field(repr=False)
    inputs: tuple[Shape, ...]
    parties: tuple[ObjectId, ...]
    provider: ObjectId | None

    def check(self) -> None:
        """Raise unless the program can be run: all that comes from the owner is checked before the first request."""
        check_parties(self.parties, self.provider)
        if type(self.given) is not tuple or not all(self._is_given(item) for item in self.given):
            raise ProtocolError("The first values of a served program are tensors and indices of inputs.")
        if not all(type(shape) is tuple and all(type(n) is int and n >= 0 for n in shape) for shape in self.inputs):
            raise ProtocolError("The input shapes of a served program are tuples of non-negative integers.")
        program.read(self.steps, self.outputs, len(self.given), len(self.parties))
        inputs = tuple([torch.empty(shape, dtype=torch.int64, device="meta") for shape in self.inputs])
        first = [torch.empty(item.shape, dtype=item.dtype, device="meta") for item in self._first_values(inputs)]
        entry_of(program.NAME).shape(*first, steps=self.steps, outputs=self.outputs)

    def _is_given(self, item: object) -> bool:
        return type(item) is torch.Tensor or (type(item) is int and 0 <= item < len(self.inputs))

    def _first_values(self, shares: Shares) -> list[torch.Tensor]:
        return [shares[item] if type(item) is int else item for item in self.given]

    def digest(self) -> str:
        """Return the digest of the program: equal at all parties, whose shares differ."""
        given = [item if type(item) is int else (tuple(item.shape), str(item.dtype)) for item in self.given]
        return digest(self.steps, self.outputs, given, self.inputs).hex()

    def check_shares(self, shares: tuple[object, ...], subject: str, error: type[SyftError]) -> Shares:
        """Return the shares of a client's inputs if they have the right dtype and shapes.

        Args:
            shares: the contents of the client's message.
            subject: the name of the model in errors.
            error: the class of the error.
        """
        checked = tuple([share for share in shares if is_share(share)])
        if len(checked) != len(shares):
            raise error(f"{subject} takes shares: tensors of int64.")
        shapes = tuple([tuple(share.shape) for share in checked])
        if shapes != self.inputs:
            raise error(f"{subject} takes {show_shapes(self.inputs)}, not {show_shapes(shapes[:8])}.")
        return checked

    def run(
        self,
        worker: BaseWorker,
        session: Session,
        message: RunMessage,
        shares: Shares,
        finish: Finish,
        subject: str,
        admit: Callable[[], None] | None = None,
        pins: Mapping[ObjectId, str] | None = None,
    ) -> None:
        """Run this party's part, together with the other parties.

        Args:
            worker: the party.
            session: the client's session.
            message: the run; its name, parties, dealer and options must be equal at every party.
            shares: this party's shares of the client's inputs.
            finish: stores the shares of the result.
            subject: the name of the model in errors.
            admit: raises if the request exceeds a limit; the other parties are then notified.
            pins: the key fingerprints of parties and dealer, by id; None: they are identified by id.
        """

        def start(party: Party) -> PartyCoroutine:
            return program.program(party, *self._first_values(shares), steps=self.steps, outputs=self.outputs)

        def prepare() -> tuple[Callable[[Party], PartyCoroutine], object]:
            if admit is not None:
                admit()
            return start, (message.name, message.parties, message.provider, message.options)

        seat = self.parties.index(worker.id), len(self.parties)
        join_run(worker, session, message, seat, prepare, finish, subject, pins)


def check_parties(parties: object, provider: object) -> None:
    """Raise unless these can be the parties and the dealer of a served program."""
    if type(parties) is not tuple or not all(map(is_id, parties)) or len(set(parties)) != len(parties):
        raise ProtocolError("The parties of a served program are the ids of different workers.")
    if not 2 <= len(parties) <= MAX_PARTIES:
        raise ProtocolError(f"A served program has 2 to {MAX_PARTIES} parties, got {len(parties)}.")
    if provider is not None and not is_id(provider):
        raise ProtocolError("The dealer of a served program is the id of a worker.")


def is_share(value: object) -> TypeGuard[torch.Tensor]:
    """Return whether a value from outside can be a share."""
    return type(value) is torch.Tensor and value.dtype is torch.int64


def show_shapes(shapes: Iterable[Shape]) -> str:
    """Return shapes as text for errors."""
    return " and ".join(str(tuple(shape)) for shape in shapes) or "nothing"
