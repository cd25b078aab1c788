"""Hosted models at a node: stored by the supervisor, asked in program processes.

A user who may ask a model, but not download it, never has it in the own session process: the model and the question
meet in a process that holds nothing else.
"""

from __future__ import annotations

import os
from typing import Any

from syft.core.labels import tags_of
from syft.exceptions import ModelError, ModelNotFoundError, NotPermittedError, QuotaExceededError, SerdeError
from syft.grid.isolation.processes.channel import Frame
from syft.grid.isolation.programs.handle import fresh_program
from syft.grid.isolation.records.items import read_item
from syft.grid.isolation.supervisor.access import right_of
from syft.grid.isolation.supervisor.arguments import count, flag, optional, row, text
from syft.grid.isolation.supervisor.call_table import Principal, Reply, serves
from syft.grid.isolation.supervisor.object_calls import payer_of, value_fd
from syft.grid.isolation.supervisor.session_handle import SessionHandle
from syft.grid.isolation.supervisor.supervisor import Supervisor
from syft.grid.storage.interface import Item
from syft.hosting.server import FLAGS, MAX_MODELS, MAX_USER_MODELS, PREFIX, id_of_model
from syft.messaging.hosting import check_name
from syft.mpc.serving.request_limits import spend

_ANONYMOUS = "anonymous-"
# What the purpose of a connection to a node begins with that deals for the parties of a hosted model.
DEALER = "dealer:"


def _names(supervisor: Supervisor) -> list[str]:
    ids = supervisor.node.worker.object_store.outlines()
    return sorted(i.removeprefix(PREFIX) for i in ids if type(i) is str and i.startswith(PREFIX))


def _item(supervisor: Supervisor, name: str) -> Item | None:
    found: Item | None = supervisor.node.keeper.item(id_of_model(name))
    return found


def _has_say(principal: Principal, item: Item) -> bool:
    return principal.role == "owner" or (item.facts.owner is not None and item.facts.owner == principal.user)


def _facts(supervisor: Supervisor, name: str) -> dict[str, Any]:
    outline = supervisor.node.worker.object_store.outlines()[id_of_model(name)]
    item, tags = _item(supervisor, name), tags_of(outline)
    owner = None if item is None else item.facts.owner
    if not isinstance(owner, str) or owner.startswith(_ANONYMOUS):
        owner = None
    return {"name": name, "owner": owner, **{flag: tag in tags for flag, tag in FLAGS.items()}}


def _find(supervisor: Supervisor, principal: Principal, name: Any) -> tuple[Item, dict[str, Any]]:
    """Return a model that a user may know of; one that nobody else may use does not exist for others."""
    item = _item(supervisor, check_name(name))
    if item is not None and right_of(supervisor.node, principal, item.id) is not None:
        return item, _facts(supervisor, name)
    raise ModelNotFoundError(f"Worker {supervisor.node.worker.id!r} hosts no model {name!r} for {principal.user!r}.")


def _note(supervisor: Supervisor, principal: Principal, action: str, name: str, allowed: bool = True) -> None:
    supervisor.node.audit.write(principal.user, action, obj_id=id_of_model(name), allowed=allowed)


@serves("host_model", text, row)
def host_model(supervisor: Supervisor, principal: Principal, frame: Frame, name: Any, row: Any) -> None:
    """Store a model under a name, in place of an earlier one only for a user who may change that."""
    item = read_item(row)
    if item.id != id_of_model(check_name(name)) or item.kind != "model":
        raise SerdeError("A model is hosted under its name.")
    before = _item(supervisor, name)
    if before is None:
        _check_room(supervisor, principal)
    elif not _has_say(principal, before):
        raise ModelError(
            f"The name {name!r} is taken at {supervisor.node.worker.id!r} by somebody else; choose another."
        )
    stored = supervisor.node.keeper.adopt(item, frame.body, principal.user, payer_of(principal))
    for process in supervisor.processes:
        if process.purpose == item.id:
            _hand_over(supervisor, process, stored)
    _note(supervisor, principal, "host model", name)


def _check_room(supervisor: Supervisor, principal: Principal) -> None:
    items = [_item(supervisor, name) for name in _names(supervisor)]
    own = sum(item is not None and item.facts.owner == principal.user for item in items)
    if len(items) >= MAX_MODELS or own >= MAX_USER_MODELS:
        raise QuotaExceededError(
            f"Worker {supervisor.node.worker.id!r} hosts as many models as it may; delete one first."
        )


@serves("models")
def list_models(supervisor: Supervisor, principal: Principal, frame: Frame) -> Any:
    """List the models that a user may use."""
    names = _names(supervisor)
    return [
        _facts(supervisor, name)
        for name in names
        if right_of(supervisor.node, principal, id_of_model(name)) is not None
    ]


@serves("model", text)
def describe_model(supervisor: Supervisor, principal: Principal, frame: Frame, name: Any) -> Any:
    """Return what a user may know of a model: its flags, and as the body its details."""
    item, facts = _find(supervisor, principal, name)
    with fresh_program(supervisor, principal.user, [(item.id, value_fd(supervisor, item))]) as program:
        return Reply(facts, program.run("model_details", (item.id,)))


@serves("download_model", text)
def download_model(supervisor: Supervisor, principal: Principal, frame: Frame, name: Any) -> Any:
    """Return a model that may be downloaded."""
    item, facts = _find(supervisor, principal, name)
    if not (facts["allow_download"] or _has_say(principal, item)) or facts["mpc"]:
        _note(supervisor, principal, "download model", name, allowed=False)
        raise ModelError(
            f"The model {name!r} at {supervisor.node.worker.id!r} may not be downloaded; its owner decides."
        )
    _note(supervisor, principal, "download model", name)
    return Reply(None, fds=[value_fd(supervisor, item)])


@serves("delete_model", text)
def delete_model(supervisor: Supervisor, principal: Principal, frame: Frame, name: Any) -> None:
    """Host a model no longer."""
    item, _ = _find(supervisor, principal, name)
    allowed = _has_say(principal, item)
    _note(supervisor, principal, "delete model", name, allowed=allowed)
    if not allowed:
        raise ModelError(
            f"The model {name!r} at {supervisor.node.worker.id!r} is deleted by the user who hosted it, or by the "
            "node's owner."
        )
    supervisor.node.worker.object_store.remove(item.id)
    for process in supervisor.processes:
        if process.purpose == item.id:
            process.end()


def require_inference(supervisor: Supervisor, principal: Principal, name: Any) -> tuple[Item, dict[str, Any], bool]:
    """Return a model that a user may ask, its flags, and whether the user may have the model itself."""
    item, facts = _find(supervisor, principal, name)
    has_say = _has_say(principal, item)
    allowed = facts["allow_remote_inference"] or has_say
    _note(supervisor, principal, "inference", name, allowed=allowed)
    if not allowed:
        raise ModelError(
            f"The model {name!r} at {supervisor.node.worker.id!r} does not answer others: its owner hosts it with "
            "allow_remote_inference=True if it should."
        )
    return item, facts, facts["allow_download"] or has_say


def prepare_party(supervisor: Supervisor, process: SessionHandle) -> None:
    """Check that a user may have a party process, and hand it this party's part of the model."""
    if process.purpose.startswith(DEALER):
        check_name(process.purpose.removeprefix(DEALER))
        return
    name = process.purpose.removeprefix(PREFIX)
    if name == process.purpose:
        raise ModelError("A connection is for everything, for a model or for a dealer.")
    item, facts, _ = require_inference(supervisor, Principal(process.user, process.role, process), name)
    if not facts["mpc"]:
        raise ModelError(f"The model {name!r} is not encrypted: ask it with mpc=False.")
    _hand_over(supervisor, process, item)


def _hand_over(supervisor: Supervisor, process: SessionHandle, item: Item) -> None:
    """Hand a model to a party process, in place of an earlier version."""
    fd = value_fd(supervisor, item)
    try:
        process.order("model", item.id, fds=(fd,))
    finally:
        os.close(fd)


@serves("spend_request", text, text, optional(count))
def spend_request(
    supervisor: Supervisor, principal: Principal, frame: Frame, name: Any, version: Any, limit: Any
) -> None:
    """Count a request to an encrypted model; raises when the user has used up the requests of the day."""
    if principal.process.purpose != id_of_model(str(name)):
        raise SerdeError("A party process counts requests to its own model.")
    spend(supervisor.node.worker, principal.user, str(name), str(version), limit)


@serves("prove", flag, row)
def prove(supervisor: Supervisor, principal: Principal, frame: Frame, by_dialer: Any, parts: Any) -> Any:
    """Sign the transcript of a proof between nodes, for a party process: no user's call runs there."""
    if not principal.process.purpose:
        raise NotPermittedError("Only the processes of hosted models and dealers prove the identity of the node.")
    if type(parts) is not tuple or len(parts) != 6 or any(type(part) is not bytes for part in parts):
        raise SerdeError("A transcript has six parts.")
    key, own = supervisor.node.identity.peer_key, repr(supervisor.node.worker.id).encode()
    position = 0 if by_dialer else 1
    if not parts[position].endswith(key.public) or parts[2 + position] != own:
        raise SerdeError("A transcript names this node and its key.")
    return key.sign(bool(by_dialer), parts)


@serves("infer", text)
def ask_model(supervisor: Supervisor, principal: Principal, frame: Frame, name: Any) -> Any:
    """Ask a model with the values that came along."""
    item, facts, may_have = require_inference(supervisor, principal, name)
    if facts["mpc"]:
        raise ModelError(f"The model {name!r} is encrypted: ask it with mpc=True.")
    with fresh_program(supervisor, principal.user, [(item.id, value_fd(supervisor, item))]) as program:
        return Reply(None, program.run("infer", (item.id, may_have), frame.body))
