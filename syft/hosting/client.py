"""Hosting a model at a worker, and asking it there, as a client does it: for workers of every kind."""

from __future__ import annotations

from typing import Any

import torch

from syft.codes import RESPONSE_MSG
from syft.core.context import local_worker
from syft.exceptions import ModelError
from syft.hook.syft_tensor import SyftTensor
from syft.hosting.server import Facts
from syft.messaging import hosting as m
from syft.messaging.hosting import check_name
from syft.messaging.plan.plan import Plan
from syft.pointers.object_wrapper import ObjectWrapper
from syft.workers.delegation.introduction import introduce
from syft.workers.execution.copies import is_plain

Shapes = tuple[tuple[int, ...], ...]


def as_plan(model: Any, args_shape: Any = None) -> Plan:
    """Return a model as a plan that is built.

    Args:
        model: a plan, or a module.
        args_shape: the shapes of the inputs of a module, as [(1, 64)]; a plan that is built knows its own.
    """
    if isinstance(model, torch.nn.Module):
        if args_shape is None:
            raise ModelError(
                "A module is hosted as a plan: say the shapes of its inputs, serve_model(..., args_shape=[(1, 64)]), "
                "or build the plan yourself, sy.Plan(forward_func=module).build(example)."
            )
        model = Plan(name=type(model).__name__, forward_func=model)
    if not isinstance(model, Plan):
        raise ModelError(f"A {type(model).__name__} can't be hosted: give a plan, or a module.")
    if not model.is_built:
        if args_shape is None:
            raise ModelError(f"The plan {model.name!r} is not built; build it with plan.build(*examples) first.")
        model.build(*Plan._create_placeholders(args_shape))
    return model


def plain_plan(model: Any, args_shape: Any = None) -> Plan:
    """Return a model as a plan that is built and whose state is here, in clear."""
    plan = as_plan(model, args_shape)
    if not all(is_plain(tensor) for tensor in plan.state.tensors()):
        raise ModelError(f"The state of the plan {plan.name!r} is not here, or encrypted; host a plain plan.")
    return plan


def shapes_of(plan: Plan) -> Shapes:
    """Return the shapes that a plan was built with, as far as they are known."""
    return tuple(spec.shape for spec in plan._input_specs)


def name_of(model: Any, model_id: Any = None) -> str:
    """Return the name to host a model under: the one that is given, or its id."""
    given = model_id if model_id is not None else getattr(model, "id", None)
    return check_name(str(given) if isinstance(given, str | int) else given)


def inputs_of(data: Any) -> tuple[torch.Tensor, ...]:
    """Return what a model is asked with: one tensor, or several in a tuple or a list."""
    given = tuple(data) if isinstance(data, tuple | list) else (data,)
    if not given or not all(isinstance(tensor, torch.Tensor) for tensor in given):
        raise ModelError("A model is asked with a tensor, or with several in a tuple.")
    if any(isinstance(tensor, SyftTensor) for tensor in given):
        raise ModelError("A model is asked with plain tensors that are here; fetch this one with .get() first.")
    return tuple(tensor.detach() for tensor in given)


# --- at one worker of any kind --------------------------------------------------------------------------------


def host(
    worker: Any,
    model: Any,
    model_id: Any = None,
    allow_download: bool = False,
    allow_remote_inference: bool = False,
    args_shape: Any = None,
) -> None:
    """Host a model at a worker; arguments as `HostingClient.serve_model`."""
    name = name_of(model, model_id)
    content: Any
    if isinstance(model, torch.jit.ScriptModule):
        content, shapes = ObjectWrapper(model), tuple(tuple(shape) for shape in args_shape or ())
    else:
        content = plain_plan(model, args_shape)
        shapes = shapes_of(content)
    message = m.HostModelMessage(content, name, bool(allow_download), bool(allow_remote_inference), shapes)
    local_worker().send_msg(message, worker)


def facts_at(worker: Any, name: str | None = None) -> list[Facts]:
    """Return what a worker says of the models that it hosts, or of one of them."""
    found = local_worker().send_msg(m.ModelsMessage(name if name is None else check_name(name)), worker)
    if type(found) is not list or not all(type(row) is dict and type(row.get("name")) is str for row in found):
        raise ModelError(f"Worker {worker.id!r} does not say what it hosts.")
    return found


def ask(worker: Any, name: str, data: Any) -> Any:
    """Ask a model at a worker, and return its answer."""
    return local_worker().send_msg(m.InferenceMessage(inputs_of(data), check_name(name)), worker)


def download(worker: Any, name: str) -> Any:
    """Return a copy of a model of a worker."""
    found = local_worker().send_msg(m.DownloadModelMessage(check_name(name)), worker)
    return found.obj if isinstance(found, ObjectWrapper) else found


def delete(worker: Any, name: str) -> None:
    """Have a worker host a model no longer."""
    local_worker().send_msg(m.DeleteModelMessage(check_name(name)), worker)


class HostingClient:
    """What a client of a node can do with hosted models: to be inherited by a worker.

    Refusals of the node are a RuntimeError (ModelError) with its words.
    """

    @property
    def models(self) -> list[str]:
        """The names of the models that this client may use there."""
        return [row["name"] for row in facts_at(self)]

    def serve_model(
        self,
        model: Any,
        model_id: str | None = None,
        mpc: bool = False,
        allow_download: bool = False,
        allow_remote_inference: bool = False,
        args_shape: Any = None,
    ) -> bool:
        """Host a model at this node. One of the same name is replaced, if it is this user's.

        Args:
            model: a plan that is built, a module, or a script module (where the node trusts those).
            model_id: its name; by default the id of the plan.
            mpc: not at one node; an encrypted model lives at several, see `PrivateGridNetwork.serve_model`.
            allow_download: whether others may have it.
            allow_remote_inference: whether others may ask it.
            args_shape: the shapes of its inputs, for a module: [(1, 64)].
        """
        if mpc:
            raise ModelError(
                "An encrypted model lives at several nodes: sy.PrivateGridNetwork(*nodes).serve_model(..., mpc=True)."
            )
        host(self, model, model_id, allow_download, allow_remote_inference, args_shape)
        return True

    def run_remote_inference(self, model_id: str, data: Any) -> Any:
        """Ask a model that is hosted here, and return its answer.

        Args:
            model_id: the name of the model.
            data: a tensor, or a tuple of them.
        """
        return ask(self, model_id, data)

    def download_model(self, model_id: str) -> Any:
        """Return a copy of a model that may be downloaded."""
        return download(self, model_id)

    def connect_nodes(self, node: Any) -> dict[str, Any]:
        """Make this node and another one known to each other, for this client.

        Args:
            node: the other node, a NodeClient.
        """
        introduce(local_worker(), (self, node))
        return {RESPONSE_MSG.SUCCESS: True, RESPONSE_MSG.NODE_ID: node.id}

    def delete_model(self, model_id: str) -> bool:
        """Host a model no longer."""
        delete(self, model_id)
        return True
