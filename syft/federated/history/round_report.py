"""RoundReport: what a callback or a logger receives after each round; Stop: how it ends the run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType

from syft.federated.history.records import MAX_REASON, RoundRecord
from syft.federated.history.round_outcome import RoundOutcome, shortened


class Stop(Exception):  # a signal like StopIteration, not an error
    """Ends a run after the round that is complete, with everything kept. Return or raise it in a callback.

    Args:
        reason: the text of `result.ending`.

    Example:
        >>> import syft as sy
        >>> on_round = lambda report: sy.federated.Stop("the loss is small enough") if report.loss < 0.1 else None
    """

    def __init__(self, reason: str = "a callback stopped it") -> None:
        super().__init__(reason)


@dataclasses.dataclass(frozen=True, slots=True)
class RoundReport:
    """One complete round, as passed to `on_round` and to loggers.

    Attributes:
        number: 1 for the first round.
        rounds: the number of rounds that the run was asked for.
        loss: the mean training loss of the clients; None if no client reported one.
        metrics: the results of `evaluate` after the round, numbers by name.
        asked: number of clients that were called.
        answered: the names of the clients whose results count.
        failed: the reasons why the others do not, by name.
        bytes_out: bytes sent to clients.
        bytes_in: bytes received.
        seconds: duration of the round.
        epsilon: the privacy loss so far; None if it is not tracked.
        epsilons: the privacy loss so far by neighbouring relation.
        record: the record of the round in the history.
    """

    number: int
    rounds: int
    loss: float | None
    metrics: Mapping[str, float]
    asked: int
    answered: tuple[str, ...]
    failed: Mapping[str, str]
    bytes_out: int
    bytes_in: int
    seconds: float
    epsilon: float | None
    epsilons: Mapping[str, float]
    record: RoundRecord = dataclasses.field(repr=False)

    @property
    def may_stop(self) -> bool:
        """Whether rounds are left that a `Stop` would omit."""
        return self.number < self.rounds


def report_of(record: RoundRecord, rounds: int, outcome: RoundOutcome, epsilons: Mapping[str, float]) -> RoundReport:
    """Return the report of a complete round."""
    return RoundReport(
        number=record.number,
        rounds=rounds,
        loss=record.loss,
        metrics=MappingProxyType(dict(record.metrics)),
        asked=record.asked,
        answered=tuple(outcome.counted),
        failed=MappingProxyType({name: shortened(why, MAX_REASON) for name, why in outcome.failed.items()}),
        bytes_out=record.bytes_out,
        bytes_in=record.bytes_in,
        seconds=record.seconds,
        epsilon=record.epsilon,
        epsilons=MappingProxyType(dict(epsilons)),
        record=record,
    )
