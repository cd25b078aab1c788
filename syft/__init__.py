"""Compute on data that stays where it is: `import syft as sy`.

Importing changes nothing; `hook = sy.TorchHook(torch)` adds send, get, move, ... to torch.
"""

from __future__ import annotations

from typing import Any

from syft import _pause
from syft import codes as codes
from syft import exceptions as exceptions
from syft import linalg as linalg
from syft import mpc as mpc
from syft import nn as nn
from syft._paths import install as _install
from syft.core.context import acting_as as acting_as
from syft.core.id_provider import ID_PROVIDER as ID_PROVIDER
from syft.core.metrics import count_messages as count_messages
from syft.core.string import String as String
from syft.hook import base as _base
from syft.hook import modules as _modules  # noqa: F401  (fills the table of Module methods)
from syft.hook import torch_args as _torch_args  # noqa: F401  (fills the tables of hook_args)
from syft.hook.torch_hook import TorchHook as TorchHook
from syft.messaging.plan import Plan as Plan
from syft.messaging.plan import State as State
from syft.messaging.plan import func2plan as func2plan
from syft.messaging.plan import method2plan as method2plan
from syft.messaging.protocol import Protocol as Protocol
from syft.messaging.protocol import func2protocol as func2protocol
from syft.pointers import CallablePointer as CallablePointer
from syft.pointers import MultiPointerTensor as MultiPointerTensor
from syft.pointers import ObjectPointer as ObjectPointer
from syft.pointers import ObjectWrapper as ObjectWrapper
from syft.pointers import PointerTensor as PointerTensor
from syft.pointers import StringPointer as StringPointer
from syft.pointers.pointer_plan import PointerPlan as PointerPlan
from syft.pointers.pointer_protocol import PointerProtocol as PointerProtocol
from syft.serde import deserialize as deserialize
from syft.serde import rows as _rows  # noqa: F401  (gives this library's types their wire codes)
from syft.serde import serialize as serialize
from syft.tensors import native as _native  # noqa: F401  (fills the table of tensor methods)
from syft.tensors.additive_shared import AdditiveSharingTensor as AdditiveSharingTensor
from syft.tensors.functions import combine_pointers as combine_pointers
from syft.tensors.logging import LoggingTensor as LoggingTensor
from syft.tensors.placeholder import PlaceHolder as PlaceHolder
from syft.tensors.plusisminus import PlusIsMinusTensor as PlusIsMinusTensor
from syft.tensors.polynomial import PolynomialTensor as PolynomialTensor
from syft.tensors.precision import FixedPrecisionTensor as FixedPrecisionTensor
from syft.workers import BaseWorker as BaseWorker
from syft.workers import VirtualWorker as VirtualWorker
from syft.workers import plans as _plans  # noqa: F401  (tells workers what to do with plans)
from syft.workers import protocols as _protocols  # noqa: F401  (and with protocols)
from syft.workers.process import ProcessWorker as ProcessWorker

__version__ = "0.1.0"

_base.worker_factory[:] = [VirtualWorker]
_install()
_pause.end()

# Set by TorchHook in 0.2; computed here, so that importing changes nothing and threads see their own.
_COMPUTED = ("local_worker", "torch", "framework")


def __getattr__(name: str) -> Any:
    if name in _COMPUTED:
        from syft._globals import computed

        return computed(name)
    from syft._globals import why_missing

    raise AttributeError(f"module 'syft' has no attribute {name!r}{why_missing(name)}")
