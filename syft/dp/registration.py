"""Registers differential privacy with the layers below: the query command of workers, and private training at clients.

The implementations are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syft.dp.queries import QUERY
from syft.federated.client.dp_training import DP_SGD, PRIVATE_TRAININGS
from syft.workers.execution.execute import WORKER_COMMANDS

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker
    from syft.workers.execution.session import Session


def _answer_query(worker: BaseWorker, session: Session, *args: object, **settings: object) -> Any:
    from syft.dp.queries.handler import answer

    return answer(worker, session, *args, **settings)


def _private_training(*args: Any) -> Any:
    from syft.dp.training.dp_sgd import PrivateTraining

    return PrivateTraining(*args)


WORKER_COMMANDS[QUERY] = _answer_query
PRIVATE_TRAININGS[DP_SGD] = _private_training
