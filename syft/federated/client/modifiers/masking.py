"""Masking: the client's result leaves as one masked vector, of which the server learns only the sum."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from syft.exceptions import TrainingError
from syft.federated.client.modifiers.modifier import Modifier
from syft.federated.client.secure_aggregation.packing import Packing, check_range
from syft.federated.client.secure_aggregation.participant import Masked
from syft.federated.client.secure_aggregation.transcript import context_of

if TYPE_CHECKING:
    from syft.federated.client.local_round import LocalRound

_NAMES = {"round", "sealed", "weighted", "extras", "max_update", "max_samples"}


class Masking(Modifier):
    """Masks the update, the number of samples, the loss and the extra vectors.

    Args:
        settings: round, sealed (the shares of others), weighted, extras (names of vectors in the result), max_update
            and max_samples.
    """

    name: ClassVar[str] = "masking"
    order: ClassVar[int] = 100

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__(settings)
        if settings.keys() != _NAMES:
            raise TrainingError(f"The modifier 'masking' needs the settings {', '.join(sorted(_NAMES))}.")
        extras = settings["extras"]
        if type(settings["weighted"]) is not bool:
            raise TrainingError("weighted of the modifier 'masking' must be True or False.")
        if type(extras) not in (list, tuple) or len(extras) > 16 or not all(type(name) is str for name in extras):
            raise TrainingError("extras of the modifier 'masking' must be a list of at most 16 names.")
        check_range(settings["max_update"], settings["max_samples"])
        self._extras = list(extras)
        self._member: Masked
        self._context = b""
        self._report: tuple[str, ...] = ()

    def begin(self, work: LocalRound) -> None:
        """Open the shares of the other clients. If something is wrong, this client does not train."""
        if self.settings["round"] != work.round:
            raise TrainingError("The masks of this client are for another round than the one to train in.")
        self._report = _report_of(work)
        client = work.client
        self._member = Masked(client.memory, client.run, work.round, self.settings["sealed"])
        self._context = context_of(work)

    def finish(self, work: LocalRound) -> None:
        """Replace the whole result by the masked vector."""
        vectors = [self._vector(work, name) for name in self._extras]
        loss = (work.answer.get("metrics") or {}).get("loss")
        if loss is not None and not math.isfinite(loss):
            raise TrainingError("The loss of this client is not finite. Try a smaller learning rate.")
        packing = Packing(
            len(self._member.participants), work.layout.size, [vector.numel() for vector in vectors],
            self.settings["weighted"], self.settings["max_update"], self.settings["max_samples"],
        )  # fmt: skip
        packed = packing.pack(work.update, work.samples, loss, vectors)
        work.update = self._member.mask(packed, self._context)
        # Nothing else may leave: even the number of steps reveals the number of samples.
        kept = {name: work.answer[name] for name in self._report if name in work.answer}
        work.answer.clear()
        work.answer.update(kept)
        work.answer.update(update=work.update, context=self._context)

    def _vector(self, work: LocalRound, name: str) -> torch.Tensor:
        vector = work.answer.get(name)
        if type(vector) is not torch.Tensor or vector.shape != (work.layout.parameters,):
            raise TrainingError(f"No modifier of this round returns the vector {name[:50]!r} to mask.")
        return vector


def _report_of(work: LocalRound) -> tuple[str, ...]:
    """Return the names of results that leave unmasked: the privacy loss, if it reveals nothing of the data."""
    private = [each for each in work.modifiers if each.name == "dp_sgd"]
    if any(each.settings.get("rate") is None for each in private):
        raise TrainingError(
            "The privacy loss of private training reveals the number of samples, unless the rate is given. With secure "
            "aggregation use SamplePrivacy(rate=...)."
        )
    return ("privacy",) if private else ()
