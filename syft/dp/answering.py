"""How a worker answers a question about private data: check the form, charge, compute, in this order."""

from __future__ import annotations

import logging
from typing import Any

import torch

from syft.core.id_provider import is_id
from syft.dp.statistics import QUESTIONS, Question
from syft.dp.tables import Form
from syft.exceptions import NotPermittedError, PrivacyError
from syft.workers.policy import ALLOW_ALL, charge, check_release, may_leave
from syft.workers.provenance import Source, rights_of, source_of
from syft.workers.session import Session
from syft.workers.trainer import trainer_of
from syft.workers.training import AS_TENSORS
from syft.workers.visibility import find

logger = logging.getLogger("syft.dp")
PARTS = {"data": 0, "targets": 1}


def answer(worker: Any, session: Session, kind: Any = None, data: Any = None, **settings: Any) -> Any:
    """Answer a question of a client.

    What is refused is refused by names, numbers, shapes and types; values of the data decide nothing but the answer.

    Args:
        worker: the worker that holds the data.
        session: who asks.
        kind: which question, see `QUESTIONS`.
        data: ("object", id), or ("dataset", key, "data" or "targets").
        **settings: the arguments of the question.
    """
    asked = QUESTIONS.get(kind) if type(kind) is str else None
    if asked is None or settings.keys() != asked.names:
        raise PrivacyError(f"One can ask for: {', '.join(QUESTIONS)}; each has arguments of its own.")
    tensor, obj_id, sources = _find(worker, session, data)
    question = asked(Form.of(tensor), **settings)
    if worker.policy is not ALLOW_ALL:
        _pay(worker, session, question, f"dp.{kind}", tensor, obj_id, sources)
    return compute(question, tensor)


def compute(question: Question, tensor: torch.Tensor) -> Any:
    """Answer a question, without saying why if that can't be done: the reason may be in the values."""
    try:
        with torch.no_grad():
            return question.answer(tensor)
    except Exception as error:
        logger.error("A question could not be answered: %s", type(error).__name__)
        raise PrivacyError("This question could not be answered; the worker keeps the details.") from None


def _find(worker: Any, session: Session, data: Any) -> tuple[Any, Any, frozenset[Source]]:
    """Return what is asked about, its id, and what it derives from where a policy holds."""
    is_open = worker.policy is ALLOW_ALL
    match data if type(data) is tuple else ():
        case ("object", obj_id) if is_id(obj_id):
            obj = find(worker, session, obj_id)
            return obj, obj_id, frozenset() if is_open else rights_of(worker, obj_id, obj).sources
        case ("dataset", str() as key, str() as part) if part in PARTS:
            trainer = trainer_of(worker)
            dataset = trainer.dataset(key)
            as_tensors = AS_TENSORS.get(type(dataset))
            pair = None if as_tensors is None else as_tensors(dataset)
            if pair is None:
                raise PrivacyError("Questions are about data sets that are made of tensors.")
            return pair[PARTS[part]], None, frozenset() if is_open else trainer._dataset_sources(key)
    raise PrivacyError("Questions are about a pointer, or sy.dp.dataset(worker, key).")


def _pay(
    worker: Any, session: Session, question: Question, what: str, obj: Any, obj_id: Any, sources: frozenset[Source]
) -> None:
    """Charge for an answer, unless the data may leave anyway; raise if it neither may nor is paid for."""
    derived = obj_id is not None and source_of(worker, obj_id, obj) is None
    if derived and not may_leave(worker, session, obj, what, obj_id=obj_id, sources=sources):
        raise NotPermittedError(
            "This is computed from published data, or was not published, so nobody knows whose its rows are. Ask about "
            "the published data itself, or have this result released: ptr.request(reason=...)."
        )
    paid = frozenset() if derived else charge(worker, session, sources, question.event, what)
    if not sources <= paid:
        check_release(worker, session, obj, what, obj_id=obj_id, sources=sources - paid)
