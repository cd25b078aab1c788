"""At least one message of every type that there is, as a client would send it: where mutations begin."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

import syft as sy
from syft.core.references import ObjectMeta, Ref, SameAs, TensorMeta
from syft.messaging import hosting as h
from syft.messaging import message as m
from syft.messaging.call_batch import StepsMessage, write_ids
from syft.pointers import ObjectWrapper
from syft.pointers.pointer_plan import COPY_PLAN, PLAN_PARAMETERS, RUN_PLAN
from syft.serde.registry import BY_CODE

_REF = Ref(2)
_META = TensorMeta(torch.Size([2, 3]), torch.float32)


def linear() -> sy.Plan:
    """A plan with a state."""
    module = torch.nn.Linear(3, 1)
    return sy.Plan(name="linear", forward_func=module, id=10).build(torch.zeros(1, 3))


def _operations() -> Iterable[m.Operation]:
    return (
        m.Operation("torch.Tensor.add", None, (_REF, _REF), {"alpha": 2}, (100,)),
        m.Operation("torch.nn.functional.linear", None, (_REF, Ref(2, "data")), {}, (101,), False),
        m.Operation("torch.cat", None, ([_REF, _REF], 0), {}, (102,)),
        m.Operation("torch.Tensor.sort", None, (Ref(6),), {"dim": 0}, ("result",)),
        m.Operation("torch.Tensor.__getitem__", None, (_REF, (slice(0, 1, None), ...)), {}, (103,)),
        m.Operation("torch.Tensor.add_", None, (Ref(6), 1.5), {}, (104,)),
        m.Operation("torch.zeros", None, (2, 3), {"dtype": torch.float64}, (105,)),
        m.Operation("torch.tensor", None, ([1.0, 2.0, range(3)],), {}, (106,)),
        m.Operation("str.replace", None, (Ref(4), "t", "T"), {}, (107,)),
        m.Operation("str.__mod__", None, ("%5s %d", ("a", 3)), {}, (108,)),
        m.Operation("syft.tag", None, (Ref(3), "#three"), {}, ()),
        m.Operation("syft.describe", None, (Ref(3), "three"), {}, ()),
        m.Operation("syft.call", None, (Ref(5), _REF), {}, (109,)),
        m.Operation("torch.Tensor.item", None, (Ref(6),), {}, (110,)),
        m.Operation("torch.Tensor.tolist", None, (Ref(1),), {}, (111,)),
        m.Operation(RUN_PLAN, None, (Ref(10), _REF), {}, (112,)),
        m.Operation(COPY_PLAN, None, (Ref(10),), {}, (113,)),
        m.Operation(PLAN_PARAMETERS, None, (Ref(10),), {}, (114,)),
    )


def _steps() -> StepsMessage:
    one, two, three = (write_ids((number,)) for number in (2, 120, 121))
    return StepsMessage(
        ((b"", True, "torch.Tensor.add", two, one, one), (two, False, "torch.Tensor.mul", three, one, 1.5))
    )


def _objects(far: Any) -> Iterable[m.ObjectMessage]:
    x = torch.arange(12.0).view(3, 4)
    x.grad = torch.ones(3, 4)
    x.tag("#sent")
    return (
        m.ObjectMessage(x, 200, False),
        m.ObjectMessage(torch.nn.Parameter(torch.ones(5)), 201, True),
        m.ObjectMessage(sy.String("text", tags={"#t"}, description="d"), 202, False),
        m.ObjectMessage(far, 203, False),
        m.ObjectMessage(sy.LoggingTensor().on(torch.ones(3)), 204, False),
        m.ObjectMessage(ObjectWrapper([1, {"a": {2, 3}}, (1j, b"bytes", bytearray(b"x"))], id=9), 205, False),
        m.ObjectMessage(linear(), 206, False),
        m.ObjectMessage(torch.ones(3).fix_precision(), 207, False),
    )


def samples(far: Any) -> list[m.Message]:
    """Return messages of every type.

    Args:
        far: a pointer of the receiver to something at another worker.
    """
    operations = tuple(_operations())
    return [
        *operations,
        *_objects(far),
        m.Message("anything"),
        m.ObjectRequestMessage((1, "bob", "please")),
        m.ObjectRequestMessage((3, None, "")),
        m.IsNoneMessage(Ref(2, "grad")),
        m.GetShapeMessage(Ref(2, "data.T")),
        m.ForceObjectDeleteMessage(3),
        m.RetainMessage("name"),
        m.ClaimMessage(3),
        m.PublishMessage(3),
        m.ReleaseMessage((3, 4, "name")),
        m.HandOverMessage(3, "alice", 300, False),
        m.HandOverMessage(4, "alice", 301, True),
        m.FetchThereMessage(7),
        m.SearchMessage(["#secret"]),
        m.SearchMessage([]),
        m.BatchMessage(
            (operations[0], m.IsNoneMessage(_REF), m.BatchMessage(()), m.ObjectRequestMessage((6, None, "")))
        ),
        m.PlanCommandMessage((1, True), "fetch_plan"),
        m.PlanCommandMessage((10, True), "fetch_plan"),
        m.RunMessage((Ref(6), Ref(6)), 900, "mul", ("nobody", "alice"), "alice", {"matmul": False}, 130),
        _steps(),
        m.RequestReleaseMessage(1, "for the report"),
        m.RequestStatusMessage("some request"),
        m.ListRightsMessage("requests", "pending"),
        m.DecideRequestMessage("some request", True, "sources", 60.0, "fine"),
        m.RevokeGrantMessage("some grant"),
        m.ShareSourceMessage(1, ("bob", "eve"), True),
        m.ErrorMessage(("KeyError", "text", "where")),
        m.BatchMessage(
            (m.SearchMessage([1, "two"]), m.ObjectMessage([_META, ObjectMeta("string"), SameAs(0, _META)], 1))
        ),
        h.HostModelMessage(linear(), "model", True, True, ((1, 3),)),
        h.HostSharesMessage((("nobody", "alice"), "alice", (Ref(6),), "version"), "shares", True),
        h.ModelsMessage(None),
        h.DownloadModelMessage("model"),
        h.DeleteModelMessage("model"),
        h.InferenceMessage((torch.ones(1, 3),), "model"),
        h.SharedInferenceMessage((Ref(6),), "shares", "version", 901, 131),
    ]


def message_types() -> set[type]:
    """Return every type of message that has a code, so that bytes can become one."""
    return {row.cls for row in BY_CODE.values() if issubclass(row.cls, m.Message)}
