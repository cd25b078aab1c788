"""The typed messages of the schema, by wire code, derived from the fields of Value.kind.

An entry of LAYOUTS is needed only if the fields of a message are not the parts of `simplify` in order.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from syft.codes import TENSOR_SERIALIZATION
from syft.exceptions import SerdeError
from syft.serde.protobuf.fields import Field, fields_of
from syft.serde.protobuf.schema import syft_pb2
from syft.serde.registry import RegisteredType

if TYPE_CHECKING:
    import torch
    from google.protobuf.message import Message

    from syft.workers.base import BaseWorker

_pb: Any = syft_pb2
OFFSET = 20  # the number of a typed kind is its wire code plus this
RAW = TENSOR_SERIALIZATION.RAW

Parts = tuple[Any, ...]


class MessageLayout(NamedTuple):
    """Splits an object into the fields of its message, and the inverse; both get the entry of the type first."""

    split: Any  # (row, worker, obj) -> parts
    join: Any  # (row, worker, parts) -> obj


class MessageKind(NamedTuple):
    """One typed message: its wire code, its name in Value.kind, its class, its fields and its layout."""

    code: int
    name: str
    message: Any
    fields: tuple[Field, ...]
    layout: MessageLayout


def _split(row: RegisteredType, worker: BaseWorker | None, obj: object) -> Parts:
    parts = row.simplify(worker, obj)
    if type(parts) is not tuple:
        raise SerdeError(f"simplify of {row.cls.__name__} returned {type(parts).__name__}, not a tuple.")
    return parts


def _join(row: RegisteredType, worker: BaseWorker | None, parts: Parts) -> Any:
    return row.detail(worker, parts)


PLAIN = MessageLayout(_split, _join)


def _split_dict(row: RegisteredType, worker: BaseWorker | None, obj: dict[Any, Any]) -> Parts:
    return tuple(obj), tuple(obj.values())


def _join_dict(row: RegisteredType, worker: BaseWorker | None, parts: Parts) -> Any:
    keys, values = parts
    return row.detail(worker, tuple(chain.from_iterable(zip(keys, values, strict=True))))


def _split_tensor(row: RegisteredType, worker: BaseWorker | None, tensor: torch.Tensor) -> Parts:
    obj_id, values, _, grad, tags, description, name, *more = _split(row, worker, tensor)
    contents = (values, None) if name == RAW else (None, values)
    return (obj_id, *contents, grad, tags, description, name, bool(more))


def _join_tensor(row: RegisteredType, worker: BaseWorker | None, parts: Parts) -> Any:
    obj_id, data, other, grad, tags, description, name, requires_grad = parts
    if (data is None) is (name == RAW) or (other is not None and name == RAW):
        raise SerdeError("The message holds a tensor whose values are not in the format it names.")
    more = (True,) if requires_grad else ()
    return row.detail(worker, (obj_id, data if name == RAW else other, None, grad, tags, description, name, *more))


def _split_operation(row: RegisteredType, worker: BaseWorker | None, message: Message) -> Parts:
    return message.cmd_name, message.cmd_args, message.cmd_kwargs, message.return_ids, message.grad_enabled


LAYOUTS: dict[str, MessageLayout] = {
    "dict": MessageLayout(_split_dict, _join_dict),
    "tensor": MessageLayout(_split_tensor, _join_tensor),
    "operation": MessageLayout(_split_operation, _join),
}


def _kinds() -> dict[str, MessageKind]:
    found = [field for field in _pb.Value.DESCRIPTOR.fields if field.number > OFFSET]
    typed = frozenset(field.message_type.name for field in found)
    fields = {field.message_type.name: fields_of(field.message_type, typed) for field in found}
    return {
        field.name: MessageKind(
            field.number - OFFSET,
            field.name,
            getattr(_pb, field.message_type.name),
            fields[field.message_type.name],
            LAYOUTS.get(field.name, PLAIN),
        )
        for field in found
    }


BY_NAME: dict[str, MessageKind] = _kinds()
KINDS: dict[int, MessageKind] = {kind.code: kind for kind in BY_NAME.values()}
# For fields of other messages, which have no code: only messages of a single type occur there.
BY_MESSAGE: dict[str, MessageKind] = {kind.message.DESCRIPTOR.name: kind for kind in reversed(BY_NAME.values())}
