"""Proxies of the objects in a user's vault, held by the session process. A proxy has a spec and no values.

The proxies of tensors form a graph like autograd's: a result holds an `AutogradNode`, whose parents are the nodes, or
the leaf proxies, that it was computed from. A backward pass on proxies walks this graph.
"""

from __future__ import annotations

import dataclasses
import functools
import weakref
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import torch

from syft.core.object import AbstractObject
from syft.core.references import ObjectMeta, TensorMeta
from syft.federated.client.stored_dataset import StoredDataset
from syft.hook.syft_tensor import SyftTensor
from syft.messaging.plan.plan import Plan
from syft.messaging.plan.program import Program
from syft.messaging.plan.state import NOT_PARAMETERS
from syft.workers.access.tensor_spec import TensorSpec
from syft.workers.execution.results import kind_of


class AutogradNode:
    """The autograd node of a proxy."""

    __slots__ = ("owner", "parents")

    def __init__(self, parents: tuple[AutogradNode | Proxy, ...]) -> None:
        self.parents = parents
        # The proxy whose gradient is retained (`retain_grad`), if any.
        self.owner: weakref.ref[Proxy] | None = None


class Origin:
    """A tensor of the session process whose copy in the vault has views there."""

    __slots__ = ("tensor", "version")

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = weakref.ref(tensor)
        self.version = tensor._version

    @property
    def is_current(self) -> bool:
        """Whether the tensor still has the copied values, or no longer exists."""
        tensor = self.tensor()
        return tensor is None or tensor._version == self.version


class Proxy(AbstractObject):
    """The proxy of a tensor in the vault.

    Args:
        spec: shape, dtype, strides and flags; its `has_grad` is always False (see `grad`).
        node: its autograd node; None for leaves.

    Attributes:
        grad: the proxy of its gradient, or None. The same proxy as long as it is the same tensor.
        retains_grad: whether a result retains its gradient.
        root: the proxy that it is a view of for autograd, or None.
        origin: set if its memory is a copy of a tensor in the session process.
        is_parameter: whether it is an nn.Parameter.
        is_plain: False for sparse and quantized tensors and chains of links; calls on these can't be predicted.
    """

    pointer_kind = "tensor"
    # Class-level defaults keep the many instances small.
    _id = None
    _owner = None
    tags: set[str] = set()  # noqa: RUF012 - replaced, never changed
    description: str | None = None
    grad: Proxy | None = None
    retains_grad = False
    root: Proxy | None = None
    origin: Origin | None = None
    is_parameter = False
    is_plain = True
    # The reason why the object is in the vault.
    why = ""
    _views: weakref.WeakSet[Proxy] | None = None

    def __init__(self, spec: TensorSpec, node: AutogradNode | None = None) -> None:
        self.spec = spec
        self.node = node

    @property
    def shape(self) -> torch.Size:
        """The sizes of the tensor."""
        return torch.Size(self.spec.shape)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the tensor."""
        return self.spec.dtype

    @property
    def requires_grad(self) -> bool:
        """Whether gradients reach the tensor."""
        return self.spec.requires_grad

    @property
    def is_leaf(self) -> bool:
        """Whether the tensor is a leaf of autograd's graph."""
        return self.spec.is_leaf

    @property
    def source(self) -> AutogradNode | Proxy | None:
        """The receiver of gradients: its node, itself if it is a leaf that requires grad, or None."""
        if self.node is not None:
            return self.node
        return self if self.spec.requires_grad else None

    def tag(self, *tags: str) -> Proxy:
        """Add tags, and return the proxy."""
        self.tags = self.tags | set(tags)
        return self

    def join(self, root: Proxy) -> None:
        """Become a view of another proxy."""
        root = root.root or root
        self.root = root
        if root._views is None:
            root._views = weakref.WeakSet()
        root._views.add(self)

    def views(self) -> list[Proxy]:
        """Return the other proxies that share memory with this one for autograd."""
        root = self.root or self
        return [one for one in (root, *(root._views or ())) if one is not self]

    def __repr__(self) -> str:
        return f"<Proxy {tuple(self.spec.shape)} {self.spec.dtype}>"


class ObjectProxy(AbstractObject):
    """The proxy of an object that is not a tensor: it has a kind only."""

    why = ""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.pointer_kind = kind


# For isinstance().
PROXIES = (Proxy, ObjectProxy)
AnyProxy: TypeAlias = Proxy | ObjectProxy


class DatasetProxy(ObjectProxy):
    """The proxy of a data set."""

    def __init__(self, data: Proxy, targets: Proxy) -> None:
        super().__init__("dataset")
        self.data = data
        self.targets = targets


class PlanProxy(ObjectProxy):
    """The proxy of a plan: its program, with proxies in place of the tensors of its state.

    Args:
        name: the name of the plan.
        program: its program, or None for a plan that is not built.
        state: proxies of the tensors of its state, in the order of the program's state.
        is_parameter: for each tensor of the state, whether training changes it.
    """

    def __init__(self, name: str, program: Program | None, state: list[Proxy], is_parameter: list[bool]) -> None:
        super().__init__("plan")
        self.name = name
        self.program = program
        self.state = state
        self._is_parameter = is_parameter
        # The effects of calls of this plan, by the specs of its arguments and state.
        self.effects: dict[Any, Any] = {}

    def parameters(self) -> list[Proxy]:
        """Return the proxies of the tensors that training changes."""
        return [proxy for proxy, flag in zip(self.state, self._is_parameter, strict=True) if flag]

    def copy(self) -> PlanProxy:
        """Return the proxy of a copy of the plan."""
        made = PlanProxy(self.name, self.program, [_copied(proxy) for proxy in self.state], list(self._is_parameter))
        made.effects = self.effects
        return made


def _copied(proxy: Proxy) -> Proxy:
    made = Proxy(proxy.spec)
    made.is_parameter, made.is_plain = proxy.is_parameter, proxy.is_plain
    # Copies of an nn.Parameter come without its gradient, copies of other tensors with it.
    made.grad = None if proxy.grad is None or proxy.is_parameter else _copied(proxy.grad)
    return made


def spec_of(tensor: torch.Tensor) -> TensorSpec | None:
    """Return the spec of a plain tensor, without `has_grad`; None if the tensor is not plain."""
    if isinstance(tensor, SyftTensor) or tensor.layout is not torch.strided or tensor.is_quantized:
        return None
    return TensorSpec(
        tuple(tensor.shape), tensor.dtype, tensor.requires_grad, tensor.stride(), tensor.is_leaf,
        tensor.is_conj(), tensor.is_neg(),
    )  # fmt: skip


def proxy_of(obj: object) -> Proxy | ObjectProxy:
    """Return a proxy of an object: a tensor, a plan, a data set, or any other object that workers hold.

    The proxy of a tensor that is not a leaf gets a graph node without parents.
    """
    if isinstance(obj, torch.Tensor):
        return tensor_proxy(obj)
    if isinstance(obj, Plan):
        return _plan_proxy(obj)
    if isinstance(obj, StoredDataset):
        return DatasetProxy(tensor_proxy(obj.data), tensor_proxy(obj.targets))
    return ObjectProxy(kind_of(obj))


def tensor_proxy(tensor: torch.Tensor) -> Proxy:
    """Return a proxy of a tensor, with a proxy of its gradient."""
    spec = spec_of(tensor)
    if spec is None:
        made = Proxy(TensorSpec(tuple(tensor.shape), tensor.dtype, tensor.requires_grad))
        made.is_plain = False
        return made
    made = Proxy(spec, None if spec.is_leaf else AutogradNode(()))
    made.is_parameter = isinstance(tensor, torch.nn.Parameter)
    if spec.is_leaf or tensor.retains_grad:
        grad = tensor.grad
        made.grad = None if grad is None else tensor_proxy(grad)
    if not spec.is_leaf and tensor.retains_grad:
        retain(made)
    return made


def _plan_proxy(plan: Plan) -> PlanProxy:
    placeholders = plan.program.state if plan.is_built else tuple(plan.state.state_placeholders)
    state = [tensor_proxy(placeholder.child) for placeholder in placeholders]
    flags = [not placeholder.tags & NOT_PARAMETERS for placeholder in placeholders]
    return PlanProxy(plan.name, plan.program if plan.is_built else None, state, flags)


def retain(proxy: Proxy) -> None:
    """Make a result retain its gradient."""
    proxy.retains_grad = True
    if proxy.node is not None:
        proxy.node.owner = weakref.ref(proxy)


def describe(proxy: Proxy | ObjectProxy) -> TensorMeta | ObjectMeta:
    """Return the metadata of the object behind a proxy."""
    if isinstance(proxy, Proxy):
        return TensorMeta(torch.Size(proxy.spec.shape), proxy.spec.dtype, proxy.spec.requires_grad)
    return ObjectMeta(proxy.pointer_kind)


def walk(roots: Iterable[Proxy]) -> tuple[set[Proxy], set[AutogradNode]]:
    """Return the leaf proxies and the nodes that a backward pass from some proxies reaches."""
    leaves: set[Proxy] = set()
    nodes: set[AutogradNode] = set()
    pending = [root.source for root in roots]
    while pending:
        source = pending.pop()
        if isinstance(source, AutogradNode):
            if source not in nodes:
                nodes.add(source)
                pending += source.parents
        elif source is not None:
            leaves.add(source)
    return leaves, nodes


def value_bytes(proxy: AnyProxy) -> int:
    """Return the bytes of the values of an object, as far as its proxy has specs."""
    if isinstance(proxy, Proxy):
        parts = [proxy]
    elif isinstance(proxy, PlanProxy):
        parts = proxy.state
    else:
        parts = [proxy.data, proxy.targets] if isinstance(proxy, DatasetProxy) else []
    return sum(size_in_bytes(part.spec) for part in parts)


def specs_in(value: object) -> Iterator[TensorSpec]:
    """Yield the specs in nested arguments or results."""
    if isinstance(value, TensorSpec):
        yield value
    elif isinstance(value, dict | tuple | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from specs_in(item)


def size_in_bytes(spec: TensorSpec) -> int:
    """Return the bytes of memory of a new tensor."""
    if 0 in spec.shape:
        return 0
    extent = 1 + sum((size - 1) * stride for size, stride in zip(spec.shape, spec.strides, strict=True))
    return extent * spec.dtype.itemsize


@functools.lru_cache(maxsize=4096)
def gradient_spec(spec: TensorSpec) -> TensorSpec:
    """Return the spec of a gradient of a tensor."""
    strides = torch.empty_like(torch.empty_strided(spec.shape, spec.strides, device="meta")).stride()
    return TensorSpec(spec.shape, spec.dtype, False, tuple(strides))


def connected(spec: TensorSpec) -> TensorSpec:
    """Return the spec of a result that requires grad."""
    return dataclasses.replace(spec, requires_grad=True, is_leaf=False)


@functools.lru_cache(maxsize=4096)
def with_gradient(spec: TensorSpec) -> TensorSpec:
    """Return the spec of a tensor that has a gradient."""
    return dataclasses.replace(spec, has_grad=True)
