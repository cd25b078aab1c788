"""Hosted models: what a worker keeps under a name for others to ask, and what it does when they do.

A hosted model is a published object like others: it counts in its owner's quota, and a node with a store has it
again after a restart. Who hosted it is known by the connection. It is asked with values that come with the question,
never with something that is held here, so no answer can carry the data of others away.
"""

from __future__ import annotations

import threading
from typing import Any

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

PREFIX = MODEL_PREFIX
# Tags of a model, by which it is known what it is for without reading it: fact -> tag.
FLAGS = {
    "mpc": "syft-model-mpc",
    "allow_download": "syft-model-download",
    "allow_remote_inference": "syft-model-inference",
}
# What clients are called who did not have to say who they are.
_ANONYMOUS = "anonymous-"
MAX_MODELS = 1024
MAX_USER_MODELS = 256
MAX_INPUTS = 64
_shelving = threading.Lock()

Facts = dict[str, Any]


class Hosted(AbstractObject):
    """What is common to hosted models.

    Args:
        name: what it is called.
        allow_download: whether others may have it.
        allow_remote_inference: whether others may ask it.
    """

    is_encrypted = False
    pointer_kind = "model"

    def __init__(self, name: str, allow_download: bool, allow_remote_inference: bool) -> None:
        super().__init__(id=id_of_model(name))
        if {type(allow_download), type(allow_remote_inference)} != {bool}:
            raise SerdeError("What is allowed with a model is said by yes or no.")
        self.name = name
        self.allow_download = allow_download
        self.allow_remote_inference = allow_remote_inference
        flags = {"mpc": self.is_encrypted, "allow_download": allow_download}
        flags["allow_remote_inference"] = allow_remote_inference
        self.tags = {FLAGS[flag] for flag, is_set in flags.items() if is_set}

    def details(self) -> Facts:
        """Return what those may know of it who may use it, beside what it is for; never numbers of the model."""
        return {}

    def contents(self) -> list[Any]:
        """Return what takes memory."""
        return []

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"


class HostedModel(Hosted):
    """A model in clear.

    Args:
        name: what it is called.
        model: a plan, or a wrapped script module.
        allow_download: whether others may have it.
        allow_remote_inference: whether others may ask it.
        inputs: the shapes that it was built with.
    """

    def __init__(
        self, name: str, model: Any, allow_download: bool, allow_remote_inference: bool, inputs: Any = ()
    ) -> None:
        super().__init__(name, allow_download, allow_remote_inference)
        self.model = _checked(model)
        self.inputs = check_shapes(inputs)
        self._runs_on_copy = isinstance(model, Plan) and alters(model.operations)

    def run(self, args: tuple[torch.Tensor, ...]) -> Any:
        """Return what the model gives; asking it never changes it."""
        model = self.model.copy() if self._runs_on_copy else self.model
        with torch.no_grad():
            result = model(*args)
        leaves = list(iter_tensors(result))
        if not leaves or not all(is_plain(leaf) for leaf in leaves):
            raise ModelError(f"The model {self.name!r} gives something that is no tensor.")
        return map_tensors(lambda leaf: leaf.detach(), result)

    def details(self) -> Facts:
        """Return what those may know of it who may use it."""
        return {"inputs": self.inputs}

    def contents(self) -> list[Any]:
        """Return what takes memory."""
        return [self.model]

    @staticmethod
    def simplify(worker: Any, hosted: HostedModel) -> tuple[Any, ...]:
        """Return name, model, what is allowed, and the shapes it was built with."""
        return (hosted.name, hosted.model, hosted.allow_download, hosted.allow_remote_inference, hosted.inputs)

    @staticmethod
    def detail(worker: Any, parts: tuple[Any, ...]) -> HostedModel:
        """Rebuild a hosted model that may come from anyone."""
        name, model, download, inference, inputs = parts
        return HostedModel(check_name(name), model, download, inference, inputs)


def _checked(model: Any) -> Any:
    """Return a model if it can be hosted: a plan that is built and whose tensors are here, or a script module."""
    if isinstance(model, ObjectWrapper) and isinstance(model.obj, torch.jit.ScriptModule):
        return model
    if not isinstance(model, Plan):
        raise ModelError(f"A {type(model).__name__} is not hosted: make a plan of it, sy.Plan(forward_func=module).")
    if not model.is_built:
        raise ModelError(f"The plan {model.name!r} is not built; build it with plan.build(*examples) first.")
    if not all(is_plain(tensor) for tensor in model.state.tensors()):
        raise ModelError(
            f"The state of the plan {model.name!r} is elsewhere, or shared; a hosted plan has plain tensors."
        )
    return model


def check_shapes(shapes: Any) -> tuple[tuple[int, ...], ...]:
    """Return shapes that came from outside, if they are some."""
    if type(shapes) is not tuple or len(shapes) > MAX_INPUTS:
        raise SerdeError("The shapes of a model's inputs are a tuple.")
    if not all(type(s) is tuple and len(s) <= 64 and all(type(n) is int and n >= 0 for n in s) for s in shapes):
        raise SerdeError("A shape is a tuple of whole numbers.")
    return shapes


# --- the shelf ------------------------------------------------------------------------------------------------


def id_of_model(name: str) -> ObjectId:
    """Return the id of the object that a model is kept as."""
    return f"{PREFIX}{name}"


def names_at(worker: Any) -> list[str]:
    """Return the names of all models that a worker hosts."""
    ids = [obj_id for obj_id in worker.object_store.outlines() if type(obj_id) is str and obj_id.startswith(PREFIX)]
    return sorted(obj_id.removeprefix(PREFIX) for obj_id in ids)


def model_at(worker: Any, name: str) -> Hosted | None:
    """Return a model of a worker, whoever may use it."""
    obj_id = id_of_model(name)
    found = worker.object_store.objects.get(obj_id) if obj_id in worker.object_store.objects else None
    return found if isinstance(found, Hosted) and found.name == name else None


def outline_of(worker: Any, name: str) -> Facts | None:
    """Return what is known of a model without reading it: its name, what it is for, and who hosts it."""
    outline = worker.object_store.outlines().get(id_of_model(name))
    if outline is None:
        return None
    tags, owner = tags_of(outline), worker.object_store.claims.publisher_of(id_of_model(name))
    if worker.policy is ALLOW_ALL or not isinstance(owner, str) or owner.startswith(_ANONYMOUS):
        owner = None
    return {"name": name, "owner": owner, **{flag: tag in tags for flag, tag in FLAGS.items()}}


def has_say(worker: Any, session: Session, name: str) -> bool:
    """Say whether a client hosted a model, or runs the node; in a sandbox everybody has a say in everything."""
    if worker.policy is ALLOW_ALL or session.role == "owner":
        return True
    publisher = worker.object_store.claims.publisher_of(id_of_model(name))
    return publisher is not None and publisher == session.client_id


def find_model(worker: Any, session: Session, name: str) -> Hosted:
    """Return a model that a client may know of: one that nobody else may use is as good as absent."""
    hosted = model_at(worker, check_name(name))
    if hosted is not None:
        shared = hosted.allow_download or hosted.allow_remote_inference
        if shared or has_say(worker, session, name):
            return hosted
    raise ModelNotFoundError(f"Worker {worker.id!r} hosts no model {name!r} for {session.client_id!r}.")


def shelve(worker: Any, session: Session, hosted: Hosted) -> None:
    """Keep a model; in place of an earlier one only for who has a say in that."""
    store, obj_id = worker.object_store, hosted.id
    with _shelving:
        if obj_id not in store.objects:
            _check_room(worker, session)
            session.keep(obj_id, hosted, published=True, is_own_id=False)
        elif model_at(worker, hosted.name) is None:
            raise IdNotUniqueError(f"Worker {worker.id!r} already holds an object with id {obj_id!r}.")
        elif not has_say(worker, session, hosted.name):
            raise ModelError(f"The name {hosted.name!r} is taken at {worker.id!r} by somebody else; choose another.")
        else:
            if store.keeper is not None:
                store.keeper.exchange(obj_id, hosted)
            store.objects[obj_id] = hosted
            # The model of another user, once replaced, is no longer that user's.
            store.claims.publish(obj_id, session.client_id)
    note(worker, session, "host model", hosted.name)


def _check_room(worker: Any, session: Session) -> None:
    names = names_at(worker)
    claims = worker.object_store.claims
    own = sum(claims.publisher_of(id_of_model(name)) == session.client_id for name in names)
    if len(names) >= MAX_MODELS or own >= MAX_USER_MODELS:
        raise QuotaExceededError(f"Worker {worker.id!r} hosts as many models as it may; delete one first.")


def note(worker: Any, session: Session, action: str, name: str, allowed: bool = True) -> None:
    """Write to the log of a node who did something with a model; other workers have none."""
    audit = getattr(worker.policy, "audit", None)
    if audit is not None:
        audit.write(session.client_id, action, obj_id=id_of_model(name), allowed=allowed)


# --- what clients ask for -------------------------------------------------------------------------------------


@handles(m.HostModelMessage)
def host_model(worker: Any, session: Session, message: m.HostModelMessage) -> None:
    """Host a model."""
    flags = message.allow_download, message.allow_remote_inference
    shelve(worker, session, HostedModel(check_name(message.name), message.contents, *flags, message.inputs))


@handles(m.ModelsMessage)
def list_models(worker: Any, session: Session, message: m.ModelsMessage) -> list[Facts]:
    """Tell which models a client may use, or all that may be known of one."""
    if message.contents is not None:
        hosted = find_model(worker, session, message.contents)
        return [{**(outline_of(worker, hosted.name) or {}), **hosted.details()}]
    rows = [outline_of(worker, name) for name in names_at(worker)]
    return [row for row in rows if row is not None and (is_shared(row) or has_say(worker, session, row["name"]))]


def is_shared(facts: Facts) -> bool:
    """Say whether others than who hosts a model may use it."""
    return bool(facts["allow_download"] or facts["allow_remote_inference"])


@handles(m.DownloadModelMessage)
def download_model(worker: Any, session: Session, message: m.DownloadModelMessage) -> OutgoingCopy:
    """Give a copy of a model that may be downloaded."""
    hosted = find_model(worker, session, message.contents)
    if not (hosted.allow_download or has_say(worker, session, hosted.name)) or not isinstance(hosted, HostedModel):
        note(worker, session, "download model", hosted.name, allowed=False)
        raise ModelError(f"The model {hosted.name!r} at {worker.id!r} may not be downloaded; its owner decides.")
    note(worker, session, "download model", hosted.name)
    model = hosted.model
    return OutgoingCopy(model.copy() if isinstance(model, Plan) else model, session, hosted.id, False)


@handles(m.DeleteModelMessage)
def delete_model(worker: Any, session: Session, message: m.DeleteModelMessage) -> None:
    """Host a model no longer."""
    hosted = find_model(worker, session, message.contents)
    if not has_say(worker, session, hosted.name):
        note(worker, session, "delete model", hosted.name, allowed=False)
        raise ModelError(
            f"The model {hosted.name!r} at {worker.id!r} is deleted by who hosted it, or by the node's owner."
        )
    worker.object_store.remove(hosted.id)
    note(worker, session, "delete model", hosted.name)


@handles(m.InferenceMessage)
def infer(worker: Any, session: Session, message: m.InferenceMessage) -> OutgoingCopy:
    """Ask a model with the values that came along, and give its answer."""
    hosted = find_model(worker, session, message.name)
    require_inference(worker, session, hosted)
    if not isinstance(hosted, HostedModel):
        raise ModelError(f"The model {hosted.name!r} is encrypted: ask it with mpc=True.")
    args = message.contents
    if not all(type(arg) in (torch.Tensor, torch.nn.Parameter) for arg in args):
        raise ModelError("A hosted model is asked with plain tensors that come along, not with what is held here.")
    try:
        result = hosted.run(args)
    except Exception as error:
        if isinstance(error, ModelError):
            raise
        may_have = hosted.allow_download or has_say(worker, session, hosted.name)
        raise failed_inference(worker, hosted, args, error, may_have) from None
    return OutgoingCopy(result, session, hosted.id, False)


def require_inference(worker: Any, session: Session, hosted: Hosted) -> None:
    """Raise unless a client may ask a model."""
    allowed = hosted.allow_remote_inference or has_say(worker, session, hosted.name)
    note(worker, session, "inference", hosted.name, allowed=allowed)
    if not allowed:
        raise ModelError(
            f"The model {hosted.name!r} at {worker.id!r} does not answer others: its owner hosts it with "
            "allow_remote_inference=True if it should."
        )


def failed_inference(worker: Any, hosted: HostedModel, args: Any, error: Exception, may_have: bool) -> ModelError:
    """Return the error of a question: with its text for a user who may have the model anyway, else without."""
    given = " and ".join(str(tuple(arg.shape)) for arg in args[:8]) or "nothing"
    built = " and ".join(map(str, hosted.inputs))
    text = f"The model {hosted.name!r} at {worker.id!r} could not be asked with {given}"
    text += f"; it was built with {built}." if built else "."
    if may_have:
        return ModelError(f"{text} {type(error).__name__}: {error}")
    return ModelError(f"{text} The {type(error).__name__} behind this may show its numbers, so it is not told.")


register(HostedModel, code=170)
pointer_kinds["model"] = ObjectPointer
