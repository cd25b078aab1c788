"""VaultCalls: sends calls of a session process to the vault, and answers them without any value.

A call that names an object in the vault runs there. The session process runs it on proxies, which give the spec of each
result and the errors that follow from specs. Arguments of the session process are copied into the vault; those that the
call writes to, or that autograd connects to a result, move into the vault and stay there.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch

from syft.core.id_provider import ID_PROVIDER, ObjectId
from syft.core.labels import description_of, tags_of
from syft.core.object_storage import ObjectOutline
from syft.core.references import Ref, TensorMeta
from syft.core.trees import SCALARS, iter_tensors, map_tensors
from syft.exceptions import CommandNotAllowedError, GetNotPermittedError
from syft.grid.isolation.children.services import Services
from syft.grid.isolation.proxies.calls import attribute, call_on_proxies
from syft.grid.isolation.proxies.effects import MoveToVault, ProxyResult
from syft.grid.isolation.proxies.moves import MovedObject, detach_moved, plan_move
from syft.grid.isolation.proxies.objects import (
    PROXIES,
    AnyProxy,
    DatasetProxy,
    ObjectProxy,
    PlanProxy,
    Proxy,
    describe,
    tensor_proxy,
)
from syft.grid.isolation.records.call_codec import write_call, write_put
from syft.grid.isolation.records.items import PARTS, read_meta
from syft.grid.isolation.records.records import DeleteRecord, encode
from syft.grid.isolation.records.replay import PART
from syft.grid.isolation.supervisor.session_handle import MAX_MOVED
from syft.grid.storage.interface import Item
from syft.messaging.message import Operation
from syft.messaging.mutation import alters, changed_values
from syft.messaging.plan.plan import Plan
from syft.messaging.plan.plan_hash import plan_hash
from syft.pointers.pointer_plan import RUN_PLAN
from syft.pointers.remote_call import rebuild_container
from syft.serde import deserialize
from syft.workers.execution.execute import ATTRIBUTES, MAX_ATTRIBUTES, WORKER_COMMANDS
from syft.workers.execution.results import ResultStore
from syft.workers.execution.session import Session

if TYPE_CHECKING:
    from syft.grid.isolation.children.worker import SessionWorker

# Maximum number of released ids before they are reported to the vault.
_MAX_RELEASED = 256
# Maximum number of steps in which the arguments of one call move: a plan, then the objects connected with its state.
_MAX_MOVES = 8


class ProxyResults(ResultStore):
    """Stores the proxies of the results of a call in the vault, and describes them."""

    def _register(self, result: object) -> Any:
        if isinstance(result, PROXIES):
            result.why = f"it was computed from private data by {self.operation.cmd_name}"
            self._keep(result)
            return describe(result)
        if type(result) is dict:
            return {key: self._register(item) for key, item in result.items()}
        if isinstance(result, tuple | list) and not isinstance(result, torch.Size):
            return rebuild_container(type(result), [self._register(item) for item in result])
        return result  # metadata, or a result that is an argument


class CallArguments:
    """The arguments of a call on private data: as proxies here, and as the vault gets them."""

    def __init__(self, calls: VaultCalls, operation: Operation) -> None:
        self._calls = calls
        self._operation = operation
        self.args: tuple[Any, ...] = tuple(map_tensors(self._local, arg) for arg in operation.cmd_args)
        self.kwargs: dict[str, Any] = {key: map_tensors(self._local, arg) for key, arg in operation.cmd_kwargs.items()}

    def _local(self, leaf: object) -> object:
        if type(leaf) is not Ref:
            return leaf
        used = self._calls.resolve(leaf)
        if isinstance(used, torch.Tensor) and self._calls.worker.object_store.is_of_others(leaf.id):
            return used.detach()  # no gradients on data of other users
        return used

    def for_vault(self) -> Operation:
        """Return the call with references to objects in the vault, and copies of all other objects."""
        plan = self.args[0] if self._operation.cmd_name == RUN_PLAN else None
        alters_data = isinstance(plan, Plan | PlanProxy) and _alters(plan)

        def send(leaf: object) -> object:
            if type(leaf) is Ref and alters_data and self._calls.is_data(leaf.id):
                return Ref(self._calls.post_clone(leaf))
            if type(leaf) is not Ref or isinstance(self._calls.worker.object_store.look(leaf.id), PROXIES):
                return leaf
            value = self._calls.resolve(leaf)
            if isinstance(value, Plan):
                return Ref(self._calls.post_plan(value))  # workers run only plans that they hold
            return value.detach() if isinstance(value, torch.Tensor) else value

        operation = self._operation
        return dataclasses.replace(
            operation,
            cmd_args=tuple(map_tensors(send, arg) for arg in operation.cmd_args),
            cmd_kwargs={key: map_tensors(send, arg) for key, arg in operation.cmd_kwargs.items()},
        )


def _alters(plan: Plan | PlanProxy) -> bool:
    """Return whether a plan may write to its arguments; then it gets copies of published data."""
    program = getattr(plan, "program", None)
    return program is None or alters(program.operations)


class VaultCalls:
    """The calls of one user that name private data."""

    def __init__(self, worker: SessionWorker, services: Services) -> None:
        self.worker = worker
        self.services = services
        self._data: dict[ObjectId, tuple[str, AnyProxy]] = {}
        self._released: list[ObjectId] = []
        # Objects that moved into the vault since the last answer, and the reasons, for the client.
        self._moved: list[tuple[ObjectId, str]] = []
        # Calls reach the vault in the order in which they ran on proxies.
        self._lock = threading.RLock()

    # --- selection of calls -----------------------------------------------------------------------------------------

    def takes(self, operation: Operation) -> bool:
        """Return whether a call names an object in the vault, or private data."""
        if operation.cmd_name in WORKER_COMMANDS:
            return False
        look, of_others = self.worker.object_store.look, False
        for arg in (*operation.cmd_args, *operation.cmd_kwargs.values()):
            if type(arg) is Ref:
                if isinstance(look(arg.id), PROXIES):
                    return True
                of_others = of_others or self.worker.object_store.is_of_others(arg.id)
            elif type(arg) not in SCALARS:
                for leaf in iter_tensors(arg):
                    if type(leaf) is Ref:
                        if isinstance(look(leaf.id), PROXIES):
                            return True
                        of_others = of_others or self.worker.object_store.is_of_others(leaf.id)
        if of_others:
            self._check_change(operation)
        return False

    def _check_change(self, operation: Operation) -> None:
        """Refuse a call that changes readable data of other users: it would change a copy in this process only."""
        for ref in iter_tensors(changed_values(operation)):
            if type(ref) is Ref and self.worker.object_store.is_of_others(ref.id):
                raise GetNotPermittedError(
                    f"{operation.cmd_name} would change an object of another user at {self.worker.id!r}. "
                    "Work on a copy of your own: ptr.copy()."
                )

    def admit(self, item: Item) -> AnyProxy:
        """Return the proxy of private data; the same proxy as long as the data does not change."""
        known = self._data.get(item.id)
        if known is not None and known[0] == item.stamp:
            return known[1]
        proxy = proxy_from_meta(item)
        proxy.why = "it is private data"
        proxy.tags, proxy.description = set(item.tags), item.description
        self._data[item.id] = (item.stamp, proxy)
        return proxy

    # --- execution --------------------------------------------------------------------------------------------------

    def execute(self, session: Session, operation: Operation) -> Any:
        """Run a call in the vault, and describe its result for the sender.

        A plan that the owner allows as a program runs as a program, and its result may be fetched.
        """
        if operation.cmd_name == RUN_PLAN and (output := self._run_allowed(operation)) is not None:
            return ResultStore(self.worker, session, operation, (), {}).register(output[0])
        with self._lock:
            self._check_writes(operation)
            arguments, result = self._run_on_proxies(operation)
            self._flush_released()
            written = encode(write_call(arguments.for_vault(), self.worker)) if result.has_effect else b""
            results = ProxyResults(self.worker, session, operation, (), {})
            response = results.register(result.result)
            if written:
                try:
                    self._post(written)
                except Exception:
                    results.withdraw()  # the call did not reach the vault
                    raise
            return response

    def is_data(self, obj_id: ObjectId) -> bool:
        """Return whether an id names published private data, not a result."""
        return obj_id in self._data and obj_id not in self.worker.object_store.objects

    def _check_writes(self, operation: Operation) -> None:
        """Refuse a call that would write to published data: later calls of the user would see other values."""
        for leaf in iter_tensors(changed_values(operation)):
            if type(leaf) is Ref and self.is_data(leaf.id):
                raise GetNotPermittedError(
                    f"{operation.cmd_name} would change published data. Work on a copy: ptr.clone()."
                )

    def _run_allowed(self, operation: Operation) -> tuple[Any] | None:
        """Run a plan as an allowed program; None if no rule allows it for this user."""
        allowed = self.services.call("programs")
        plan = self.worker.object_store.look(operation.cmd_args[0].id) if allowed else None
        if not isinstance(plan, Plan) or not plan.is_built:
            return None
        given = (operation.cmd_args[1:], operation.cmd_kwargs)
        names = [leaf for leaf in iter_tensors(given) if type(leaf) is Ref]
        private = [ref for ref in names if isinstance(self.worker.object_store.look(ref.id), PROXIES)]
        if any(ref.attribute is not None or ref.id not in self._data for ref in private):
            return None  # a result from the vault: the program would not run on published data
        digest = plan_hash(plan)
        if digest not in allowed:
            return None
        sent = CallArguments(self, dataclasses.replace(operation, cmd_args=operation.cmd_args[1:])).for_vault()
        call = write_call(dataclasses.replace(sent, cmd_args=(None, *sent.cmd_args), return_ids=()), self.worker)
        ids = tuple(dict.fromkeys(ref.id for ref in private))
        answer = self.services.ask("run_program", digest, ids, body=encode(call))
        return (deserialize(answer.body, self.worker, owns_buffer=True),)

    def _run_on_proxies(self, operation: Operation) -> tuple[CallArguments, ProxyResult]:
        """Run a call on proxies, after the arguments that must be in the vault have moved there."""
        for _ in range(_MAX_MOVES):
            arguments = CallArguments(self, operation)
            result = call_on_proxies(operation, arguments.args, arguments.kwargs)
            if not result.moves:
                return arguments, result
            for move in result.moves:
                self._move_argument(move)
        raise CommandNotAllowedError(operation.cmd_name)

    def _move_argument(self, move: MoveToVault) -> None:
        store, obj_id = self.worker.object_store, move.ref.id
        if store.is_of_others(obj_id):
            raise GetNotPermittedError(
                f"{move.reason}, but it belongs to another user. Work on a copy of your own: ptr.copy()."
            )
        self.move(obj_id, move.reason)

    def resolve(self, ref: Ref) -> Any:
        """Return the object of a reference: an object of this process, a proxy, or an attribute of one of these."""
        used = self.worker.object_store.look(ref.id)
        for name in ref.attribute.split(".", MAX_ATTRIBUTES) if ref.attribute else ():
            if name not in ATTRIBUTES or not isinstance(used, Proxy | torch.Tensor):
                raise CommandNotAllowedError(f"The attribute {name[:40]!r} of a {type(used).__name__}")
            used = attribute(used, name) if isinstance(used, Proxy) else getattr(used, name)
        return used

    def move(self, obj_id: ObjectId, reason: str) -> None:
        """Move an object into the vault, and replace it and its parts here by proxies."""
        store = self.worker.object_store
        held = {key: obj for key, obj in dict.copy(store.objects).items() if type(obj) is not ObjectOutline}
        held[obj_id] = store.get(obj_id)
        entries = plan_move(obj_id, held)
        for entry in entries:
            if store.claims.was_published(entry.obj_id):
                raise GetNotPermittedError(f"{reason}, but it is published. Work on a copy that is not: ptr.copy().")
            if entry.part is None and entry is not entries[0]:
                raise GetNotPermittedError(f"{reason}, but it is held under two ids. Work on a copy: ptr.copy().")
        whole = held[entries[0].obj_id]
        self.put_copy(entries[0].obj_id, whole)
        for entry in entries:
            self._replace(entry, held[entry.obj_id], reason)
        detach_moved(whole)

    def _replace(self, entry: MovedObject, obj: object, reason: str) -> None:
        """Replace an object that moved, or a part of it, by its proxy."""
        store, proxy = self.worker.object_store, entry.proxy
        if entry.part is not None:
            self.post(Operation(PART, None, (Ref(entry.whole_id), entry.part), {}, (entry.obj_id,)))
        proxy.why = f"it moved into the vault, because {reason}"
        self._moved.append((entry.obj_id, reason))
        proxy.tags, proxy.description = set(tags_of(obj)), description_of(obj)
        dict.__setitem__(store.objects, entry.obj_id, proxy)
        if entry.obj_id in store.object_manager.ledger.entries:
            store.object_manager.ledger.recharge(entry.obj_id, {})

    def pop_moved(self) -> tuple[tuple[ObjectId, str], ...]:
        """Return the objects that moved since the last call, with the reason for each."""
        moved, self._moved = self._moved, []
        return tuple(moved[:MAX_MOVED])

    def post_clone(self, ref: Ref) -> ObjectId:
        """Copy an object in the vault, and return the id of the copy. It is released after the next call."""
        made = ID_PROVIDER.pop()
        self.post(Operation("torch.Tensor.clone", None, (ref,), {}, (made,)))
        self._released.append(made)
        return made

    def post_plan(self, plan: Plan) -> ObjectId:
        """Put a copy of a plan into the vault, and return its id. It is released after the next call."""
        made = ID_PROVIDER.pop()
        self.put_copy(made, plan)
        self._released.append(made)
        return made

    def put_copy(self, obj_id: ObjectId, obj: object) -> None:
        """Put a copy of an object of this process into the vault, under the same id."""
        self._post(encode(write_put(obj_id, obj, self.worker)))

    def post(self, operation: Operation) -> None:
        """Run a command in the vault without a result here."""
        self._post(encode(write_call(operation, self.worker)))

    def keep_result(
        self, session: Session, operation: Operation, proxy: AnyProxy, return_ids: Iterable[ObjectId]
    ) -> Any:
        """Run a command in the vault, and store the proxy of its result."""
        with self._lock:
            self._flush_released()
            sent = dataclasses.replace(operation, return_ids=tuple(return_ids))
            response = ProxyResults(self.worker, session, sent, (), {}).register(proxy)
            self.post(sent)
            return response

    def release(self, obj_id: ObjectId) -> None:
        """Release an object in the vault. Never raises."""
        self._released.append(obj_id)
        if len(self._released) >= _MAX_RELEASED and self._lock.acquire(blocking=False):
            try:
                self._flush_released()
            finally:
                self._lock.release()

    def _flush_released(self) -> None:
        if self._released:
            ids, self._released = tuple(self._released), []
            self._post(encode(DeleteRecord(ids)))

    def _post(self, written: bytes) -> None:
        self.services.call("vault", body=written)


def proxy_from_meta(item: Item) -> AnyProxy:
    """Return a proxy of a stored object from its description."""
    if isinstance(item.meta, TensorMeta):
        return _tensor_proxy(item.meta)
    match [read_meta(part) for part in item.facts.notes.get(PARTS, ())]:
        case [TensorMeta() as data, TensorMeta() as targets]:
            return DatasetProxy(_tensor_proxy(data), _tensor_proxy(targets))
    return ObjectProxy(item.meta.kind)


def _tensor_proxy(meta: TensorMeta) -> Proxy:
    empty = torch.empty(meta.shape, dtype=meta.dtype, device="meta")
    return tensor_proxy(empty.requires_grad_() if meta.requires_grad else empty)
