"""VaultCalls: how a session process has calls run in the vault, and what it answers without knowing a value.

A call that names an object in the vault runs there. Here it runs on proxies, which tell the spec of each result and the
mistakes that specs alone reveal. Arguments of the session process are copied along; those that the call writes to, or
that autograd connects to a result, move into the vault and stay there.
"""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

import torch

from syft.core.id_provider import ID_PROVIDER, ObjectId
from syft.core.labels import description_of, tags_of
from syft.core.object_storage import ObjectOutline
from syft.core.references import ObjectMeta, Ref, SameAs, TensorMeta
from syft.core.trees import SCALARS, iter_tensors, map_tensors
from syft.exceptions import CommandNotAllowed, GetNotPermittedError, IdNotUniqueError
from syft.grid.isolation.children.services import Services
from syft.grid.isolation.children.vault_commands import PART
from syft.grid.isolation.proxies.calls import (
    DatasetProxy,
    MoveToVault,
    ObjectProxy,
    PlanProxy,
    Proxy,
    ProxyResult,
    attribute,
    call_on_proxies,
    describe,
)
from syft.grid.isolation.proxies.moves import MovedObject, detach_moved, plan_move
from syft.grid.isolation.proxies.objects import size_in_bytes, tensor_proxy
from syft.grid.isolation.records.call_codec import write_call, write_put
from syft.grid.isolation.records.items import PARTS, read_meta
from syft.grid.isolation.records.records import DeleteRecord, encode, encode_parts
from syft.grid.isolation.supervisor.session_handle import MAX_MOVED
from syft.grid.storage.interface import Item
from syft.messaging.message import Operation
from syft.messaging.mutation import alters, changed_values
from syft.messaging.plan.plan import Plan
from syft.messaging.plan.plan_hash import plan_hash
from syft.pointers.pointer_plan import RUN_PLAN
from syft.pointers.remote_call import following_id, rebuild_container
from syft.serde import deserialize
from syft.workers.execution.execute import ATTRIBUTES, MAX_ATTRIBUTES, WORKER_COMMANDS
from syft.workers.execution.results import ResultStore
from syft.workers.execution.session import Session

_PROXIES = (Proxy, ObjectProxy)
# Released ids are reported together, at the latest when there are this many.
_MANY_RELEASED = 256
# Arguments of one call move in at most this many steps: a plan, then what its state is connected with.
_MOST_MOVES = 8
# Why an object is in the vault, for the pointer's repr and for the error when somebody fetches it.
COMPUTED = "it was computed from private data by {name}"
PRIVATE = "it is private data"


class VaultCalls:
    """The calls of one user that name private data.

    Args:
        worker: the worker of the session process.
        services: the supervisor.
    """

    def __init__(self, worker: Any, services: Services) -> None:
        self.worker = worker
        self.services = services
        self._data: dict[ObjectId, tuple[str, Any]] = {}
        self._released: list[ObjectId] = []
        # What moved into the vault since the last answer, for the client.
        self._moved: list[tuple[ObjectId, str]] = []
        # Calls reach the vault in the order in which their proxies were computed.
        self._turn = threading.RLock()

    # --- which calls ----------------------------------------------------------------------------------------------

    def takes(self, operation: Operation) -> bool:
        """Whether a call names an object in the vault, or private data."""
        if operation.cmd_name in WORKER_COMMANDS:
            return False
        look, of_others = self.worker.object_store.look, False
        for arg in (*operation.cmd_args, *operation.cmd_kwargs.values()):
            if type(arg) is Ref:
                if isinstance(look(arg.id), _PROXIES):
                    return True
                of_others = of_others or self.worker.object_store.is_of_others(arg.id)
            elif type(arg) not in SCALARS:
                for leaf in iter_tensors(arg):
                    if type(leaf) is Ref:
                        if isinstance(look(leaf.id), _PROXIES):
                            return True
                        of_others = of_others or self.worker.object_store.is_of_others(leaf.id)
        if of_others:
            self._check_change(operation)
        return False

    def _check_change(self, operation: Operation) -> None:
        """Refuse a call that names readable data of others as what it changes: only a copy in this process would."""
        for ref in iter_tensors(changed_values(operation)):
            if type(ref) is Ref and self.worker.object_store.is_of_others(ref.id):
                raise GetNotPermittedError(
                    f"{operation.cmd_name} would change an object of somebody else at {self.worker.id!r}. "
                    "Work on a copy of your own: ptr.copy()."
                )

    def admit(self, item: Item) -> Any:
        """Return the proxy of private data; the same one as long as the data is the same."""
        stamp, proxy = self._data.get(item.id, ("", None))
        if stamp != item.stamp:
            proxy = proxy_from_meta(item)
            proxy.why = PRIVATE
            proxy.tags, proxy.description = set(item.tags), item.description
            self._data[item.id] = (item.stamp, proxy)
        return proxy

    # --- running --------------------------------------------------------------------------------------------------

    def execute(self, session: Session, operation: Operation) -> Any:
        """Have a call run in the vault, and describe its result as the sender expects it.

        A plan that the owner allows as a program runs as that, and its result may be fetched.
        """
        if operation.cmd_name == RUN_PLAN and (output := self._run_allowed(operation)) is not None:
            return ResultStore(self.worker, session, operation, (), {}).register(output[0])
        with self._turn:
            self._check_writes(operation)
            names, result = self._on_proxies(operation)
            self._flush_released()
            written = encode(write_call(names.sent(), self.worker)) if result.has_effect else b""
            results = _Results(self.worker, session, operation)
            response = results.register(result.result)
            if written:
                try:
                    self._post(written)
                except Exception:
                    results.withdraw()
                    raise
            return response

    def is_data(self, obj_id: ObjectId) -> bool:
        """Whether an id names private data as it was published, not something computed from it."""
        return obj_id in self._data and obj_id not in self.worker.object_store.objects

    def _check_writes(self, operation: Operation) -> None:
        """Refuse a call that would write to published data: later calls of the user would compute on something else."""
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
        private = [ref for ref in names if isinstance(self.worker.object_store.look(ref.id), _PROXIES)]
        if any(ref.attribute is not None or ref.id not in self._data for ref in private):
            return None  # it was computed in the vault, so the program would not run on the data as it is
        digest = plan_hash(plan)
        if digest not in allowed:
            return None
        sent = _Arguments(self, dataclasses.replace(operation, cmd_args=operation.cmd_args[1:])).sent()
        call = write_call(dataclasses.replace(sent, cmd_args=(None, *sent.cmd_args), return_ids=()), self.worker)
        ids = tuple(dict.fromkeys(ref.id for ref in private))
        answer = self.services.ask("run_program", digest, ids, body=encode(call))
        return (deserialize(answer.body, self.worker, owns_buffer=True),)

    def _on_proxies(self, operation: Operation) -> tuple[_Arguments, ProxyResult]:
        """Run a call on proxies, after its arguments that have to be in the vault have moved there."""
        for _ in range(_MOST_MOVES):
            names = _Arguments(self, operation)
            result = call_on_proxies(operation, names.args, names.kwargs)
            if not result.moves:
                return names, result
            for move in result.moves:
                self._move_argument(move)
        raise CommandNotAllowed(operation.cmd_name)

    def _move_argument(self, move: MoveToVault) -> None:
        store, obj_id = self.worker.object_store, move.ref.id
        if store.is_of_others(obj_id):
            raise GetNotPermittedError(
                f"{move.reason}, but it belongs to somebody else. Work on a copy of your own: ptr.copy()."
            )
        self.move(obj_id, move.reason)

    def resolve(self, ref: Ref) -> Any:
        """Return what a reference names: an object of this process, a proxy, or an attribute of one of these."""
        used = self.worker.object_store.look(ref.id)
        for name in ref.attribute.split(".", MAX_ATTRIBUTES) if ref.attribute else ():
            if name not in ATTRIBUTES or not isinstance(used, Proxy | torch.Tensor):
                raise CommandNotAllowed(f"The attribute {name[:40]!r} of a {type(used).__name__}")
            used = attribute(used, name) if isinstance(used, Proxy) else getattr(used, name)
        return used

    def bytes_of(self, held: Any) -> int:
        """Return the number of bytes that the values of an object take, as far as its proxy tells."""
        if isinstance(held, Proxy):
            return size_in_bytes(held.spec)
        parts = [*getattr(held, "state", ()), *(getattr(held, name, None) for name in ("data", "targets"))]
        return sum(size_in_bytes(part.spec) for part in parts if isinstance(part, Proxy))

    def move(self, obj_id: ObjectId, reason: str) -> None:
        """Move an object of the session process into the vault; proxies take its place, and that of its parts, here."""
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
            self._place(entry, held[entry.obj_id], reason)
        detach_moved(whole)

    def _place(self, entry: MovedObject, obj: Any, reason: str) -> None:
        """Put a proxy in the place of an object that moved, or of a part of it."""
        store, proxy = self.worker.object_store, entry.proxy
        if entry.part is not None:
            part = Operation(PART, None, (Ref(entry.whole_id), entry.part), {}, (entry.obj_id,))
            self._post(encode(write_call(part, self.worker)))
        proxy.why = f"it moved into the vault, because {reason}"  # type: ignore[union-attr]
        self._moved.append((entry.obj_id, reason))
        proxy.tags, proxy.description = set(tags_of(obj)), description_of(obj)
        dict.__setitem__(store.objects, entry.obj_id, proxy)
        if entry.obj_id in store.keeper.ledger.entries:
            store.keeper.ledger.recharge(entry.obj_id, {})

    def take_moved(self) -> tuple[tuple[ObjectId, str], ...]:
        """Return the objects that moved since the last call, with the reason for each."""
        moved, self._moved = self._moved, []
        return tuple(moved[:MAX_MOVED])

    def post_clone(self, ref: Ref) -> ObjectId:
        """Have the vault copy an object, and return the id of the copy. It goes with the next call."""
        made = ID_PROVIDER.pop()
        self._post(encode(write_call(Operation("torch.Tensor.clone", None, (ref,), {}, (made,)), self.worker)))
        self._released.append(made)
        return made

    def post_plan(self, plan: Plan) -> ObjectId:
        """Put a copy of a plan into the vault, and return its id. It goes with the next call."""
        made = ID_PROVIDER.pop()
        self.put_copy(made, plan)
        self._released.append(made)
        return made

    def put_copy(self, obj_id: ObjectId, obj: Any) -> None:
        """Put a copy of an object of this process into the vault, under the same id."""
        self._post(b"".join(encode_parts(write_put(obj_id, obj, self.worker))))

    def post(self, operation: Operation) -> None:
        """Have a command run in the vault whose result is not needed here."""
        self._post(encode(write_call(operation, self.worker)))

    def keep_result(self, session: Session, operation: Operation, proxy: Any, return_ids: Any) -> Any:
        """Have a command run in the vault, and keep the proxy of its result."""
        with self._turn:
            self._flush_released()
            sent = dataclasses.replace(operation, return_ids=tuple(return_ids))
            response = _Results(self.worker, session, sent).register(proxy)
            self.post(sent)
            return response

    def release(self, obj_id: ObjectId) -> None:
        """Take note that nobody needs an object in the vault any more. Never raises."""
        self._released.append(obj_id)
        if len(self._released) >= _MANY_RELEASED and self._turn.acquire(blocking=False):
            try:
                self._flush_released()
            finally:
                self._turn.release()

    def _flush_released(self) -> None:
        if self._released:
            ids, self._released = tuple(self._released), []
            self._post(encode(DeleteRecord(ids)))

    def _post(self, written: bytes) -> None:
        self.services.call("vault", body=written)


class _Arguments:
    """The arguments of a call with proxies in place of what is in the vault.

    Args:
        calls: the vault.
        operation: the call.
    """

    def __init__(self, calls: VaultCalls, operation: Operation) -> None:
        self._calls = calls
        self._operation = operation
        self.args: tuple[Any, ...] = tuple(map_tensors(self._local, arg) for arg in operation.cmd_args)
        self.kwargs: dict[str, Any] = {key: map_tensors(self._local, arg) for key, arg in operation.cmd_kwargs.items()}

    def _local(self, leaf: Any) -> Any:
        if type(leaf) is not Ref:
            return leaf
        used = self._calls.resolve(leaf)
        if isinstance(used, torch.Tensor) and self._calls.worker.object_store.is_of_others(leaf.id):
            return used.detach()  # gradients are not left behind on data of others
        return used

    def sent(self) -> Operation:
        """Return the call as the vault gets it: references to what is there, and copies of everything else."""
        plan = self.args[0] if self._operation.cmd_name == RUN_PLAN else None
        alters_data = isinstance(plan, Plan | PlanProxy) and _alters(plan)

        def travelling(leaf: Any) -> Any:
            if type(leaf) is Ref and alters_data and self._calls.is_data(leaf.id):
                return Ref(self._calls.post_clone(leaf))
            if type(leaf) is not Ref or isinstance(self._calls.worker.object_store.look(leaf.id), _PROXIES):
                return leaf
            value = self._calls.resolve(leaf)
            if isinstance(value, Plan):
                return Ref(self._calls.post_plan(value))  # a worker runs plans that it holds
            return value.detach() if isinstance(value, torch.Tensor) else value

        operation = self._operation
        return dataclasses.replace(
            operation,
            cmd_args=tuple(map_tensors(travelling, arg) for arg in operation.cmd_args),
            cmd_kwargs={key: map_tensors(travelling, arg) for key, arg in operation.cmd_kwargs.items()},
        )


def _alters(plan: Plan | PlanProxy) -> bool:
    """Whether a plan may write to its arguments; it gets copies of published data then."""
    program = getattr(plan, "program", None)
    return program is None or alters(program.operations)


class _Results:
    """Keeps the proxies of results under the ids that the sender chose, and describes them.

    Args:
        worker: the worker of the session process.
        session: the client.
        operation: the call.
    """

    def __init__(self, worker: Any, session: Session, operation: Operation) -> None:
        self._worker = worker
        self._session = session
        self._name = operation.cmd_name
        self._next: ObjectId | None = operation.return_ids[0] if operation.return_ids else None
        self._kept: list[ObjectId] = []

    def register(self, result: Any) -> Any:
        """Return the result with descriptions in place of proxies: all of them are kept, or none."""
        try:
            return self._register(result)
        except Exception:
            self.withdraw()
            raise

    def withdraw(self) -> None:
        """Let go of the proxies: the call did not reach the vault."""
        for obj_id in self._kept:
            self._session.release(obj_id)

    def _register(self, result: Any) -> Any:
        if isinstance(result, _PROXIES):
            self._keep(result)
            return describe(result)
        if result is None or isinstance(result, SameAs | TensorMeta | ObjectMeta | torch.Size | torch.dtype):
            return result
        if type(result) is dict:
            return {key: self._register(item) for key, item in result.items()}
        if isinstance(result, tuple | list):
            return rebuild_container(type(result), [self._register(item) for item in result])
        return result  # about specs alone: dim(), size(), numel()

    def _keep(self, proxy: Any) -> None:
        if self._next is None:
            raise CommandNotAllowed(f"{self._name} without an id for its result")
        if self._next in self._worker.object_store.objects:
            raise IdNotUniqueError(f"Worker {self._worker.id!r} already holds an object with id {self._next!r}.")
        proxy.why = COMPUTED.format(name=self._name)
        self._session.keep(self._next, proxy)
        self._kept.append(self._next)
        self._next = following_id(self._next)


def proxy_from_meta(item: Item) -> Any:
    """Return a proxy of a stored object from its description."""
    if isinstance(item.meta, TensorMeta):
        return _tensor_proxy(item.meta)
    parts = [read_meta(part) for part in item.facts.notes.get(PARTS, ())]
    if len(parts) == 2 and all(isinstance(part, TensorMeta) for part in parts):
        return DatasetProxy(*map(_tensor_proxy, parts))
    return ObjectProxy(item.meta.kind)


def _tensor_proxy(meta: Any) -> Proxy:
    empty = torch.empty(meta.shape, dtype=meta.dtype, device="meta")
    return tensor_proxy(empty.requires_grad_() if meta.requires_grad else empty)
