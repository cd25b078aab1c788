"""One object of every type that can travel, and a way to compare objects exactly."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import torch

import syft as sy
from syft.core.references import ObjectMeta, Ref, SameAs, TensorMeta
from syft.federated.client.payload import Payload
from syft.federated.client.stored_dataset import StoredDataset
from syft.hosting.server import HostedModel
from syft.messaging import hosting as h
from syft.messaging import message as m
from syft.messaging.call_batch import StepsMessage
from syft.messaging.plan import Plan, State, func2plan
from syft.messaging.protocol import Protocol, RoleProtocol, func2protocol
from syft.mpc.serving.server import EncryptedModel, ModelParts
from syft.mpc.serving.tensor_encoding import TensorEncoding
from syft.pointers.pointer_plan import PointerPlan
from syft.pointers.pointer_protocol import PointerProtocol
from syft.serde import Buffer
from syft.serde.msgpack.serde import _simplified
from syft.tensors.placeholder import PlaceHolder

WIDE = 2**127 + 12345


POINTERS = frozenset({80, 81, 83, 84, 90, 91})


def exact(obj: Any) -> Any:
    """Return everything an object would send, in a form that compares: floats by their bits, sets in order.

    Whether a pointer owns what it points at is left out: one that has just arrived does not, yet.
    """
    return _plain(_simplified(None, obj))


def _plain(value: Any) -> Any:
    if type(value) is tuple:
        if value[0] in POINTERS:
            value = value[:7] + value[8:]
        parts = [_plain(part) for part in value]
        return (parts[0], *sorted(parts[1:], key=repr)) if value[:1] in ((4,), (5,)) else tuple(parts)
    if type(value) is Buffer:
        return bytes(value.view)
    return (type(value).__name__, struct.pack("<d", value) if type(value) is float else value)


def noted(tensor: torch.Tensor) -> torch.Tensor:
    tensor.__dict__.update(_syft_id=WIDE, _syft_tags={"#b", "#a"}, _syft_description="a tensor")
    return tensor


def with_grad(tensor: torch.Tensor) -> torch.Tensor:
    tensor.grad = torch.ones_like(tensor) * 3
    return tensor


class Scripted(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


# Wire code -> objects of that type, for the types that need no worker.
VALUES: dict[int, list[Any]] = {
    1: [(), (1, (2.5, "é")), (b"x" * 5000, None)],
    2: [[], [1, [2, [3]]], [float("nan"), -0.0, float("inf"), -float("inf")]],
    3: [{}, {"a": 1, (2, 3): {b"k": [None]}}],
    4: [set(), {1, "a", (2, 3)}],
    5: [frozenset(), frozenset({1.5, b"x"})],
    6: [range(0), range(3, -(2**70), -2)],
    7: [slice(None), slice(1, None, "x")],
    8: [...],
    9: [0j, complex(-0.0, float("nan"))],
    10: [b"", b"short", bytes(range(256)) * 40],
    11: [bytearray(), bytearray(b"abc"), bytearray(5000)],
    12: ["", "text é"],
    30: [np.arange(6, dtype=">i4").reshape(2, 3), np.zeros((0, 2)), np.array(True), np.arange(3000.0)],
    31: [np.float32(1.5), np.int8(-3), np.bool_(True), np.complex128(1j), np.longdouble(2.25)],
    40: [
        torch.arange(6.0).reshape(2, 3).t(),
        torch.ones(5000, dtype=torch.bfloat16),
        torch.ones((), dtype=torch.bool),
        noted(with_grad(torch.ones(2, requires_grad=True))),
        torch.zeros(0, 3, dtype=torch.complex64),
    ],
    41: [torch.nn.Parameter(torch.ones(2)), noted(with_grad(torch.nn.Parameter(torch.zeros(2, 1))))],
    42: [torch.Size([]), torch.Size([3, 0, 2**40])],
    43: [torch.device("cpu"), torch.device("cuda", 3)],
    44: [torch.float32, torch.bits8, torch.qint8],
    45: [torch.channels_last],
    46: [torch.strided, torch.sparse_coo],
    50: [torch.ones(2, 2).max(0), torch.ones(2, 2).topk(1)],
    86: [Ref(5), Ref("x", "grad"), Ref(WIDE, "")],
    87: [
        TensorMeta(torch.Size([2, 3]), torch.bfloat16, True),
        TensorMeta(torch.Size([]), torch.bool, False, torch.device("cuda", 1)),
    ],
    88: [ObjectMeta("string"), ObjectMeta("")],
    89: [SameAs(0), SameAs(3, TensorMeta(torch.Size([1]), torch.int64))],
    120: [m.Message(None), m.Message([{"a": torch.ones(2)}])],
    121: [
        m.Operation("torch.add", None, (Ref(WIDE), 3, None), {}, (WIDE + 1,)),
        m.Operation("x", None, (Ref("a", "grad"), [1.5, ...]), {"dim": 1, "out": None}, ("r", 7), False),
        m.Operation(),
    ],
    122: [m.ObjectMessage(torch.arange(3), "x", True, "me"), m.ObjectMessage(None)],
    123: [m.ObjectRequestMessage((WIDE, None, "why")), m.ObjectRequestMessage(())],
    124: [m.IsNoneMessage(Ref(1, "grad"))],
    125: [m.GetShapeMessage(Ref(WIDE))],
    126: [m.ForceObjectDeleteMessage("x")],
    127: [m.RetainMessage(2**64)],
    128: [m.ReleaseMessage(()), m.ReleaseMessage((1, "b", WIDE))],
    129: [m.HandOverMessage(1, "bob", -(2**200), True)],
    130: [m.FetchThereMessage(0)],
    131: [m.SearchMessage(["#a", 5]), m.SearchMessage(("#a",))],
    132: [m.BatchMessage((m.RetainMessage(1), m.BatchMessage((m.Message(2),))))],
    133: [m.PlanCommandMessage(("p", True), "fetch_plan")],
    134: [m.ErrorMessage(("ValueError", "no", ""))],
    135: [m.PublishMessage(WIDE)],
    136: [m.ClaimMessage("é")],
    137: [
        m.RunMessage((Ref(1), 2, [Ref(3)]), WIDE, "product", ("alice", 7), "carol", {"divisor": 65536}, WIDE),
        m.RunMessage((), 1, "open", ("a", "b"), None, {}, "r"),
    ],
    138: [m.RequestReleaseMessage(WIDE, "for a paper")],
    139: [m.RequestStatusMessage("0f")],
    140: [m.ListRightsMessage("requests", "pending"), m.ListRightsMessage("audit")],
    141: [m.DecideRequestMessage("0f", True, "sources", 60.5, "thanks"), m.DecideRequestMessage("0f")],
    142: [m.RevokeGrantMessage("0f")],
    143: [m.ShareSourceMessage("data", ("alice", 7), True)],
    144: [
        StepsMessage(()),
        StepsMessage(
            (
                (b"", True, "torch.add", bytes(16), bytes(range(16)), 2.5),
                (bytes(32), False, "torch.Tensor.__add__", b"\xff" * 16, b"a" * 16, None, True, -(2**63)),
            )
        ),
    ],
    150: [h.HostModelMessage(None, "net", True, False, ((1, 2), ()))],
    151: [h.HostSharesMessage((1, ("x",)), "net", True)],
    152: [h.ModelsMessage("net"), h.ModelsMessage()],
    153: [h.DownloadModelMessage("net")],
    154: [h.DeleteModelMessage("Röntgen")],
    155: [h.InferenceMessage((torch.ones(2),), "net")],
    156: [h.SharedInferenceMessage((torch.ones(2, dtype=torch.int64),), "net", "0f", WIDE, "r")],
}


def plans() -> list[Plan]:
    """Return a plan with a state, arguments by name and a nested result, and one that is not built."""

    @func2plan(args_shape=[(2,)], state=(torch.ones(2), torch.zeros(5000)))
    def built(x, state):
        one, zeros = state.read()
        y = torch.sum(x * one + 1, dim=0, keepdim=True)
        return {"a": [y, zeros[1:3]], "b": (x, 2.5)}

    unbuilt = Plan("unbuilt", id="p", tags={"#plan"}, description="later")
    return [built.tag("#p").describe("d"), unbuilt]


def protocol(**labels: Any) -> Protocol:
    """Return a protocol of two plans at two places."""

    @func2plan(args_shape=[(1,)])
    def double(x):
        return x * 2

    return Protocol([("first", double), ("second", double)], **labels)


def roles() -> RoleProtocol:
    """Return a protocol between two roles, one of them with a state."""

    @func2protocol(args_shape={"alice": [(1,)], "bob": [(1,)]}, states={"bob": [torch.full((1,), 10.0)]})
    def add(alice, bob):
        (x,) = alice.inputs
        (y,) = bob.inputs
        (w,) = bob.read()
        return x.send(bob) + y * w

    return add


def hosted_part() -> EncryptedModel:
    """Return one party's part of an encrypted model."""
    encoding = TensorEncoding((1, 2), 2**16, 2**62)
    given, rows = (0, torch.ones(2, dtype=torch.int64)), (encoding.to_row(),)
    return EncryptedModel("net", True, ModelParts((), (0,), given, ("alice", 7), "carol", rows, rows, "0f"))


def chains(me: Any, bob: Any, alice: Any) -> dict[int, list[Any]]:
    """Return objects of the types that belong to a worker; pointers are to bob, who keeps what they point at."""
    tensor = torch.ones(2, 3).tag("#t").describe("d").send(bob)
    text = sy.String("abc").tag("#s").send(bob)
    wrapper = sy.ObjectWrapper({"a": (1, 2)}, id="w", tags=["#w"])
    shared = torch.ones(2).fix_precision().share(bob, alice)
    large = torch.tensor([1.5, -9e16]).fix_precision(precision_fractional=128, internal_type=torch.int16)
    residues = torch.tensor([3, -4]).fix_precision(storage="crt")
    key, _private = sy.keygen(n_length=256)
    return {
        60: [sy.LoggingTensor(id="l").on(torch.ones(2)), tensor],
        61: [sy.LoggingTensor(id="l", tags=["#l"], description="d").on(torch.ones(2), wrap=False)],
        62: [sy.PlusIsMinusTensor(id=WIDE).on(torch.ones(2), wrap=False)],
        63: [PlaceHolder(id="h", tags={"#inner"}), PlaceHolder(id=1, description="w", child=torch.ones(2))],
        64: [torch.tensor([1.5, -2.0]).fix_precision(base=2, precision_fractional=16).child, shared.child],
        65: [shared.child.child, torch.arange(3).share(bob, alice, crypto_provider=me, protocol="fss").child],
        66: [sy.PolynomialTensor(id=3).add_function("sigmoid", 3, [[-4, 0], [0, 4]]).on(torch.ones(2), wrap=False)],
        74: [sy.AutogradTensor(torch.ones(2), id=5, tags=["#a"]), sy.AutogradTensor(shared.child.child, False)],
        67: [sy.PrivateTensor(id=4, allowed_users=["alice", 7], tags=["#p"]).on(torch.ones(2), wrap=False)],
        75: [torch.tensor([1.5, -2.0]).tag("#e").encrypt(key).child, torch.arange(2).encrypt(key).child + 1],
        175: [key],
        80: [sy.ObjectPointer(bob, WIDE, me, id="p", garbage_collect_data=False)],
        81: [tensor.child],
        82: [torch.ones(2).tag("#m").send(bob, alice).child],
        83: [sy.CallablePointer(bob, "c", me, id=5, garbage_collect_data=False, point_to_attr="forward")],
        84: [text],
        85: [wrapper],
        90: [PointerPlan(bob, WIDE, me, garbage_collect_data=False, id="pp", tags={"#p"})],
        91: [PointerProtocol(bob, "proto", me, id=WIDE, garbage_collect_data=False)],
        100: plans(),
        102: [protocol(), protocol(id="p", tags={"#p"}, description="d").deploy(bob, alice), Protocol(id=0)],
        101: [plans()[0].state, State()],
        103: [roles(), roles().deploy(alice=alice, bob=bob)],
        161: [bob],
        170: [HostedModel("net", plans()[0], True, False, ((1, 2),))],
        171: [hosted_part()],
        172: [StoredDataset(torch.ones(2, 3), torch.tensor([0, 1]))],
        231: [large.child, large.share(bob, alice).child, sy.LargePrecisionTensor(id=6).on(torch.ones(2), wrap=False)],
        232: [residues.child, residues.share(bob, alice).child],
        233: [sy.NumpyTensor([[1.5, 2.0]]).tag("#n").child],
        163: [
            sy.TrainConfig(id="c", model_id=WIDE, loss_fn_id="l", max_nr_batches=7, optimizer_args={"betas": (0, 1)})
        ],
        164: [
            Payload({"update": torch.arange(3.0), "plan": plans()[0], "modifiers": {"proximal": {"mu": 0.5}}}),
            Payload({}),
        ],
        160: [sy.String("héllo", id=5, tags=["#s"], description="said"), sy.String("", id="empty")],
    }


def scripts() -> dict[int, list[Any]]:
    """Return a script module, a script function and a traced module."""
    return {
        47: [torch.jit.script(Scripted())],
        48: [torch.jit.script(double)],
        49: [torch.jit.trace(Scripted(), torch.ones(2))],
    }
