"""Proxies: what a session process knows of the objects in its user's vault. A proxy has a spec and no values.

The proxies of tensors form a graph like autograd's: a result holds a `Node`, whose parents are the nodes, or the leaf
proxies, that it was computed from. A backward pass on proxies walks it.
"""

from __future__ import annotations

import dataclasses
import functools
import weakref
from collections.abc import Iterable
from typing import Any

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


class GraphNode:
    """The call that made a proxy, as far as autograd knows.

    Args:
        parents: the nodes and leaf proxies that gradients go on to.
    """

    __slots__ = ("owner", "parents")

    def __init__(self, parents: tuple[GraphNode | Proxy, ...]) -> None:
        self.parents = parents
        # The proxy that keeps its gradient (`retain_grad`), if there is one.
        self.owner: weakref.ref[Proxy] | None = None


class Origin:
    """The tensor of the session process whose copy in the vault is viewed there.

    Args:
        tensor: the tensor.
    """

    __slots__ = ("tensor", "version")

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = weakref.ref(tensor)
        self.version = tensor._version

    @property
    def is_current(self) -> bool:
        """Whether the tensor has the values that were copied, or is gone."""
        tensor = self.tensor()
        return tensor is None or tensor._version == self.version


class Proxy(AbstractObject):
    """The proxy of a tensor in the vault.

    Args:
        form: shape, dtype, strides and flags; never says that there is a gradient (see `grad`).
        node: what autograd knows of how it was made; None for leaves.

    Attributes:
        grad: the proxy of its gradient, or None. The same proxy as long as it is the same tensor.
        retains_grad: whether a result keeps its gradient.
        root: the proxy that autograd knows it as a view of, or None.
        origin: set if its memory is that of a copy of a tensor in the session process.
        is_parameter: whether it is an nn.Parameter.
        is_plain: False for sparse and quantized tensors and chains of links; no calls can be worked out for these.
    """

    pointer_kind = "tensor"
    # Defaults of the class: most proxies never need others, and many are made.
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
    _views: weakref.WeakSet[Proxy] | None = None

    def __init__(self, form: TensorSpec, node: GraphNode | None = None) -> None:
        self.form = form
        self.node = node

    @property
    def shape(self) -> torch.Size:
        """The sizes of the tensor."""
        return torch.Size(self.form.shape)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the tensor."""
        return self.form.dtype

    @property
    def requires_grad(self) -> bool:
        """Whether gradients reach the tensor."""
        return self.form.requires_grad

    @property
    def is_leaf(self) -> bool:
        """Whether the tensor is a leaf of autograd's graph."""
        return self.form.is_leaf

    @property
    def has_grad(self) -> bool:
        """Whether the tensor has a gradient."""
        return self.grad is not None

    @property
    def leaves(self) -> set[Proxy]:
        """The leaf proxies that a backward pass from this one reaches."""
        return walk([self])[0]

    @property
    def source(self) -> GraphNode | Proxy | None:
        """Where gradients of this tensor go: its node, itself if it is a leaf that requires grad, or None."""
        if self.node is not None:
            return self.node
        return self if self.form.requires_grad else None

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
        """Return the other proxies that autograd knows to share memory with this one."""
        root = self.root or self
        return [one for one in (root, *(root._views or ())) if one is not self]

    def __repr__(self) -> str:
        return f"<Proxy {tuple(self.form.shape)} {self.form.dtype}>"


class ObjectProxy(AbstractObject):
    """The proxy of an object that is not a tensor: only its kind is known.

    Args:
        kind: the kind of pointer it needs.
    """

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.pointer_kind = kind


class DatasetProxy(ObjectProxy):
    """The proxy of a data set.

    Args:
        data: the proxy of its samples.
        targets: the proxy of its targets.
    """

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
        # What is known of calls of this plan, by the specs of its arguments and state.
        self.known: dict[Any, Any] = {}

    def parameters(self) -> list[Proxy]:
        """Return the proxies of the tensors that training changes."""
        return [proxy for proxy, flag in zip(self.state, self._is_parameter, strict=True) if flag]

    def copy(self) -> PlanProxy:
        """Return the proxy of a copy of the plan."""
        made = PlanProxy(self.name, self.program, [_copied(proxy) for proxy in self.state], list(self._is_parameter))
        made.known = self.known
        return made


def _copied(proxy: Proxy) -> Proxy:
    made = Proxy(proxy.form)
    made.is_parameter, made.is_plain = proxy.is_parameter, proxy.is_plain
    # Copies of an nn.Parameter come without its gradient, copies of other tensors with it.
    made.grad = None if proxy.grad is None or proxy.is_parameter else _copied(proxy.grad)
    return made


def spec_of(tensor: torch.Tensor) -> TensorSpec | None:
    """Return the form of a plain tensor without saying whether it has a gradient; None if it is not plain."""
    if isinstance(tensor, SyftTensor) or tensor.layout is not torch.strided or tensor.is_quantized:
        return None
    return TensorSpec(
        tuple(tensor.shape), tensor.dtype, tensor.requires_grad, tensor.stride(), tensor.is_leaf,
        tensor.is_conj(), tensor.is_neg(),
    )  # fmt: skip


def proxy_of(obj: Any) -> Proxy | ObjectProxy:
    """Return a proxy of an object: a tensor, a plan, a data set, or any other object that workers hold.

    The proxy of a tensor is a leaf or, if the tensor is not, has a graph of its own that leads nowhere.
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
    form = spec_of(tensor)
    if form is None:
        made = Proxy(TensorSpec(tuple(tensor.shape), tensor.dtype, tensor.requires_grad))
        made.is_plain = False
        return made
    made = Proxy(form, None if form.is_leaf else GraphNode(()))
    made.is_parameter = isinstance(tensor, torch.nn.Parameter)
    if form.is_leaf or tensor.retains_grad:
        grad = tensor.grad
        made.grad = None if grad is None else tensor_proxy(grad)
    if not form.is_leaf and tensor.retains_grad:
        retain(made)
    return made


def _plan_proxy(plan: Plan) -> PlanProxy:
    placeholders = plan.program.state if plan.is_built else tuple(plan.state.state_placeholders)
    state = [tensor_proxy(place.child) for place in placeholders]
    flags = [not place.tags & NOT_PARAMETERS for place in placeholders]
    return PlanProxy(plan.name, plan.program if plan.is_built else None, state, flags)


def retain(proxy: Proxy) -> None:
    """Make a result keep its gradient."""
    proxy.retains_grad = True
    if proxy.node is not None:
        proxy.node.owner = weakref.ref(proxy)


def describe(proxy: Proxy | ObjectProxy) -> TensorMeta | ObjectMeta:
    """Return the metadata of the object behind a proxy."""
    if isinstance(proxy, Proxy):
        return TensorMeta(torch.Size(proxy.form.shape), proxy.form.dtype, proxy.form.requires_grad)
    return ObjectMeta(proxy.pointer_kind)


def walk(roots: Iterable[Proxy]) -> tuple[set[Proxy], set[GraphNode]]:
    """Return the leaf proxies and the nodes that a backward pass from some proxies reaches."""
    leaves: set[Proxy] = set()
    nodes: set[GraphNode] = set()
    pending = [root.source for root in roots]
    while pending:
        source = pending.pop()
        if isinstance(source, GraphNode):
            if source not in nodes:
                nodes.add(source)
                pending += source.parents
        elif source is not None:
            leaves.add(source)
    return leaves, nodes


def size_in_bytes(form: TensorSpec) -> int:
    """Return the number of bytes that the memory of a new tensor takes."""
    if 0 in form.shape:
        return 0
    extent = 1 + sum((size - 1) * stride for size, stride in zip(form.shape, form.strides, strict=True))
    return extent * form.dtype.itemsize


@functools.lru_cache(maxsize=4096)
def gradient_form(form: TensorSpec) -> TensorSpec:
    """Return the form of a gradient of a tensor."""
    strides = torch.empty_like(torch.empty_strided(form.shape, form.strides, device="meta")).stride()
    return TensorSpec(form.shape, form.dtype, False, tuple(strides))


def connected(form: TensorSpec) -> TensorSpec:
    """Return the form of a result that requires grad."""
    return dataclasses.replace(form, requires_grad=True, is_leaf=False)


@functools.lru_cache(maxsize=4096)
def with_gradient(form: TensorSpec) -> TensorSpec:
    """Return the form of a tensor that has a gradient."""
    return dataclasses.replace(form, has_grad=True)
