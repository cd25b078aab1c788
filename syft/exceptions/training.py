"""Errors of training at workers and of federated runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syft.exceptions.base import SyftError

if TYPE_CHECKING:
    from syft.federated.server.run import Result


class TrainingError(SyftError, ValueError):
    """A worker can't train: a config, a data set or a part of one is missing or does not fit."""

    code = "SY601"


class StateLostError(TrainingError):
    """A client no longer has its state of an earlier round of a federated run, for example after a restart."""

    code = "SY602"


class ClientBusyError(TrainingError):
    """A client still computes an earlier call of the same federated run."""

    code = "SY603"


class FederatedError(SyftError):
    """A federated run can't go on: too few clients answered, or a checkpoint is of another run.

    Attributes:
        result: the `Result` of the rounds that are complete, if the run failed after its first round; else None.
    """

    code = "SY604"

    result: Result | None = None
