"""The wire codes of this library: one table of code and type. A code is permanent: never change or reuse one.

    1-29     Python's own types        80-99     pointers and references     160-199   other types
    30-39    numpy                     100-119   plans and protocols         200-999   reserved: the next ranges
    40-59    torch                     120-159   messages                    1000-     types of users
    60-79    links of tensor chains

A new type takes the next free code of its range; when a range is full, it continues at the first free code from 200.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import EllipsisType

import numpy as np
import torch
from torch.jit._trace import TopLevelTracedModule

from syft.core.references import ObjectMeta, Ref, SameAs, TensorMeta
from syft.core.string import String
from syft.exceptions import GetNotPermittedError, ResponseSignatureError, SerdeError
from syft.he.paillier import PRIVATE_KEY, PublicKeyCodec
from syft.he.paillier_tensor import PaillierTensor
from syft.hook.syft_tensor import SyftTensor
from syft.messaging import hosting as h
from syft.messaging import message as m
from syft.messaging.call_batch import StepsMessage
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
from syft.serde.msgpack import exception_serde, native_serde, numpy_serde, torch_serde
from syft.serde.registry import Screen, TypeCodec, refuse, register
from syft.tensors.additive_shared import AdditiveSharingTensor
from syft.tensors.autograd import AutogradTensor
from syft.tensors.crt_precision import CRTPrecisionTensor
from syft.tensors.large_precision import LargePrecisionTensor
from syft.tensors.logging import LoggingTensor
from syft.tensors.numpy_tensor import NumpyTensor
from syft.tensors.placeholder import PlaceHolder
from syft.tensors.plusisminus import PlusIsMinusTensor
from syft.tensors.polynomial import PolynomialTensor
from syft.tensors.precision import FixedPrecisionTensor
from syft.tensors.private import PrivateTensor

Row = tuple[int, type | str]


def build_table(rows: Iterable[Row]) -> dict[int, type | str]:
    """Return rows of code and type as a dict; a code that occurs twice is refused."""
    table: dict[int, type | str] = {}
    for code, cls in rows:
        if code in table:
            raise SerdeError(f"The wire code {code} of {cls} already belongs to {table[code]}; choose a free one.")
        table[code] = cls
    return table


# A type of a package above this one stands here by name; its own module registers it with this code.
CODES: dict[int, type | str] = build_table(
    (
        (1, tuple),
        (2, list),
        (3, dict),
        (4, set),
        (5, frozenset),
        (6, range),
        (7, slice),
        (8, EllipsisType),
        (9, complex),
        (10, bytes),
        (11, bytearray),
        (12, str),  # for the documented tables: a string stands for itself in a message
        (30, np.ndarray),
        (31, np.generic),
        (40, torch.Tensor),
        (41, torch.nn.Parameter),
        (42, torch.Size),
        (43, torch.device),
        (44, torch.dtype),
        (45, torch.memory_format),
        (46, torch.layout),
        (47, torch.jit.ScriptModule),
        (48, torch.jit.ScriptFunction),
        (49, TopLevelTracedModule),
        (50, torch.return_types.max),
        (60, SyftTensor),
        (61, LoggingTensor),
        (62, PlusIsMinusTensor),
        (63, PlaceHolder),
        (64, FixedPrecisionTensor),
        (65, AdditiveSharingTensor),
        (66, PolynomialTensor),
        (67, PrivateTensor),
        (74, AutogradTensor),
        (75, PaillierTensor),
        (80, ObjectPointer),
        (81, PointerTensor),
        (82, MultiPointerTensor),
        (83, CallablePointer),
        (84, StringPointer),
        (85, ObjectWrapper),
        (86, Ref),
        (87, TensorMeta),
        (88, ObjectMeta),
        (89, SameAs),
        (90, PointerPlan),
        (91, PointerProtocol),
        (100, Plan),
        (101, State),
        (102, Protocol),
        (103, RoleProtocol),
        (120, m.Message),
        (121, m.Operation),
        (122, m.ObjectMessage),
        (123, m.ObjectRequestMessage),
        (124, m.IsNoneMessage),
        (125, m.GetShapeMessage),
        (126, m.ForceObjectDeleteMessage),
        (127, m.RetainMessage),
        (128, m.ReleaseMessage),
        (129, m.HandOverMessage),
        (130, m.FetchThereMessage),
        (131, m.SearchMessage),
        (132, m.BatchMessage),
        (133, m.PlanCommandMessage),
        (134, m.ErrorMessage),
        (135, m.PublishMessage),
        (136, m.ClaimMessage),
        (137, m.RunMessage),
        (138, m.RequestReleaseMessage),
        (139, m.RequestStatusMessage),
        (140, m.ListRightsMessage),
        (141, m.DecideRequestMessage),
        (142, m.RevokeGrantMessage),
        (143, m.ShareSourceMessage),
        (144, StepsMessage),
        (150, h.HostModelMessage),
        (151, h.HostSharesMessage),
        (152, h.ModelsMessage),
        (153, h.DownloadModelMessage),
        (154, h.DeleteModelMessage),
        (155, h.InferenceMessage),
        (156, h.SharedInferenceMessage),
        (160, String),
        (161, "BaseWorker"),
        (162, "BaseWorker"),  # with all of its objects
        (163, "TrainConfig"),
        (164, "Payload"),
        (170, "HostedModel"),
        (171, "EncryptedModel"),
        (172, "StoredDataset"),
        (173, GetNotPermittedError),
        (174, ResponseSignatureError),
        (231, LargePrecisionTensor),
        (232, CRTPrecisionTensor),
        (233, NumpyTensor),
        (175, PublicKeyCodec),
    )
)
# Types that do not bring `simplify` and `detail` of their own.
CODECS: dict[type, TypeCodec] = native_serde.CODECS | numpy_serde.CODECS | torch_serde.CODECS | exception_serde.CODECS
SCREENS: dict[type, Screen] = {Plan: Plan.screen}


def _register_types() -> None:
    for code, cls in CODES.items():
        if isinstance(cls, str):
            continue
        codec = CODECS.get(cls)
        if codec is None:
            register(cls, code=code, screen=SCREENS.get(cls), foreign=getattr(cls, "foreign", None))
        else:
            register(cls, code=code, **codec._asdict())
    for cls, reason in torch_serde.REFUSALS.items():
        refuse(cls, reason)
    refuse(PRIVATE_KEY, "a private key never leaves. Fetch the tensor and decrypt it here: x.get().decrypt(key).")


_register_types()
