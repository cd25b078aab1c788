"""The calls of clients that host models at workers of any kind, and query them there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

    _Worker = BaseWorker
else:
    _Worker = object  # the mixin must not add BaseWorker to the bases of a class

Shapes = tuple[tuple[int, ...], ...]
# The input shapes of a model: [(1, 64)].
ArgsShape = Sequence[Sequence[int]]


def plain_plan(model: object, args_shape: ArgsShape | None = None) -> Plan:
    """Return a model as a built plan with a plain, local state; a module needs its input shapes, as [(1, 64)]."""
    if isinstance(model, torch.nn.Module):
        if args_shape is None:
            raise ModelError(
                "A module is hosted as a plan, which needs its input shapes. Pass serve_model(..., "
                "args_shape=[(1, 64)]), or build the plan: sy.Plan(forward_func=module).build(example)."
            )
        model = Plan(name=type(model).__name__, forward_func=model)
    if not isinstance(model, Plan):
        raise ModelError(f"A {type(model).__name__} can't be hosted. Pass a plan or a module.")
    if not model.is_built:
        if args_shape is None:
            raise ModelError(f"The plan {model.name!r} is not built. Build it first with plan.build(*examples).")
        model.build(*Plan._create_placeholders(args_shape))
    if not all(is_plain(tensor) for tensor in model.state.tensors()):
        raise ModelError(
            f"The state of the plan {model.name!r} is remote or encrypted. Host a plan with a plain, local state."
        )
    return model


def shapes_of(plan: Plan) -> Shapes:
    """Return the shapes that a plan was built with, as far as they are known."""
    return tuple(tuple(spec.shape) for spec in plan._input_specs)


def name_of(model: object, model_id: object = None) -> str:
    """Return the name to host a model under: `model_id`, or the id of the model."""
    given = model_id if model_id is not None else getattr(model, "id", None)
    return check_name(str(given) if isinstance(given, str | int) else given)


def inputs_of(data: object) -> tuple[torch.Tensor, ...]:
    """Return the inputs of a query: one tensor, or several in a tuple or a list."""
    given = tuple(data) if isinstance(data, tuple | list) else (data,)
    if not given or not all(isinstance(tensor, torch.Tensor) for tensor in given):
        raise ModelError("The data of a query must be a tensor, or a tuple of tensors.")
    if any(isinstance(tensor, SyftTensor) for tensor in given):
        raise ModelError("The data of a query must be plain tensors of this process. Fetch pointers with .get() first.")
    return tuple(tensor.detach() for tensor in given)


# --- calls to one worker --------------------------------------------------------------------------------------


def host(
    worker: BaseWorker,
    model: object,
    model_id: str | int | None = None,
    allow_download: bool = False,
    allow_remote_inference: bool = False,
    args_shape: ArgsShape | None = None,
) -> None:
    """Host a model at a worker; arguments as `HostingClient.serve_model`."""
    name = name_of(model, model_id)
    content: ObjectWrapper | Plan
    if isinstance(model, torch.jit.ScriptModule):
        content, shapes = ObjectWrapper(model), tuple(tuple(shape) for shape in args_shape or ())
    else:
        plan = plain_plan(model, args_shape)
        content, shapes = plan, shapes_of(plan)
    message = m.HostModelMessage(content, name, bool(allow_download), bool(allow_remote_inference), shapes)
    local_worker().send_msg(message, worker)


def facts_at(worker: BaseWorker, name: str | None = None) -> list[Facts]:
    """Return the facts that a worker states about the models that it hosts, or about one of them."""
    found = local_worker().send_msg(m.ModelsMessage(name if name is None else check_name(name)), worker)
    if type(found) is not list or not all(type(row) is dict and type(row.get("name")) is str for row in found):
        raise ModelError(f"Worker {worker.id!r} sent an invalid list of models.")
    return found


def query(worker: BaseWorker, name: str, data: object) -> Any:
    """Query a model at a worker, and return its result."""
    return local_worker().send_msg(m.InferenceMessage(inputs_of(data), check_name(name)), worker)


def download(worker: BaseWorker, name: str) -> Any:
    """Download a model from a worker."""
    found = local_worker().send_msg(m.DownloadModelMessage(check_name(name)), worker)
    return found.obj if isinstance(found, ObjectWrapper) else found


def delete(worker: BaseWorker, name: str) -> None:
    """Delete a model at a worker."""
    local_worker().send_msg(m.DeleteModelMessage(check_name(name)), worker)


class HostingClient(_Worker):
    """The methods of a node's client for hosted models: a mixin for workers.

    If the node refuses a request, they raise a ModelError, which is a RuntimeError.
    """

    @property
    def models(self) -> list[str]:
        """The names of the models at this node that this client may use."""
        return [row["name"] for row in facts_at(self)]

    def serve_model(
        self,
        model: torch.nn.Module | Plan,
        model_id: str | None = None,
        mpc: bool = False,
        allow_download: bool = False,
        allow_remote_inference: bool = False,
        args_shape: ArgsShape | None = None,
    ) -> bool:
        """Host a model at this node. It replaces a model of this user with the same name.

        Args:
            model: a built plan, a module, or a script module (if the node trusts those).
            model_id: the name of the model; by default the id of the plan.
            mpc: not supported by one node; for encrypted models see `PrivateGridNetwork.serve_model`.
            allow_download: whether other users may download it.
            allow_remote_inference: whether other users may query it.
            args_shape: the input shapes of a module: [(1, 64)].
        """
        if mpc:
            raise ModelError(
                "serve_model(..., mpc=True) needs several nodes. "
                "Call sy.PrivateGridNetwork(*nodes).serve_model(..., mpc=True)."
            )
        host(self, model, model_id, allow_download, allow_remote_inference, args_shape)
        return True

    def run_remote_inference(self, model_id: str, data: object) -> Any:
        """Query a model that is hosted here, and return its result.

        Args:
            model_id: the name of the model.
            data: a tensor, or a tuple of them.
        """
        return query(self, model_id, data)

    def download_model(self, model_id: str) -> Any:
        """Download a model, if that is allowed."""
        return download(self, model_id)

    def connect_nodes(self, node: BaseWorker) -> dict[str, Any]:
        """Introduce this node and another one to each other, for this client.

        Args:
            node: the other node, a NodeClient.
        """
        introduce(local_worker(), (self, node))
        return {RESPONSE_MSG.SUCCESS: True, RESPONSE_MSG.NODE_ID: node.id}

    def delete_model(self, model_id: str) -> bool:
        """Delete a model."""
        delete(self, model_id)
        return True
