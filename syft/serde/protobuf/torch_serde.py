"""Tensors as TensorData messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from syft.exceptions import SerdeError
from syft.serde.msgpack.serde import _detail, _simplify
from syft.serde.msgpack.torch_serde import raw_tensor_deserializer, raw_tensor_serializer
from syft.serde.protobuf.engine import Reader, Writer
from syft.serde.protobuf.envelope import checked
from syft.serde.protobuf.fields import group
from syft.serde.protobuf.schema import syft_pb2

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from syft.workers.base import BaseWorker

_pb: Any = syft_pb2
_TENSOR_DATA = group(_pb.TensorData.DESCRIPTOR, frozenset())


def protobuf_tensor_serializer(worker: BaseWorker | None, tensor: torch.Tensor) -> Any:
    """Write the values of a tensor as a TensorData message.

    Args:
        worker: the worker that sends it.
        tensor: a dense tensor of any serializable dtype.
    """
    message = _pb.TensorData()
    _TENSOR_DATA.write(Writer(None), message, _simplify(worker, raw_tensor_serializer(worker, tensor)), 0)
    return message


def protobuf_tensor_deserializer(worker: BaseWorker | None, protobuf_tensor: Message) -> torch.Tensor:
    """Read the values in a TensorData message.

    Args:
        worker: the worker that receives it.
        protobuf_tensor: the message.
    """
    if not isinstance(protobuf_tensor, _pb.TensorData):
        raise SerdeError(f"A TensorData message is needed, got {type(protobuf_tensor).__name__}.")
    value = _TENSOR_DATA.read(Reader([]), checked(protobuf_tensor), 0)
    return raw_tensor_deserializer(worker, _detail(worker, value))
