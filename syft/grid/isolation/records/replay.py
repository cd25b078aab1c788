"""Execution of records: in a vault, and again in a program process, to verify that they give the same object.

A sealed copy has one canonical encoding, so two copies of the same values have the same bytes, and the supervisor can
compare them without reading either.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from syft.core.id_provider import ObjectId
from syft.core.labels import set_id
from syft.core.references import Ref
from syft.exceptions import CommandNotAllowedError, IdNotUniqueError, ObjectNotFoundError, SerdeError, SyftError
from syft.federated.client.federated_client import FederatedClient
from syft.grid.isolation.records.call_codec import kind_of, operation_of, read_blob
from syft.grid.isolation.records.effects import draws
from syft.grid.isolation.records.records import Blob, CallRecord, DeleteRecord, LoadRecord, PutRecord, Record
from syft.hook.syft_tensor import SyftTensor
from syft.messaging.message import Operation
from syft.messaging.mutation import alters
from syft.messaging.plan.display.code import code_of
from syft.messaging.plan.plan import Plan
from syft.messaging.plan.plan_hash import plan_hash
from syft.serde.msgpack.serde import serialize  # without ids: equal objects give equal bytes
from syft.serde.serde import deserialize
from syft.workers.base import BaseWorker
from syft.workers.execution.copies import copy_value
from syft.workers.execution.execute import WORKER_COMMANDS, execute
from syft.workers.execution.session import Session

# A command of vaults: stores a part of an object that moved, its gradient or a tensor of a plan's state by its index.
PART = "syft.vault_part"
# Maximum number of operations of a plan that are shown.
MAX_OPERATIONS = 1000
# Maximum number of objects of a sealed copy that are described.
MAX_SPECS = 50


def replay(records: Iterable[Record], ids: Sequence[ObjectId], datasets: Mapping[ObjectId, Any]) -> bytes:
    """Run records on a fresh worker and return the sealed copy of objects.

    Raises:
        ObjectNotFoundError: the records do not create the object.
        SyftError: a record failed, so the code of the slice does not describe the object.
    """
    runner = Runner(ConfinedWorker("replay"), datasets)
    for record in records:
        try:
            runner.run(record)
        except Exception as error:
            raise SyftError(f"A call fails when it is run again: {type(error).__name__}: {str(error)[:200]}") from None
    return seal_all([runner.get(obj_id) for obj_id in ids])


def seal_all(objects: Sequence[object]) -> bytes:
    """Return the canonical bytes of one object, or of several that are released together."""
    return seal(objects[0]) if len(objects) == 1 else serialize(tuple(map(_bare, objects)))


class ConfinedWorker(BaseWorker, FederatedClient):
    """The worker of a vault, a program or a replay."""

    takes_quantized_tensors = False
    serves_unknown_clients = False

    def __init__(self, id: ObjectId, trusts_script_modules: bool = False) -> None:
        super().__init__(None, id, auto_add=False)
        self.trusts_script_modules = trusts_script_modules

    def resolve(self, ref: Ref) -> Any:
        """Refuse pointers inside blobs: the history would not show the objects that a call reads through them."""
        raise SerdeError("A blob holds a pointer to an object of the vault; references belong in the record.")


class Runner:
    """Runs records on a worker, one after the other."""

    def __init__(self, worker: BaseWorker, datasets: Mapping[ObjectId, Any]) -> None:
        self.worker = worker
        self.session = worker.open_session("vault")
        self._datasets = datasets

    def run(self, record: Record) -> None:
        """Run a record."""
        if type(record) is CallRecord:
            self._call(operation_of(record, self.worker))
        elif type(record) is PutRecord:
            self._keep(record.obj_id, self._read(record.blob))
        elif type(record) is LoadRecord:
            if record.obj_id not in self._datasets:
                raise ObjectNotFoundError(record.obj_id, self.worker, "the data set was not passed to the replay.")
            self._keep(record.obj_id, copy_value(self._datasets[record.obj_id]))
        elif type(record) is DeleteRecord:
            for obj_id in record.ids:
                self.worker.object_store.remove(obj_id)

    def _call(self, operation: Operation) -> None:
        """Run a call; its results are stored under the ids that it names."""
        try:
            execute(self.worker, self.session, operation)
        except Exception as error:
            cause = f"{operation.cmd_name} failed: {type(error).__name__}: {str(error)[:500]}"
            for obj_id in operation.return_ids:
                self.worker.object_store.note_departure(obj_id, cause)
            raise

    def _read(self, blob: Blob) -> Any:
        return read_blob(blob, self.worker)

    def get(self, obj_id: ObjectId) -> Any:
        """Return an object."""
        return self.worker.object_store.get(obj_id)

    def _keep(self, obj_id: ObjectId, obj: object) -> None:
        if obj_id in self.worker.object_store.objects:
            raise IdNotUniqueError(f"The vault holds an object with id {obj_id!r} already.")
        set_id(obj, obj_id)
        self.worker.object_store.objects[obj_id] = obj


def _part(worker: BaseWorker, session: Session, whole: object, part: object) -> object:
    if part == "grad" and isinstance(whole, torch.Tensor):
        return whole.grad
    if isinstance(whole, Plan) and type(part) is int:
        return list(whole.state.tensors())[part]
    raise CommandNotAllowedError(PART)


WORKER_COMMANDS[PART] = _part


def seal(obj: object) -> bytes:
    """Return the canonical bytes of an object: values, dtype and shape; no id, tags, gradient, graph or strides.

    `syft.serde.deserialize` reads them. The state of a plan is part of it; its id and tags are not.
    """
    return serialize(_bare(obj))


def _bare(obj: object) -> object:
    """Return a tensor with its values only, a plan without labels, and any other object unchanged."""
    if isinstance(obj, Plan):
        return _bare_plan(obj)
    if isinstance(obj, SyftTensor) or not isinstance(obj, torch.Tensor):
        return obj
    values = obj.detach().clone(memory_format=torch.contiguous_format) if obj.layout is torch.strided else obj.detach()
    if isinstance(obj, torch.nn.Parameter):
        return torch.nn.Parameter(values, requires_grad=obj.requires_grad)
    return values


def _bare_plan(plan: Plan) -> Plan:
    bare = plan.copy()
    bare.id, bare.tags, bare.description = 0, set(), None
    for placeholder in bare.state.state_placeholders:
        tensor = placeholder.child
        tensor.grad = None
        for note in [key for key in tensor.__dict__ if key.startswith("_syft_")]:
            del tensor.__dict__[note]
    return bare


def describe_copy(data: bytes | bytearray | memoryview) -> tuple[list[int] | None, list[str]]:
    """Describe a sealed copy for the data owner. Runs in a program process, since it parses values.

    Returns:
        The shape of a single tensor, or None, and a description of each of the first `MAX_SPECS` objects.
    """
    obj = deserialize(data, max_message_bytes=1 << 40)
    if not isinstance(obj, tuple):
        return list(obj.shape) if isinstance(obj, torch.Tensor) else None, [_spec(obj)]
    more = [f"{len(obj) - MAX_SPECS} more"] if len(obj) > MAX_SPECS else []
    return None, [*map(_spec, obj[:MAX_SPECS]), *more]


def _spec(obj: object) -> str:
    if isinstance(obj, torch.Tensor):
        return f"tensor {str(obj.dtype).removeprefix('torch.')} {tuple(obj.shape)}"
    return kind_of(obj)


def describe_plan(data: bytes | memoryview) -> dict[str, Any]:
    """Describe a plan for the data owner. Runs in a program process, since it parses a user's bytes.

    Args:
        data: the bytes of a blob of kind `plan`.

    Returns:
        hash: the hash of what it does (`plan_hash`); blob names in listings use the hash of its bytes.
        code: its operations as Python-like text.
        inputs: the number of its tensor arguments.
        operations: the number of its operations.
        alters: whether it may change its arguments or its state.
        draws: whether it may draw random numbers, so that two runs differ.

    Raises:
        SyftError: the bytes are not a built plan.
    """
    plan = deserialize(data)
    if not isinstance(plan, Plan) or not plan.is_built:
        raise SerdeError("These bytes are not a built plan.")
    try:
        digest = plan_hash(plan)
    except SyftError as error:
        digest = ""
        note = f"# {str(error)[:200]}\n"
    else:
        note = ""
    operations = plan.program.operations
    return {
        "hash": digest,
        "code": note + code_of(plan, MAX_OPERATIONS),
        "inputs": len(plan.program.inputs),
        "operations": len(operations),
        "alters": alters(operations),
        "draws": any(draws(CallRecord(o.cmd_name, o.cmd_args, o.cmd_kwargs)) for o in operations),
    }
