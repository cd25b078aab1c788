"""Calls of session processes about hosted models: stored by the supervisor, run in program processes.

A user who may run a model but not download it never has it in the session process: inference runs in a process that
holds the model and the input only.
"""

from __future__ import annotations

import os
from typing import Any

from syft.exceptions import ModelError, ModelNotFoundError, NotPermittedError, QuotaExceededError, SerdeError
from syft.grid.isolation.programs.handle import fresh_program
from syft.grid.isolation.records.items import read_item
from syft.grid.isolation.supervisor.access import controls, right_of
from syft.grid.isolation.supervisor.arguments import count, flag, optional, row, text
from syft.grid.isolation.supervisor.call_table import Reply, serves
from syft.grid.isolation.supervisor.object_calls import payer_of
from syft.grid.isolation.supervisor.session_handle import SessionHandle
from syft.grid.storage.interface import Item
from syft.hosting.server import FLAGS, MAX_MODELS, MAX_USER_MODELS, PREFIX, id_of_model
from syft.messaging.hosting import check_name
from syft.mpc.serving.request_limits import spend

_ANONYMOUS = "anonymous-"
# Prefix of the purpose of a connection to a node that is the dealer of a hosted model.
DEALER = "dealer:"


def _models(caller: SessionHandle) -> list[Item]:
    items = caller.node.object_manager.items()
    found = [item for item in items if type(item.id) is str and item.id.startswith(PREFIX)]
    return sorted(found, key=lambda item: str(item.id))


def _item(caller: SessionHandle, name: str) -> Item | None:
    return caller.node.object_manager.item(id_of_model(name))


def _facts(item: Item) -> dict[str, Any]:
    owner = item.facts.owner
    if not isinstance(owner, str) or owner.startswith(_ANONYMOUS):
        owner = None
    flags = {flag: tag in item.tags for flag, tag in FLAGS.items()}
    return {"name": str(item.id).removeprefix(PREFIX), "owner": owner, **flags}


def _find(caller: SessionHandle, name: str) -> tuple[Item, dict[str, Any]]:
    """Return a model and its flags. Raises if it does not exist for the user."""
    item = _item(caller, check_name(name))
    if item is not None and right_of(caller.node, caller, item.id) is not None:
        return item, _facts(item)
    raise ModelNotFoundError(f"Worker {caller.node.worker.id!r} hosts no model {name!r} for {caller.user!r}.")


def _log(caller: SessionHandle, action: str, name: str, allowed: bool = True) -> None:
    caller.node.audit.write(caller.user, action, obj_id=id_of_model(name), allowed=allowed)


@serves("host_model", text, row)
def host_model(caller: SessionHandle, body: bytearray, name: str, row: tuple[object, ...]) -> None:
    """Store a model under a name. Only a user who controls an earlier model of that name may replace it."""
    item = read_item(row)
    if item.id != id_of_model(check_name(name)) or item.kind != "model":
        raise SerdeError("The id of a hosted model must match its name.")
    before = _item(caller, name)
    if before is None:
        _check_room(caller)
    elif not controls(caller, before):
        raise ModelError(
            f"The name {name!r} is used by another user at {caller.node.worker.id!r}. Choose another name."
        )
    stored = caller.node.object_manager.adopt(item, body, caller.user, payer_of(caller))
    for process in caller.supervisor.processes:
        if process.purpose == item.id:
            _send_model(process, stored)
    _log(caller, "host model", name)


def _check_room(caller: SessionHandle) -> None:
    items = _models(caller)
    own = sum(item.facts.owner == caller.user for item in items)
    if len(items) >= MAX_MODELS or own >= MAX_USER_MODELS:
        raise QuotaExceededError(
            f"Worker {caller.node.worker.id!r} hosts the maximum number of models. Delete one first."
        )


@serves("models")
def list_models(caller: SessionHandle, body: bytearray) -> list[dict[str, Any]]:
    """List the models that a user may use."""
    return [_facts(item) for item in _models(caller) if right_of(caller.node, caller, item.id) is not None]


@serves("model", text)
def describe_model(caller: SessionHandle, body: bytearray, name: str) -> Reply:
    """Return the flags of a model, and its details as the body."""
    item, facts = _find(caller, name)
    with fresh_program(caller.supervisor, caller.user, [item]) as program:
        return Reply(facts, program.run("model_details", (item.id,)))


@serves("download_model", text)
def download_model(caller: SessionHandle, body: bytearray, name: str) -> Reply:
    """Return a model that may be downloaded."""
    item, facts = _find(caller, name)
    if not (facts["allow_download"] or controls(caller, item)) or facts["mpc"]:
        _log(caller, "download model", name, allowed=False)
        raise ModelError(f"The model {name!r} at {caller.node.worker.id!r} may not be downloaded; its owner decides.")
    _log(caller, "download model", name)
    return Reply(None, fds=[caller.supervisor.value_fd(item)])


@serves("delete_model", text)
def delete_model(caller: SessionHandle, body: bytearray, name: str) -> None:
    """Delete a model."""
    item, _ = _find(caller, name)
    allowed = controls(caller, item)
    _log(caller, "delete model", name, allowed=allowed)
    if not allowed:
        raise ModelError(
            f"Only the user who hosts the model {name!r} at {caller.node.worker.id!r}, or the node's owner, may "
            "delete it."
        )
    caller.node.worker.object_store.remove(item.id)
    for process in caller.supervisor.processes:
        if process.purpose == item.id:
            process.end()


def require_inference(caller: SessionHandle, name: str) -> tuple[Item, dict[str, Any], bool]:
    """Return a model that a user may run, its flags, and whether the user may download it."""
    item, facts = _find(caller, name)
    is_controlled = controls(caller, item)
    allowed = facts["allow_remote_inference"] or is_controlled
    _log(caller, "inference", name, allowed=allowed)
    if not allowed:
        raise ModelError(
            f"The model {name!r} at {caller.node.worker.id!r} does not allow inference by other users. Its owner "
            "can host it with allow_remote_inference=True."
        )
    return item, facts, facts["allow_download"] or is_controlled


def prepare_party(process: SessionHandle) -> None:
    """Check that a user may have a party process, and send it this party's shares of the model."""
    if process.purpose.startswith(DEALER):
        check_name(process.purpose.removeprefix(DEALER))
        return
    name = process.purpose.removeprefix(PREFIX)
    if name == process.purpose:
        raise ModelError(f"The purpose {process.purpose[:80]!r} of a connection is not a model or a dealer.")
    item, facts, _ = require_inference(process, name)
    if not facts["mpc"]:
        raise ModelError(f"The model {name!r} is not encrypted. Use mpc=False.")
    _send_model(process, item)


def _send_model(process: SessionHandle, item: Item) -> None:
    """Send a model to a party process, where it replaces an earlier version."""
    fd = process.supervisor.value_fd(item)
    try:
        process.order("model", item.id, fds=(fd,))
    finally:
        os.close(fd)


@serves("spend_request", text, text, optional(count))
def spend_request(caller: SessionHandle, body: bytearray, name: str, version: str, limit: int | None) -> None:
    """Count a request to an encrypted model. Raises if the user has no requests left for the day."""
    if caller.purpose != id_of_model(name):
        raise SerdeError("A party process counts requests to its own model.")
    spend(caller.node.worker, caller.user, name, version, limit)


@serves("prove", flag, row)
def prove(caller: SessionHandle, body: bytearray, by_dialer: bool, parts: tuple[Any, ...]) -> bytes:
    """Sign the transcript of a proof between nodes, for a party process: it runs no calls of the user."""
    if not caller.purpose:
        raise NotPermittedError("Only the processes of hosted models and dealers prove the identity of the node.")
    if len(parts) != 6 or any(type(part) is not bytes for part in parts):
        raise SerdeError("A transcript has six parts.")
    key, own = caller.node.identity.peer_key, repr(caller.node.worker.id).encode()
    position = 0 if by_dialer else 1
    if not parts[position].endswith(key.public) or parts[2 + position] != own:
        raise SerdeError("A transcript names this node and its key.")
    return key.sign(by_dialer, parts)


@serves("infer", text)
def ask_model(caller: SessionHandle, body: bytearray, name: str) -> Reply:
    """Run a model on values of the user."""
    item, facts, may_download = require_inference(caller, name)
    if facts["mpc"]:
        raise ModelError(f"The model {name!r} is encrypted. Use mpc=True.")
    with fresh_program(caller.supervisor, caller.user, [item]) as program:
        return Reply(None, program.run("infer", (item.id, may_download), body))
