"""Compute on data that stays where it is: `import syft as sy`.

Importing changes nothing; `hook = sy.TorchHook(torch)` adds send, get, move, ... to torch.
"""

from __future__ import annotations

import importlib
from typing import Any

from syft import _gc_pause
from syft import _sigint as _sigint  # before what takes long to load
from syft import codes as codes
from syft import dp as dp
from syft import exceptions as exceptions
from syft import federated as federated
from syft import linalg as linalg
from syft import mpc as mpc
from syft import nn as nn
from syft._paths import install as _install
from syft.core.context import acting_as as acting_as
from syft.core.id_provider import ID_PROVIDER as ID_PROVIDER
from syft.core.metrics import count_messages as count_messages
from syft.core.string import String as String
from syft.federated import BaseDataset as BaseDataset
from syft.federated import FederatedDataLoader as FederatedDataLoader
from syft.federated import FederatedDataset as FederatedDataset
from syft.federated.client import session as _station  # noqa: F401  (and in federated runs)
from syft.federated.client.train_config import TrainConfig as TrainConfig
from syft.grid.private_grid import PrivateGridNetwork as PrivateGridNetwork
from syft.grid.public_grid import PublicGridNetwork as PublicGridNetwork
from syft.hook import base as _base
from syft.hook import modules as _modules  # noqa: F401  (fills the table of Module methods)
from syft.hook import torch_args as _torch_args  # noqa: F401  (fills the tables of hook_args)
from syft.hook.torch_hook import TorchHook as TorchHook
from syft.hosting import server as _hosted  # noqa: F401  (tells workers what to do with hosted models)
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
from syft.sandbox import create_sandbox as create_sandbox
from syft.serde import deserialize as deserialize
from syft.serde import serialize as serialize
from syft.serde import wire_codes as _wire_codes  # noqa: F401  (registers this library's types)
from syft.tensors import native as _native  # noqa: F401  (fills the table of tensor methods)
from syft.tensors.additive_shared import AdditiveSharingTensor as AdditiveSharingTensor
from syft.tensors.functions import combine_pointers as combine_pointers
from syft.tensors.logging import LoggingTensor as LoggingTensor
from syft.tensors.placeholder import PlaceHolder as PlaceHolder
from syft.tensors.plusisminus import PlusIsMinusTensor as PlusIsMinusTensor
from syft.tensors.polynomial import PolynomialTensor as PolynomialTensor
from syft.tensors.precision import FixedPrecisionTensor as FixedPrecisionTensor
from syft.tensors.private import PrivateTensor as PrivateTensor
from syft.workers import BaseWorker as BaseWorker
from syft.workers import VirtualWorker as VirtualWorker
from syft.workers.execution import plan_handlers as _plans  # noqa: F401  (tells workers what to do with plans)
from syft.workers.execution import protocol_handlers as _protocols  # noqa: F401  (and with protocols)
from syft.workers.node_client import NodeClient as NodeClient
from syft.workers.node_client import connect as connect
from syft.workers.process.worker import ProcessWorker as ProcessWorker
from syft.workers.ray.worker import RayWorker as RayWorker
from syft.workers.websocket_client import WebsocketClientWorker as WebsocketClientWorker

__version__ = "0.1.0"

_base.worker_factory[:] = [VirtualWorker]
_install()
_gc_pause.end()

# Set by TorchHook in 0.2; computed here, so that importing changes nothing and threads see their own.
_COMPUTED = ("local_worker", "torch", "framework")
# What needs more than the core of this library: name -> its home, loaded when it is first asked for.
_LAZY = {"WebsocketServerWorker": "syft.grid.websocket_server"}


def __getattr__(name: str) -> Any:
    if name in _COMPUTED:
        from syft._globals import computed

        return computed(name)
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    from syft._globals import why_missing

    raise AttributeError(f"module 'syft' has no attribute {name!r}{why_missing(name)}")
