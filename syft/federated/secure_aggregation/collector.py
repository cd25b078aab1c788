"""SecureCollector: the server side of secure aggregation. It relays messages, counts clients and adds up."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch

from syft.exceptions import FederatedError, TrainingError
from syft.federated.client.secure_aggregation.packing import Packing
from syft.federated.client.secure_aggregation.participant import CONFIRMATION_BYTES, SEALED_BYTES
from syft.federated.client.secure_aggregation.participants import (
    ENTRY_BYTES,
    MAX_CLIENTS,
    SIGNED_BYTES,
    Participants,
    by_index,
)
from syft.federated.client.secure_aggregation.shamir import SHARE_BYTES
from syft.federated.secure_aggregation.step_broadcast import StepBroadcast
from syft.federated.secure_aggregation.unmasking import Unmasking
from syft.federated.server.aggregation import Aggregation
from syft.federated.strategies.strategy import Round, Strategy, Total

if TYPE_CHECKING:
    from syft.federated.secure_aggregation.settings import SecureAggregation

_DIGEST_BYTES = 32
_STRAY = "Client {!r:.50} received a different training request than the others, so its masks do not cancel."


@dataclasses.dataclass(slots=True)
class _Heap:
    """The sum of masked results with the same context, and their clients."""

    sum: torch.Tensor
    clients: list[str] = dataclasses.field(default_factory=list)


class SecureCollector(Aggregation):
    """Collects masked results and learns their sum.

    A round is: keys and shares of all clients in `begin`, masked vectors in `add`, and unmasking in `finish`. It
    ends with the sum over the survivors, or with an error; never with another sum.

    Clients of which the request differed from that of most are `refused`; `metrics` are "loss" and "samples".

    Args:
        settings: the settings.
        run: the id of the run.
    """

    def __init__(self, settings: SecureAggregation, run: str) -> None:
        super().__init__()
        self.settings, self.run = settings, run
        self.least = settings.min_clients
        self._steps: StepBroadcast
        self._round: Round
        self._strategy: Strategy
        self._participants: Participants
        self._packing: Packing
        self._indices: dict[str, int] = {}
        self._commitments: dict[int, bytes] = {}
        # Results masked under the same context, by context. At most one of them reaches the threshold.
        self._heaps: dict[bytes, _Heap] = {}
        self._answered: list[str] = []
        self._is_open = False

    def left(self, count: int) -> int:
        """Return the minimum number of clients at the end of a round that started with `count`."""
        return self.settings.threshold_of(count)

    # --- start of a round: keys and shares ----------------------------------------------------------------------

    def begin(self, round: Round, clients: Mapping[str, Any], strategy: Strategy) -> dict[str, dict[str, Any]]:
        """Start a round: clients make keys, and exchange shares of their secrets."""
        if not strategy.is_linear:
            raise TrainingError(
                f"{strategy!r} needs each client's update, but secure aggregation reveals only their sum. Omit "
                "secure, or use a strategy based on means, such as FedAvg."
            )
        if len(clients) > MAX_CLIENTS:
            raise FederatedError(
                f"Secure aggregation supports at most {MAX_CLIENTS} clients in a round, got {len(clients)}. Each sends "
                "a message to each other. Choose fewer with clients_per_round."
            )
        self._round, self._strategy = round, strategy
        self.traffic.begin()
        self._steps, self.metrics = StepBroadcast(self.run, clients, self.settings.timeout, self.traffic), {}
        self.left_out = self._steps.left_out
        self._heaps, self._answered, self.refused, self._is_open = {}, [], {}, False
        self._meet(clients)
        sealed = self._exchange()
        self._is_open = True
        return {
            name: {"masking": self._term(sealed, index)} for name, index in self._indices.items() if index in sealed
        }

    def _meet(self, clients: Mapping[str, Any]) -> None:
        """Collect the keys of the clients and make the list of participants."""
        found = self._steps.ask(
            "secure.keys",
            {name: {"round": self._round.number} for name in clients},
            _bytes("keys", ENTRY_BYTES, SIGNED_BYTES),
        )
        count = len(found)
        if count < self.settings.min_clients:
            raise FederatedError(
                f"{count} clients are available for a round of secure aggregation, but it needs "
                f"{self.settings.min_clients}.{self._steps.reasons()}"
            )
        threshold = self.settings.threshold_of(count)
        try:
            self._participants = Participants(self.run, self._round.number, threshold, list(found.values()))
        except TrainingError as error:
            raise FederatedError(str(error)) from None
        layout, strategy = self._round.layout, self._strategy
        self._indices = {name: index for index, name in enumerate(found)}
        self._packing = Packing(
            count, layout.size, [layout.parameters] * len(strategy.extras), strategy.weighted,
            self.settings.max_update, self.settings.max_samples,
        )  # fmt: skip

    def _exchange(self) -> dict[int, tuple[bytes, ...]]:
        """Collect the sealed shares of the clients, by the sender's index."""
        count = len(self._participants)
        payload = {
            "round": self._round.number,
            "entries": list(self._participants.entries),
            "threshold": self._participants.threshold,
        }

        def check(answer: Any) -> tuple[tuple[bytes, ...], bytes]:
            promise: bytes = _bytes("commitment", _DIGEST_BYTES)(answer)
            return by_index(answer.get("sealed"), count, SEALED_BYTES), promise

        found = self._steps.ask("secure.shares", dict.fromkeys(self._indices, payload), check)
        self._require(len(found), "sent their shares")
        self._commitments = {self._indices[name]: promise for name, (_, promise) in found.items()}
        return {self._indices[name]: parts for name, (parts, _) in found.items()}

    def _term(self, sealed: dict[int, tuple[bytes, ...]], index: int) -> dict[str, Any]:
        """Return the settings of a client's "masking" modifier."""
        return {
            "round": self._round.number,
            "sealed": [
                sealed[other][index] if other in sealed and other != index else b""
                for other in range(len(self._participants))
            ],
            "weighted": self._strategy.weighted,
            "extras": list(self._strategy.extras),
            "max_update": float(self.settings.max_update),
            "max_samples": self.settings.max_samples,
        }

    def _require(self, count: int, what: str) -> None:
        if count < self._participants.threshold:
            raise FederatedError(
                f"{count} of {len(self._participants)} clients {what}, but secure aggregation needs "
                f"{self._participants.threshold} to unmask their sum.{self._steps.reasons()}"
            )

    # --- masked results -------------------------------------------------------------------------------------------

    def add(self, client: str, result: object) -> None:
        """Add the masked result of a client to the sum; ignored once unmasking has started."""
        if not self._is_open:
            return
        if self._indices.get(client) not in self._commitments or client in self._answered:
            raise FederatedError(f"A result of client {client!r:.50} is not expected.")
        vector = result.get("update") if isinstance(result, dict) else None
        if type(vector) is not torch.Tensor or vector.dtype != torch.int64 or vector.shape != (self._packing.words,):
            raise FederatedError(f"Client {client!r:.50} did not return one masked vector.")
        context = _bytes("context", _DIGEST_BYTES)(result)
        heap = self._heaps.get(context)
        if heap is None:
            if any(len(other.clients) >= self._participants.threshold for other in self._heaps.values()):
                raise FederatedError(_STRAY.format(client))
            heap = self._heaps[context] = _Heap(torch.zeros(self._packing.words, dtype=torch.int64))
        heap.sum += vector
        heap.clients.append(client)
        self._answered.append(client)

    # --- end of a round -------------------------------------------------------------------------------------------

    def finish(self, least: int = 1) -> Total:
        """Unmask the sum over the survivors that received the most common request."""
        if not self._is_open:
            raise FederatedError("No round has started. Call begin() first.")
        self._is_open = False
        context, total = self._largest()
        self._require(len(self._answered), "sent a masked result")
        if len(self._answered) < least:  # before unmasking: a discarded sum would also reveal something
            raise FederatedError(
                f"{len(self._answered)} clients can be counted, but at least {least} are needed.{self._steps.reasons()}"
            )
        survivors = sorted(self._indices[name] for name in self._answered)
        shares = self._gather(survivors)
        Unmasking(self._participants, sorted(self._commitments), survivors, self._commitments, shares).take_off(
            total, context
        )
        return self._total(total)

    def _largest(self) -> tuple[bytes, torch.Tensor]:
        """Return the most common context and the sum under it; the other clients count as dropped out."""
        heaps, self._heaps = self._heaps, {}
        if not heaps:
            return b"", torch.zeros(0, dtype=torch.int64)
        context = max(heaps, key=lambda one: len(heaps[one].clients))
        chosen = heaps.pop(context)
        self.refused = {name: _STRAY.format(name) for heap in heaps.values() for name in heap.clients}
        self.left_out.update(self.refused)
        self._answered = chosen.clients
        return context, chosen.sum

    def _gather(self, survivors: list[int]) -> dict[int, tuple[bytes, ...]]:
        """Let the survivors agree on the list of survivors, and return their shares by index."""
        count, number = len(self._participants), self._round.number
        names = {self._indices[name]: name for name in self._answered}
        asked = {names[index]: {"round": number, "survivors": survivors} for index in survivors}
        confirmations = self._steps.ask(
            "secure.agree", asked, lambda a: by_index(a.get("vows"), count, CONFIRMATION_BYTES)
        )
        self._require(len(confirmations), "agreed on the survivors")
        by_sender = {self._indices[name]: given for name, given in confirmations.items()}
        asked = {
            name: {
                "round": number,
                "vows": [
                    by_sender[other][index] if other in by_sender and other != index else b"" for other in range(count)
                ],
            }
            for name, index in ((name, self._indices[name]) for name in confirmations)
        }
        found = self._steps.ask("secure.unmask", asked, lambda a: by_index(a.get("shares"), count, SHARE_BYTES))
        self._require(len(found), "helped to unmask")
        return {self._indices[name]: given for name, given in found.items()}

    def _total(self, total: torch.Tensor) -> Total:
        """Return the decoded total."""
        sums = self._packing.unpack(total)
        if sums.count != len(self._answered) or sums.samples < 0:
            raise FederatedError("The masked results do not add up: a client masked its result incorrectly.")
        weight = float(sums.samples if self._strategy.weighted else sums.count)
        if weight <= 0:
            raise FederatedError("No client with samples answered, so there is no mean.")
        self.metrics = {"samples": sums.samples}
        if sums.loss is not None:
            self.metrics["loss"] = sums.loss
        extras = {name: vector / sums.count for name, vector in zip(self._strategy.extras, sums.extras, strict=True)}
        return Total(sums.update / weight, weight, sums.count, extras)


def _bytes(name: str, *lengths: int) -> Callable[[Any], Any]:
    """Return a function that reads bytes of one of the given lengths from a response."""

    def take(answer: object) -> bytes:
        found = answer.get(name) if isinstance(answer, dict) else None
        if type(found) is not bytes or len(found) not in lengths:
            raise FederatedError(f"The response has no {name} of {lengths[0]} bytes.")
        return found

    return take
