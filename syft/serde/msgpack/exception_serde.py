"""Codecs of the errors that are answers. Rebuilding one raises it, as reading such an answer did in 0.2."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from syft.core.id_provider import is_id
from syft.exceptions import GetNotPermittedError, ResponseSignatureError, SerdeError
from syft.serde.registry import TypeCodec

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

Parts = tuple[Any, ...]
MAX_CHARS = 20_000


def _simplify_refusal(worker: BaseWorker | None, error: GetNotPermittedError) -> Parts:
    return (str(error)[:MAX_CHARS].encode("utf-8", "backslashreplace").decode("utf-8"),)


def _detail_refusal(worker: BaseWorker | None, parts: Parts) -> NoReturn:
    (text,) = parts
    if type(text) is not str or len(text) > MAX_CHARS:
        raise SerdeError("The message holds an error without a text.")
    raise GetNotPermittedError(text)


def _simplify_signature(worker: BaseWorker | None, error: ResponseSignatureError) -> Parts:
    ids = error.ids_generated
    return (tuple(ids) if isinstance(ids, list | tuple | set) else ids,)


def _detail_signature(worker: BaseWorker | None, parts: Parts) -> NoReturn:
    (ids,) = parts
    if not (ids is None or is_id(ids) or (type(ids) is tuple and all(map(is_id, ids)))):
        raise SerdeError("The message holds an error whose ids are not ids.")
    raise ResponseSignatureError(ids)


CODECS: dict[type, TypeCodec] = {
    GetNotPermittedError: TypeCodec(_simplify_refusal, _detail_refusal),
    ResponseSignatureError: TypeCodec(_simplify_signature, _detail_signature),
}
