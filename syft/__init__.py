"""Compute on data that stays where it is: `import syft as sy`.

Importing leaves torch unchanged; `hook = sy.TorchHook(torch)` adds send, get, move, ... to it.
`dir(sy)` lists the public names.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from resyft import guard as _guard  # noqa: F401  (raises if another package is in this folder)
from syft import _gc_pause, _later_names
from syft import _sigint as _sigint  # before the imports that take long
from syft import codes as codes
from syft import config as config
from syft import dp as dp
from syft import exceptions as exceptions
from syft import federated as federated
from syft import linalg as linalg
from syft import mpc as mpc
from syft import nn as nn
from syft._lazy import publish as _publish
from syft._paths import install as _install
from syft._suggestions import no_name as _no_name
from syft.core.context import acting_as as acting_as
from syft.core.context import local_worker as _local_worker
from syft.core.id_provider import ID_PROVIDER as ID_PROVIDER
from syft.core.metrics import count_messages as count_messages
from syft.core.string import String as String
from syft.federated import BaseDataset as BaseDataset
from syft.federated import FederatedDataLoader as FederatedDataLoader
from syft.federated import FederatedDataset as FederatedDataset
from syft.federated.client import session as _session  # noqa: F401  (registers the handlers of federated runs)
from syft.federated.client.train_config import TrainConfig as TrainConfig
from syft.grid.private_grid import PrivateGridNetwork as PrivateGridNetwork
from syft.grid.public_grid import PublicGridNetwork as PublicGridNetwork
from syft.he import movement as _movement  # noqa: F401  (registers the rules of PaillierTensor)
from syft.he.paillier import keygen as keygen
from syft.he.paillier_tensor import PaillierTensor as PaillierTensor
from syft.he.pool import pool as pool
from syft.hook import base as _base
from syft.hook import modules as _modules  # noqa: F401  (registers the methods of Module)
from syft.hook import torch_args as _torch_args  # noqa: F401  (registers the argument rules of torch)
from syft.hook.torch_hook import TorchHook as TorchHook
from syft.hook.torch_namespace import torch_namespace as _torch_namespace
from syft.hosting import server as _server  # noqa: F401  (registers the handlers of hosted models)
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
from syft.pointers.multi_pointer import combine_pointers as combine_pointers
from syft.pointers.pointer_plan import PointerPlan as PointerPlan
from syft.pointers.pointer_protocol import PointerProtocol as PointerProtocol
from syft.sandbox import create_sandbox as create_sandbox
from syft.serde import deserialize as deserialize
from syft.serde import serialize as serialize
from syft.serde import wire_codes as _wire_codes  # noqa: F401  (registers the wire codes)
from syft.tensors import native as _native  # noqa: F401  (registers the methods of tensors)
from syft.tensors.additive_shared import AdditiveSharingTensor as AdditiveSharingTensor
from syft.tensors.autograd import AutogradTensor as AutogradTensor
from syft.tensors.crt_precision import CRTPrecisionTensor as CRTPrecisionTensor
from syft.tensors.large_precision import LargePrecisionTensor as LargePrecisionTensor
from syft.tensors.logging import LoggingTensor as LoggingTensor
from syft.tensors.numpy_tensor import create_numpy_tensor as NumpyTensor
from syft.tensors.placeholder import PlaceHolder as PlaceHolder
from syft.tensors.plusisminus import PlusIsMinusTensor as PlusIsMinusTensor
from syft.tensors.polynomial import PolynomialTensor as PolynomialTensor
from syft.tensors.precision import FixedPrecisionTensor as FixedPrecisionTensor
from syft.tensors.private import PrivateTensor as PrivateTensor
from syft.workers import BaseWorker as BaseWorker
from syft.workers import VirtualWorker as VirtualWorker
from syft.workers.execution import plan_handlers as _plan_handlers  # noqa: F401  (registers the handlers of plans)
from syft.workers.node_client import NodeClient as NodeClient
from syft.workers.node_client import connect as connect
from syft.workers.process.worker import ProcessWorker as ProcessWorker
from syft.workers.ray.worker import RayWorker as RayWorker
from syft.workers.websocket_client import WebsocketClientWorker as WebsocketClientWorker

if TYPE_CHECKING:
    import torch as framework  # noqa: F401
    import torch as torch

    from syft import execution as execution
    from syft import frameworks as frameworks
    from syft import generic as generic
    from syft import grid as grid
    from syft import hook as hook
    from syft import messaging as messaging
    from syft import serde as serde
    from syft import workers as workers
    from syft.grid.launch.launch import launch as launch
    from syft.grid.websocket_server import WebsocketServerWorker as WebsocketServerWorker
    from syft.hook.torch_hook import make_hook as make_hook
    from syft.messaging.plan.translation import TranslationTarget as TranslationTarget

    local_worker: BaseWorker | None

__version__ = "0.1.0"

__all__ = [
    "ID_PROVIDER",
    "AdditiveSharingTensor",
    "AutogradTensor",
    "BaseDataset",
    "BaseWorker",
    "CRTPrecisionTensor",
    "CallablePointer",
    "FederatedDataLoader",
    "FederatedDataset",
    "FixedPrecisionTensor",
    "LargePrecisionTensor",
    "LoggingTensor",
    "MultiPointerTensor",
    "NodeClient",
    "NumpyTensor",
    "ObjectPointer",
    "ObjectWrapper",
    "PaillierTensor",
    "PlaceHolder",
    "Plan",
    "PlusIsMinusTensor",
    "PointerPlan",
    "PointerProtocol",
    "PointerTensor",
    "PolynomialTensor",
    "PrivateGridNetwork",
    "PrivateTensor",
    "ProcessWorker",
    "Protocol",
    "PublicGridNetwork",
    "RayWorker",
    "State",
    "String",
    "StringPointer",
    "TorchHook",
    "TrainConfig",
    "VirtualWorker",
    "WebsocketClientWorker",
    "acting_as",
    "codes",
    "combine_pointers",
    "config",
    "connect",
    "count_messages",
    "create_sandbox",
    "deserialize",
    "dp",
    "exceptions",
    "federated",
    "func2plan",
    "func2protocol",
    "keygen",
    "linalg",
    "method2plan",
    "mpc",
    "nn",
    "pool",
    "serialize",
]

_base.worker_factory[:] = [VirtualWorker]
_install()
_later_names.install()
_publish(__name__, globals(), __all__)
_gc_pause.end()

# Set by TorchHook in 0.2; computed here, so that importing changes nothing and each thread has its own.
_COMPUTED = ("local_worker", "torch", "framework")
# Names that need optional packages: name -> its module, imported at the first use.
_LAZY = {"WebsocketServerWorker": "syft.grid.websocket_server", "launch": "syft.grid.launch.launch"}
# Public packages that are no names of `__all__`; the first three hold the module paths of 0.2.
_PACKAGES = ("execution", "frameworks", "generic", "grid", "hook", "messaging", "serde", "workers")

if not TYPE_CHECKING:  # a type checker would accept any name

    def __getattr__(name: str) -> object:
        if name == "local_worker":
            return _local_worker(required=False)
        if name in _COMPUTED:
            return _torch_namespace()
        if name in _LAZY:
            found = getattr(importlib.import_module(_LAZY[name]), name)
            _publish(__name__, {name: found}, [name])
            return found
        if name in _later_names.ELSEWHERE:
            return _later_names.find(name)
        if name in _later_names.GONE:
            _later_names.refuse(__name__, name)
        raise _no_name(__name__, name, [*__dir__(), *_later_names.ELSEWHERE])


def __dir__() -> list[str]:
    return sorted({*__all__, *_COMPUTED, *_LAZY, *_PACKAGES, "__version__"})
