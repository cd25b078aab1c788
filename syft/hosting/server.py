"""Hosted models: models that a worker stores under a name for other users, and the handlers of their messages.

A hosted model is a published object like others: it counts in its owner's quota, and a node with a store restores it
after a restart. The connection identifies its owner. Queries bring their inputs along and cannot name objects of the
worker, so no result can carry the data of others away.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import torch

from syft.core.id_provider import MODEL_PREFIX, ObjectId
from syft.core.labels import tags_of
from syft.core.object import AbstractObject
from syft.core.trees import iter_tensors, map_tensors
from syft.exceptions import IdNotUniqueError, ModelError, ModelNotFoundError, QuotaExceededError, SerdeError
from syft.messaging import hosting as m
from syft.messaging.hosting import check_name
from syft.messaging.mutation import alters
from syft.messaging.plan.plan import Plan
from syft.pointers.object_pointer import ObjectPointer
from syft.pointers.object_wrapper import ObjectWrapper
from syft.pointers.remote_call import pointer_kinds
from syft.serde import register
from syft.workers.access.policy import ALLOW_ALL
from syft.workers.execution.copies import is_plain
from syft.workers.execution.router import OutgoingCopy, handles
from syft.workers.execution.session import Session

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

PREFIX = MODEL_PREFIX
# Fact -> tag of the stored model: says what is allowed without loading the model.
FLAGS = {
    "mpc": "syft-model-mpc",
    "allow_download": "syft-model-download",
    "allow_remote_inference": "syft-model-inference",
}
# Prefix of the ids of clients that did not authenticate.
_ANONYMOUS = "anonymous-"
MAX_MODELS = 1024
MAX_USER_MODELS = 256
MAX_INPUTS = 64
_storing = threading.Lock()

Facts = dict[str, Any]


class Hosted(AbstractObject):
    """The base of hosted models."""

    is_encrypted = False
    pointer_kind = "model"

    def __init__(self, name: str, allow_download: bool, allow_remote_inference: bool) -> None:
        super().__init__(id=id_of_model(name))
        if {type(allow_download), type(allow_remote_inference)} != {bool}:
            raise SerdeError("allow_download and allow_remote_inference of a hosted model must be bools.")
        self.name = name
        self.allow_download = allow_download
        self.allow_remote_inference = allow_remote_inference
        flags = {"mpc": self.is_encrypted, "allow_download": allow_download}
        flags["allow_remote_inference"] = allow_remote_inference
        self.tags = {FLAGS[flag] for flag, is_set in flags.items() if is_set}

    def details(self) -> Facts:
        """Return more facts for users who may use the model; never values of its parameters."""
        return {}

    def contents(self) -> list[Any]:
        """Return the objects that use memory."""
        return []

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"


class HostedModel(Hosted):
    """A plain model: a plan, or a wrapped script module, with the input shapes that it was built with."""

    def __init__(
        self, name: str, model: object, allow_download: bool, allow_remote_inference: bool, inputs: object = ()
    ) -> None:
        super().__init__(name, allow_download, allow_remote_inference)
        self.model = _check_model(model)
        self.inputs = check_shapes(inputs)
        self._runs_on_copy = isinstance(model, Plan) and alters(model.operations)

    def run(self, args: tuple[torch.Tensor, ...]) -> Any:
        """Return the result of the model; a query never changes the model."""
        model = self.model.copy() if isinstance(self.model, Plan) and self._runs_on_copy else self.model
        with torch.no_grad():
            result = model(*args)
        leaves = list(iter_tensors(result))
        if not leaves or not all(is_plain(leaf) for leaf in leaves):
            raise ModelError(f"The model {self.name!r} returned a value that is not a tensor.")
        return map_tensors(lambda leaf: leaf.detach(), result)

    def details(self) -> Facts:
        """Return more facts for users who may use the model."""
        return {"inputs": self.inputs}

    def contents(self) -> list[Any]:
        """Return the objects that use memory."""
        return [self.model]

    @staticmethod
    def simplify(worker: BaseWorker, hosted: HostedModel) -> tuple[Any, ...]:
        """Return the name, the model, the permissions, and the input shapes."""
        return (hosted.name, hosted.model, hosted.allow_download, hosted.allow_remote_inference, hosted.inputs)

    @staticmethod
    def detail(worker: BaseWorker, parts: tuple[Any, ...]) -> HostedModel:
        """Rebuild a hosted model that may come from anyone."""
        name, model, download, inference, inputs = parts
        return HostedModel(check_name(name), model, download, inference, inputs)


def _check_model(model: object) -> Plan | ObjectWrapper:
    """Return a model if it can be hosted: a built plan with plain tensors, or a script module."""
    if isinstance(model, ObjectWrapper) and isinstance(model.obj, torch.jit.ScriptModule):
        return model
    if not isinstance(model, Plan):
        raise ModelError(f"A {type(model).__name__} can't be hosted. Make a plan: sy.Plan(forward_func=module).")
    if not model.is_built:
        raise ModelError(f"The plan {model.name!r} is not built. Build it first with plan.build(*examples).")
    if not all(is_plain(tensor) for tensor in model.state.tensors()):
        raise ModelError(
            f"The state of the plan {model.name!r} is remote or shared. A hosted plan needs plain tensors."
        )
    return model


def check_shapes(shapes: object) -> tuple[tuple[int, ...], ...]:
    """Return shapes that came from outside if they are valid."""
    if type(shapes) is not tuple or len(shapes) > MAX_INPUTS:
        raise SerdeError(f"The input shapes of a model are a tuple of at most {MAX_INPUTS} shapes.")
    if not all(type(s) is tuple and len(s) <= 64 and all(type(n) is int and n >= 0 for n in s) for s in shapes):
        raise SerdeError("A shape is a tuple of non-negative integers.")
    return shapes


# --- stored models --------------------------------------------------------------------------------------------


def id_of_model(name: str) -> ObjectId:
    """Return the object id of a model."""
    return f"{PREFIX}{name}"


def names_at(worker: BaseWorker) -> list[str]:
    """Return the names of all models that a worker hosts."""
    ids = [obj_id for obj_id in worker.object_store.outlines() if type(obj_id) is str and obj_id.startswith(PREFIX)]
    return sorted(obj_id.removeprefix(PREFIX) for obj_id in ids)


def model_at(worker: BaseWorker, name: str) -> Hosted | None:
    """Return a model of a worker, without a check of permissions."""
    obj_id = id_of_model(name)
    found = worker.object_store.objects.get(obj_id) if obj_id in worker.object_store.objects else None
    return found if isinstance(found, Hosted) and found.name == name else None


def facts_of(worker: BaseWorker, name: str) -> Facts | None:
    """Return the facts about a model that need no loading: its name, its owner, and the permissions."""
    outline = worker.object_store.outlines().get(id_of_model(name))
    if outline is None:
        return None
    tags, owner = tags_of(outline), worker.object_store.claims.publisher_of(id_of_model(name))
    if worker.policy is ALLOW_ALL or not isinstance(owner, str) or owner.startswith(_ANONYMOUS):
        owner = None
    return {"name": name, "owner": owner, **{flag: tag in tags for flag, tag in FLAGS.items()}}


def may_manage(worker: BaseWorker, session: Session, name: str) -> bool:
    """Return whether a client hosted a model, or owns the node; in a sandbox every client may manage every model."""
    if worker.policy is ALLOW_ALL or session.role == "owner":
        return True
    publisher = worker.object_store.claims.publisher_of(id_of_model(name))
    return publisher is not None and publisher == session.client_id


def find_model(worker: BaseWorker, session: Session, name: str) -> Hosted:
    """Return a model if the client may know that it exists; a model without permissions for others is not found."""
    hosted = model_at(worker, check_name(name))
    if hosted is not None:
        shared = hosted.allow_download or hosted.allow_remote_inference
        if shared or may_manage(worker, session, name):
            return hosted
    raise ModelNotFoundError(f"Worker {worker.id!r} hosts no model {name!r} for {session.client_id!r}.")


def store_model(worker: BaseWorker, session: Session, hosted: Hosted) -> None:
    """Store a model; it replaces a model of the same name only if the client may manage that one."""
    store, obj_id = worker.object_store, hosted.id
    with _storing:
        if obj_id not in store.objects:
            _check_room(worker, session)
            session.keep(obj_id, hosted, published=True, is_own_id=False)
        elif model_at(worker, hosted.name) is None:
            raise IdNotUniqueError(f"Worker {worker.id!r} already holds an object with id {obj_id!r}.")
        elif not may_manage(worker, session, hosted.name):
            raise ModelError(
                f"The name {hosted.name!r} is taken at {worker.id!r} by another user. Choose another name."
            )
        else:
            if store.object_manager is not None:
                store.object_manager.exchange(obj_id, hosted)
            store.objects[obj_id] = hosted
            # The model of another user, once replaced, belongs to the new one.
            store.claims.publish(obj_id, session.client_id)
    audit(worker, session, "host model", hosted.name)


def _check_room(worker: BaseWorker, session: Session) -> None:
    names = names_at(worker)
    claims = worker.object_store.claims
    own = sum(claims.publisher_of(id_of_model(name)) == session.client_id for name in names)
    if len(names) >= MAX_MODELS or own >= MAX_USER_MODELS:
        raise QuotaExceededError(
            f"Worker {worker.id!r} hosts {len(names)} models, {own} of them yours; the limits are {MAX_MODELS} and "
            f"{MAX_USER_MODELS}. Delete one first."
        )


def audit(worker: BaseWorker, session: Session, action: str, name: str, allowed: bool = True) -> None:
    """Write an action of a client to the audit log of a node; other workers have none."""
    log = getattr(worker.policy, "audit", None)
    if log is not None:
        log.write(session.client_id, action, obj_id=id_of_model(name), allowed=allowed)


# --- handlers of messages -------------------------------------------------------------------------------------


@handles(m.HostModelMessage)
def host_model(worker: BaseWorker, session: Session, message: m.HostModelMessage) -> None:
    """Host a model."""
    flags = message.allow_download, message.allow_remote_inference
    store_model(worker, session, HostedModel(check_name(message.name), message.contents, *flags, message.inputs))


@handles(m.ModelsMessage)
def list_models(worker: BaseWorker, session: Session, message: m.ModelsMessage) -> list[Facts]:
    """Return the facts about all models that a client may use, or all facts about one."""
    if message.contents is not None:
        hosted = find_model(worker, session, message.contents)
        return [{**(facts_of(worker, hosted.name) or {}), **hosted.details()}]
    rows = [facts_of(worker, name) for name in names_at(worker)]
    return [row for row in rows if row is not None and (is_shared(row) or may_manage(worker, session, row["name"]))]


def is_shared(facts: Facts) -> bool:
    """Return whether users other than its owner may use a model."""
    return bool(facts["allow_download"] or facts["allow_remote_inference"])


@handles(m.DownloadModelMessage)
def download_model(worker: BaseWorker, session: Session, message: m.DownloadModelMessage) -> OutgoingCopy:
    """Return a copy of a model that may be downloaded."""
    hosted = find_model(worker, session, message.contents)
    if not (hosted.allow_download or may_manage(worker, session, hosted.name)) or not isinstance(hosted, HostedModel):
        audit(worker, session, "download model", hosted.name, allowed=False)
        raise ModelError(
            f"The model {hosted.name!r} at {worker.id!r} may not be downloaded: its owner has not allowed it."
        )
    audit(worker, session, "download model", hosted.name)
    model = hosted.model
    return OutgoingCopy(model.copy() if isinstance(model, Plan) else model, session, hosted.id, False)


@handles(m.DeleteModelMessage)
def delete_model(worker: BaseWorker, session: Session, message: m.DeleteModelMessage) -> None:
    """Delete a model."""
    hosted = find_model(worker, session, message.contents)
    if not may_manage(worker, session, hosted.name):
        audit(worker, session, "delete model", hosted.name, allowed=False)
        raise ModelError(
            f"The model {hosted.name!r} at {worker.id!r} can only be deleted by its owner or by the node's owner."
        )
    worker.object_store.remove(hosted.id)
    audit(worker, session, "delete model", hosted.name)


@handles(m.InferenceMessage)
def infer(worker: BaseWorker, session: Session, message: m.InferenceMessage) -> OutgoingCopy:
    """Query a model with the tensors of the message, and return its result."""
    hosted = find_model(worker, session, message.name)
    require_inference(worker, session, hosted)
    if not isinstance(hosted, HostedModel):
        raise ModelError(f"The model {hosted.name!r} is encrypted. Query it with mpc=True.")
    args = message.contents
    if not all(type(arg) in (torch.Tensor, torch.nn.Parameter) for arg in args):
        raise ModelError("A hosted model takes plain tensors of the message, not objects of the worker.")
    try:
        result = hosted.run(args)
    except Exception as error:
        if isinstance(error, ModelError):
            raise
        may_download = hosted.allow_download or may_manage(worker, session, hosted.name)
        raise failed_inference(worker, hosted, args, error, may_download) from None
    return OutgoingCopy(result, session, hosted.id, False)


def require_inference(worker: BaseWorker, session: Session, hosted: Hosted) -> None:
    """Raise unless a client may query a model."""
    allowed = hosted.allow_remote_inference or may_manage(worker, session, hosted.name)
    audit(worker, session, "inference", hosted.name, allowed=allowed)
    if not allowed:
        raise ModelError(
            f"The model {hosted.name!r} at {worker.id!r} may not be queried by other users. Its owner can host it "
            "with allow_remote_inference=True."
        )


def failed_inference(
    worker: BaseWorker, hosted: HostedModel, args: tuple[torch.Tensor, ...], error: Exception, may_download: bool
) -> ModelError:
    """Return the error of a query: with the text of the cause only for users who may download the model."""
    given = " and ".join(str(tuple(arg.shape)) for arg in args[:8]) or "nothing"
    built = " and ".join(map(str, hosted.inputs))
    text = f"The model {hosted.name!r} at {worker.id!r} failed on inputs of {given}"
    text += f"; it was built with {built}." if built else "."
    if may_download:
        return ModelError(f"{text} {type(error).__name__}: {error}")
    return ModelError(f"{text} The text of the {type(error).__name__} may show parameters, so it is hidden.")


register(HostedModel, code=170)
pointer_kinds["model"] = ObjectPointer
