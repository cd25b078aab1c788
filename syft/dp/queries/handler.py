"""The handler of a query at a worker: validate the query, check the policy, compute, in this order."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import torch

from syft.core.id_provider import is_id
from syft.dp.queries.estimators import QUESTIONS, Question
from syft.dp.queries.table_view import TableFormat
from syft.exceptions import PrivacyError
from syft.federated.client.fit_service import trainer_of
from syft.federated.client.stored_dataset import DATASET
from syft.federated.client.training_loop import tensors_of
from syft.workers.access.policy import check_release
from syft.workers.execution.session import Session

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

logger = logging.getLogger("syft.dp")
PARTS = {"data": 0, "targets": 1}


def answer(worker: BaseWorker, session: Session, kind: object = None, data: object = None, **settings: object) -> Any:
    """Handle a query of a client about ("object", id), or ("dataset", key, "data" or "targets").

    Refusals depend on names, numbers, shapes and types; values of the data affect nothing but the result.
    """
    asked = QUESTIONS.get(kind) if type(kind) is str else None
    if asked is None or settings.keys() != asked.names:
        raise PrivacyError(f"The query must be one of {', '.join(QUESTIONS)}, with its own arguments.")
    tensor, obj_id = _find(worker, data)
    question = asked(TableFormat.of(tensor), **settings)
    check_release(worker, session, tensor, f"dp.{kind}", obj_id=obj_id)
    return compute(question, tensor)


def compute(question: Question, tensor: torch.Tensor) -> Any:
    """Compute a query. Errors hide their reason, which may depend on the values."""
    try:
        with torch.no_grad():
            return question.answer(tensor)
    except Exception as error:
        logger.error("A query failed: %s", type(error).__name__)
        raise PrivacyError("The query failed. The worker does not release the details.") from None


def _find(worker: BaseWorker, data: object) -> tuple[Any, Any]:
    """Return the tensor of a query, and the id of the object or the data set."""
    match data if type(data) is tuple else ():
        case ("object", obj_id) if is_id(obj_id):
            return worker.object_store.get(obj_id), obj_id
        case ("dataset", str() as key, str() as part) if part in PARTS:
            dataset = trainer_of(worker).dataset(key)
            pair = tensors_of(dataset)
            if pair is None:
                raise PrivacyError("Queries need a data set that consists of tensors.")
            return pair[PARTS[part]], f"{DATASET}{key}"
    raise PrivacyError("Queries need a pointer, or sy.dp.dataset(worker, key).")
