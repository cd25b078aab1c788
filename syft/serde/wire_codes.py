"""The wire codes of this library's own types. A code is for ever: a retired one is never given again."""

from __future__ import annotations

from syft.core.references import ObjectMeta, Ref, SameAs, TensorMeta
from syft.core.string import String
from syft.hook.syft_tensor import SyftTensor
from syft.messaging.call_batch import StepsMessage
from syft.messaging.message import MESSAGE_TYPES
from syft.messaging.plan.plan import Plan
from syft.messaging.plan.state import State
from syft.messaging.protocol.chain import Protocol
from syft.messaging.protocol.roles import RoleProtocol
from syft.pointers.callable_pointer import CallablePointer
from syft.pointers.multi_pointer import MultiPointerTensor
from syft.pointers.object_pointer import ObjectPointer
from syft.pointers.object_wrapper import ObjectWrapper
from syft.pointers.pointer_plan import PointerPlan
from syft.pointers.pointer_protocol import PointerProtocol
from syft.pointers.pointer_tensor import PointerTensor
from syft.pointers.string_pointer import StringPointer
from syft.serde.registry import Screen, register
from syft.tensors.additive_shared import AdditiveSharingTensor
from syft.tensors.logging import LoggingTensor
from syft.tensors.placeholder import PlaceHolder
from syft.tensors.plusisminus import PlusIsMinusTensor
from syft.tensors.polynomial import PolynomialTensor
from syft.tensors.precision import FixedPrecisionTensor
from syft.tensors.private import PrivateTensor

CODES: dict[type, int] = {
    SyftTensor: 60,
    LoggingTensor: 61,
    PlusIsMinusTensor: 62,
    PlaceHolder: 63,
    FixedPrecisionTensor: 64,
    AdditiveSharingTensor: 65,
    PolynomialTensor: 66,
    PrivateTensor: 67,
    ObjectPointer: 80,
    PointerTensor: 81,
    MultiPointerTensor: 82,
    CallablePointer: 83,
    StringPointer: 84,
    ObjectWrapper: 85,
    Ref: 86,
    TensorMeta: 87,
    ObjectMeta: 88,
    SameAs: 89,
    PointerPlan: 90,
    PointerProtocol: 91,
    Plan: 100,
    State: 101,
    Protocol: 102,
    RoleProtocol: 103,
    String: 160,
    **{message: 120 + position for position, message in enumerate(MESSAGE_TYPES)},
    StepsMessage: 144,
}

SCREENS: dict[type, Screen] = {Plan: Plan.screen}

for _cls, _code in CODES.items():
    register(_cls, code=_code, screen=SCREENS.get(_cls))
