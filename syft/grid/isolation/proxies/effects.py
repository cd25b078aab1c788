"""Effects of a call on its tensors, as far as specs determine them: new results, changes, autograd connections.

`Effects` name tensors by position, so they hold for all calls with the same name and specs, and are cached.
`ProxyCall` applies them to the proxies of one call.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable
from typing import Any, TypeVar

import torch

from syft.core.references import Ref, SameAs, TensorMeta
from syft.core.trees import iter_tensors, rebuild_tuple
from syft.exceptions import SyftError
from syft.grid.isolation.proxies.objects import (
    AutogradNode,
    ObjectProxy,
    Origin,
    Proxy,
    connected,
    describe,
    gradient_spec,
    size_in_bytes,
    specs_in,
    tensor_proxy,
)
from syft.messaging.message import Operation
from syft.messaging.mutation import changed_values
from syft.workers.access.fake_execution import Prediction
from syft.workers.access.tensor_spec import TensorSpec

_P = TypeVar("_P", bound=Proxy | ObjectProxy)
# Norms that update running statistics: the position of the first of the two statistics, and the name and default of
# the argument at position 5 that enables the update.
_NORMS: dict[str, tuple[int, str, bool]] = {
    "torch.nn.functional.batch_norm": (1, "training", False),
    "torch.nn.functional.instance_norm": (1, "use_input_stats", True),
    "torch.batch_norm": (3, "training", True),
    "torch.native_batch_norm": (3, "training", True),
    "torch.instance_norm": (3, "use_input_stats", True),
}


@dataclasses.dataclass(frozen=True, slots=True)
class Effects:
    """The effects of a call, by positions of its tensors.

    Attributes:
        prediction: the call as predicted on fake tensors.
        written: the positions of arguments whose values it may change.
        connected: the positions of arguments that autograd connects to a result or to a changed tensor.
    """

    prediction: Prediction
    written: frozenset[int]
    connected: frozenset[int]


def effects_of(prediction: Prediction, written: Iterable[int]) -> Effects:
    """Return the effects of a call from its prediction on fake tensors.

    Fake tensors do not show all writes: `written` has the positions of tensors that the call writes to by its name.
    """
    results = list(specs_in(prediction.result))
    changed = dict(prediction.changed)
    made = [spec for spec in (*results, *changed.values()) if spec.position is None and spec.requires_grad]
    connected = {at for spec in made for at in spec.reaches}
    if not isinstance(prediction.result, TensorSpec):  # an argument inside of a container gets a new id in the vault
        connected.update(spec.position for spec in results if spec.position is not None)
    return Effects(prediction, frozenset({*changed, *written}), frozenset(connected))


def written_values(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """Return the arguments that a call writes to, with their nesting."""
    norm = _NORMS.get(name)
    if norm is None:
        return changed_values(Operation(name, None, args, kwargs))
    first, flag, default = norm
    updates = args[5] if len(args) > 5 else kwargs.get(flag, default)
    if not updates:
        return []
    return [*args[first : first + 2], kwargs.get("running_mean"), kwargs.get("running_var"), kwargs.get("out")]


@functools.lru_cache(maxsize=4096)
def _bare(spec: TensorSpec) -> TensorSpec:
    """Return a spec without its relations to the arguments of a call."""
    return dataclasses.replace(spec, has_grad=False, position=None, reaches=(), view_of=None, shares=())


@dataclasses.dataclass(frozen=True, slots=True)
class MoveToVault:
    """An object of the session process that has to move into the vault before the call can run.

    Attributes:
        obj: the tensor or plan; an attribute of the held object if the reference names one.
        ref: the reference by which the call names it.
        reason: why it has to move, for the user.
    """

    obj: Any
    ref: Ref
    reason: str


@dataclasses.dataclass(slots=True)
class ProxyResult:
    """The result of a call on proxies.

    Attributes:
        result: the result, with proxies in place of tensors and plans, `SameAs` for arguments, and plain values for
            sizes, dtypes and the like.
        moves: objects that must move into the vault first. If there are any, the call had no effect yet: move them,
            replace them by their proxies, and call again.
        new: the proxies of the result that need an id, in the order of the ids.
        bytes: the size of the new results and gradients.
        has_effect: whether the vault must run the call; False if it would neither create nor change an object there.
    """

    result: Any = None
    moves: tuple[MoveToVault, ...] = ()
    new: tuple[Proxy | ObjectProxy, ...] = ()
    bytes: int = 0
    has_effect: bool = True


class ProxyCall:
    """One call on proxies.

    Args:
        operation: the call as it was sent.
        args: its arguments, with proxies for objects in the vault.
        kwargs: its keyword arguments, likewise.
        ignores_floats: whether the values of floats make no difference to its effects.
    """

    __slots__ = ("args", "given", "ignores_floats", "kwargs", "new", "operation", "size")

    def __init__(
        self, operation: Operation, args: tuple[Any, ...], kwargs: dict[str, Any], ignores_floats: bool = False
    ) -> None:
        self.operation = operation
        self.ignores_floats = ignores_floats
        self.args = args
        self.kwargs = kwargs
        # The tensors of the call and their proxies, by the positions that its effects name.
        self.given: list[Any] = []
        self.new: list[Proxy | ObjectProxy] = []
        self.size = 0

    def done(self, result: object = None, has_effect: bool = True) -> ProxyResult:
        """Return the result of the call."""
        return ProxyResult(result, (), tuple(self.new), self.size, has_effect)

    # --- moves into the vault ---------------------------------------------------------------------------------------

    def moves(self, effects: Effects) -> tuple[MoveToVault, ...]:
        """Return the moves into the vault that the effects require."""
        found = []
        for position in sorted(effects.written | effects.connected):
            tensor = self.given[position]
            if not isinstance(tensor, torch.Tensor):
                continue
            written = position in effects.written
            if written or tensor.requires_grad:
                move = self.move(tensor, written)
                if move is not None:
                    found.append(move)
        return tuple({id(move.obj): move for move in found}.values())

    def move(self, obj: object, written: bool) -> MoveToVault | None:
        """Return the move of an object; None if the call carries it, so that only the vault holds it."""
        name = self.operation.cmd_name
        ref = self.ref_to(obj)
        if ref is None:
            return None
        if isinstance(obj, torch.Tensor) and ref.attribute is None and not obj.is_leaf:
            raise SyftError(
                f"{name} needs a tensor in the vault that was computed outside of it, and its graph can't move there. "
                "Pass x.detach(), or compute the tensor from leaves that are in the vault."
            )
        reason = "writes to it" if written else "connects it to a result with autograd"
        return MoveToVault(obj, ref, f"{name} {reason}")

    def ref_to(self, obj: object) -> Ref | None:
        """Return the reference by which the call names one of its arguments."""
        sent = iter_tensors((self.operation.cmd_args, self.operation.cmd_kwargs))
        given = iter_tensors((self.args, self.kwargs))
        return next((ref for ref, one in zip(sent, given, strict=False) if one is obj and type(ref) is Ref), None)

    # --- effects -------------------------------------------------------------------------------------------

    def apply(self, effects: Effects) -> ProxyResult:
        """Change the proxies as the call changes the tensors, and return the result."""
        if effects.written:
            self._check_writes(effects)
        for proxy in self.given:
            if type(proxy) is Proxy and proxy.origin is not None and not proxy.origin.is_current:
                raise SyftError(
                    "A tensor was changed in place after a view of it was created in the vault, which holds the "
                    "earlier values. Create the view again."
                )
        for position, spec in effects.prediction.changed:
            self._change(position, spec)
        result = self._build(effects.prediction.result)
        return self.done(result, bool(self.new or effects.written))

    def _check_writes(self, effects: Effects) -> None:
        for position in effects.written:
            proxy = self.given[position]
            if type(proxy) is not Proxy:
                continue
            if proxy.origin is not None:
                raise SyftError(
                    f"{self.operation.cmd_name} writes to a view of a tensor that is not in the vault. "
                    "Call it on x.clone() instead."
                )
            root = proxy.root
            if self.operation.grad_enabled and root is not None and root.is_leaf and root.requires_grad:
                raise RuntimeError(
                    "a view of a leaf Variable that requires grad is being used in an in-place operation."
                )

    def _sources(self, positions: tuple[int, ...]) -> tuple[AutogradNode | Proxy, ...]:
        found = [self.proxy_at(position).source for position in positions]
        return tuple([source for source in found if source is not None])

    def proxy_at(self, position: int) -> Proxy:
        """Return the proxy of an argument; a new proxy for a tensor that the call carries."""
        found = self.given[position]
        proxy: Proxy = found if isinstance(found, Proxy) else tensor_proxy(found)
        self.given[position] = proxy
        return proxy

    def _change(self, position: int, spec: TensorSpec) -> None:
        proxy = self.proxy_at(position)
        if spec.requires_grad and not spec.is_leaf:
            self._connect(proxy, self._sources(spec.reaches))
        else:
            proxy.node = None
        proxy.spec = _bare(spec)

    def _connect(self, proxy: Proxy, sources: tuple[AutogradNode | Proxy, ...]) -> None:
        """Give a new graph node to a proxy that was written to, and to all views of its memory."""
        others = proxy.views()
        before = proxy.node
        own = proxy.source
        if own is not None and own not in sources and proxy.root is not None:
            sources = (*sources, own)  # a view keeps what was not overwritten
        proxy.node = AutogradNode(sources)
        if before is not None and before.owner is not None:
            before.owner, proxy.node.owner = None, before.owner
        for other in others:
            old = other.source
            other.node = AutogradNode((proxy.node,) if old is None else (proxy.node, old))
            other.spec = connected(other.spec)

    # --- the result ---------------------------------------------------------------------------------------------

    def _build(self, result: Any) -> Any:
        kind = type(result)
        if kind is TensorSpec:
            return self._make(result) if result.position is None else self.same(result.position)
        if result is None:
            return None
        if kind is dict:
            return {key: self._build(item) for key, item in result.items()}
        items = [self._build(item) for item in result]
        return items if kind is list else rebuild_tuple(kind, items)

    def _make(self, spec: TensorSpec) -> Proxy:
        node = AutogradNode(self._sources(spec.reaches)) if spec.requires_grad and not spec.is_leaf else None
        proxy = Proxy(_bare(spec), node)
        for position in spec.shares:
            given = self.given[position]
            if type(given) is Proxy:
                proxy.origin = proxy.origin or given.origin
            elif self.ref_to(given) is not None:
                proxy.origin = Origin(given)
        if spec.view_of is not None and type(self.given[spec.view_of]) is Proxy:
            proxy.join(self.given[spec.view_of])
        if not spec.shares:
            self.size += size_in_bytes(spec)
        return self.add(proxy)

    def add(self, proxy: _P) -> _P:
        """Note a proxy that needs an id, and return it."""
        self.new.append(proxy)
        return proxy

    def same(self, position: int) -> Any:
        """Return a result that is one of the arguments."""
        given = self.given[position]
        if isinstance(given, Proxy):
            return self.existing(given)
        index = self._argument_index(given)
        if index is not None:
            return SameAs(index, TensorMeta.of(given))
        proxy = tensor_proxy(given)
        if self.ref_to(given) is not None:
            proxy.origin = Origin(given)
        self.size += size_in_bytes(proxy.spec)
        return self.add(proxy)

    def existing(self, proxy: Proxy) -> Any:
        """Return a result that is a tensor of the vault: an argument, or the same tensor under a new id."""
        index = self._argument_index(proxy)
        return SameAs(index, describe(proxy)) if index is not None else self.add(proxy)

    def _argument_index(self, obj: object) -> int | None:
        sent = (*self.operation.cmd_args, *self.operation.cmd_kwargs.values())
        for index, arg in enumerate((*self.args, *self.kwargs.values())):
            if arg is obj and type(sent[index]) is Ref:
                return index
        return None

    def give_gradient(self, proxy: Proxy, node: AutogradNode | None = None) -> None:
        """Record that a backward pass adds to the gradient of a tensor."""
        if proxy.grad is not None and node is None:
            return
        spec = gradient_spec(proxy.spec)
        self.size += size_in_bytes(spec)
        if node is not None:
            spec = connected(spec)
        proxy.grad = Proxy(spec, node)
