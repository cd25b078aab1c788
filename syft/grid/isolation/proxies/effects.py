"""What a call does to the tensors it is given, as far as their specs tell: new results, changes, connections.

`Effects` name tensors by position, so they hold for all calls with the same name and specs, and are remembered.
`ProxyCall` applies them to the proxies of one call.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from syft.core.references import Ref, SameAs, TensorMeta
from syft.core.trees import iter_tensors, rebuild_tuple
from syft.exceptions import SyftError
from syft.grid.isolation.proxies.objects import (
    GraphNode,
    ObjectProxy,
    Origin,
    Proxy,
    connected,
    describe,
    gradient_form,
    size_in_bytes,
    tensor_proxy,
)
from syft.messaging.message import Operation
from syft.workers.access.fake_execution import Prediction
from syft.workers.access.tensor_spec import TensorSpec


@dataclasses.dataclass(frozen=True, slots=True)
class Made:
    """A new tensor.

    Attributes:
        form: its form.
        parents: the positions of the given tensors that its gradients reach.
        view_of: the position of the given tensor that it is a view of.
        shares: the positions of the given tensors whose memory it shares.
        size: the number of bytes of new memory it takes.
    """

    form: TensorSpec
    parents: tuple[int, ...]
    view_of: int | None
    shares: tuple[int, ...]
    size: int


@dataclasses.dataclass(frozen=True, slots=True)
class Same:
    """A result that is one of the given tensors."""

    position: int


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """A given tensor that looks different after the call.

    Attributes:
        position: which of the given tensors.
        form: its form after the call.
        parents: the positions of the given tensors that its gradients reach then.
        has_grad: whether it has a gradient then.
    """

    position: int
    form: TensorSpec
    parents: tuple[int, ...]
    has_grad: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Effects:
    """What a call does.

    Attributes:
        outcome: the call as it was tried on fake tensors.
        result: the result, with `Made` and `Same` in place of tensors.
        changes: the given tensors that look different afterwards.
        written: the positions of given tensors whose values it may change.
        connected: the positions of given tensors that autograd connects to a result or to a changed tensor.
    """

    outcome: Prediction
    result: Any
    changes: tuple[Change, ...]
    written: frozenset[int]
    connected: frozenset[int]


def effects_of(outcome: Prediction, written: Iterable[int]) -> Effects:
    """Return the effects of a call from what was found on fake tensors.

    Args:
        outcome: what was found.
        written: the positions of tensors that the call writes to by its name; fake tensors do not show all of them.
    """
    result = _result(outcome.result)
    changes = tuple(Change(at, _bare(form), form.reaches, form.has_grad) for at, form in outcome.changed)
    made = [part for part in _parts(result) if isinstance(part, Made)]
    connected = {at for part in made if part.form.requires_grad for at in part.parents}
    connected.update(at for change in changes if change.form.requires_grad for at in change.parents)
    if not isinstance(result, Same):  # an argument inside of a container gets a new id in the vault
        connected.update(same.position for same in _parts(result) if isinstance(same, Same))
    return Effects(
        outcome, result, changes, frozenset({change.position for change in changes} | set(written)),
        frozenset(connected),
    )  # fmt: skip


def _result(outline: Any) -> Any:
    if isinstance(outline, TensorSpec):
        if outline.position is not None:
            return Same(outline.position)
        form = _bare(outline)
        return Made(
            form, outline.reaches, outline.view_of, outline.shares, 0 if outline.shares else size_in_bytes(form)
        )
    if isinstance(outline, dict):
        return {key: _result(item) for key, item in outline.items()}
    if isinstance(outline, tuple):
        return rebuild_tuple(type(outline), [_result(item) for item in outline])
    return [_result(item) for item in outline] if isinstance(outline, list) else None


def _parts(result: Any) -> Iterator[Made | Same]:
    if isinstance(result, Made | Same):
        yield result
    elif isinstance(result, dict | tuple | list):
        for item in result.values() if isinstance(result, dict) else result:
            yield from _parts(item)


def _bare(form: TensorSpec) -> TensorSpec:
    return dataclasses.replace(form, has_grad=False, position=None, reaches=(), view_of=None, shares=())


@dataclasses.dataclass(frozen=True, slots=True)
class MoveToVault:
    """An object of the session process that has to move into the vault before the call can run.

    Attributes:
        obj: the tensor or plan as the call was given it; an attribute of the held object if the reference names one.
        ref: the reference by which the call names it.
        reason: why it has to move, for the user.
    """

    obj: Any
    ref: Ref
    reason: str


@dataclasses.dataclass(slots=True)
class ProxyResult:
    """What a call on proxies gives.

    Attributes:
        result: the result: proxies in place of tensors and plans, `SameAs` for arguments, plain values for answers
            about sizes, dtypes and the like.
        moves: objects that have to move into the vault first. If there are any, nothing has happened yet: move them,
            put their proxies in place of them, and call again.
        new: the proxies of the result that need an id, in the order in which ids are given.
        bytes: the size of the new results and gradients.
        has_effect: whether the vault has to run the call; False if it would neither make nor change anything there.
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
        args: its arguments, with proxies for what is in the vault and objects for what is here.
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

    def done(self, result: Any = None, has_effect: bool = True) -> ProxyResult:
        """Return what the call gives."""
        return ProxyResult(result, (), tuple(self.new), self.size, has_effect)

    # --- what has to move ---------------------------------------------------------------------------------------

    def moves(self, effects: Effects) -> tuple[MoveToVault, ...]:
        """Return what has to move into the vault for the effects to take place there."""
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

    def move(self, obj: Any, written: bool) -> MoveToVault | None:
        """Return the move of an object; None if it came along with the call, so that only the vault has it."""
        name = self.operation.cmd_name
        ref = self.ref_to(obj)
        if ref is None:
            return None
        if isinstance(obj, torch.Tensor) and ref.attribute is None and not obj.is_leaf:
            raise SyftError(
                f"{name} needs a tensor in the vault that was computed outside of it, and its graph can't move there. "
                "Pass x.detach(), or do the computation with the private data from its leaves on."
            )
        reason = "writes to it" if written else "connects it to a result with autograd"
        return MoveToVault(obj, ref, f"{name} {reason}")

    def ref_to(self, obj: Any) -> Ref | None:
        """Return the reference by which the call names an object that it was given."""
        sent = iter_tensors((self.operation.cmd_args, self.operation.cmd_kwargs))
        given = iter_tensors((self.args, self.kwargs))
        return next((ref for ref, one in zip(sent, given, strict=False) if one is obj and type(ref) is Ref), None)

    # --- what happens -------------------------------------------------------------------------------------------

    def apply(self, effects: Effects) -> ProxyResult:
        """Change the proxies as the call changes the tensors, and return the result."""
        if effects.written:
            self._check_writes(effects)
        for proxy in self.given:
            if type(proxy) is Proxy and proxy.origin is not None and not proxy.origin.is_current:
                raise SyftError(
                    "A tensor was changed in place after a view of it had been made in the vault, which has the "
                    "earlier values. Make the view again."
                )
        for change in effects.changes:
            self._change(change)
        result = self._build(effects.result)
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

    def _sources(self, positions: tuple[int, ...]) -> tuple[GraphNode | Proxy, ...]:
        found = [self.proxy_at(position).source for position in positions]
        return tuple([source for source in found if source is not None])

    def proxy_at(self, position: int) -> Proxy:
        """Return the proxy of a given tensor; for a tensor that came along with the call a new one."""
        proxy: Any = self.given[position]
        if not isinstance(proxy, Proxy):
            proxy = self.given[position] = tensor_proxy(proxy)
        found: Proxy = proxy
        return found

    def _change(self, change: Change) -> None:
        proxy = self.proxy_at(change.position)
        form = change.form
        if form.requires_grad and not form.is_leaf:
            self._connect(proxy, self._sources(change.parents))
        else:
            proxy.node = None
        proxy.form = form

    def _connect(self, proxy: Proxy, sources: tuple[GraphNode | Proxy, ...]) -> None:
        """Give a proxy that was written to, and all tensors that share its memory, a new position in the graph."""
        others = proxy.views()
        before = proxy.node
        own = proxy.source
        if own is not None and own not in sources and proxy.root is not None:
            sources = (*sources, own)  # a view keeps what was not overwritten
        proxy.node = GraphNode(sources)
        if before is not None and before.owner is not None:
            before.owner, proxy.node.owner = None, before.owner
        for other in others:
            old = other.source
            other.node = GraphNode((proxy.node,) if old is None else (proxy.node, old))
            other.form = connected(other.form)

    # --- the result ---------------------------------------------------------------------------------------------

    def _build(self, result: Any) -> Any:
        kind = type(result)
        if kind is Made:
            return self._make(result)
        if kind is Same:
            return self.same(result.position)
        if result is None:
            return None
        if kind is dict:
            return {key: self._build(item) for key, item in result.items()}
        items = [self._build(item) for item in result]
        return items if kind is list else rebuild_tuple(kind, items)

    def _make(self, made: Made) -> Proxy:
        form = made.form
        node = GraphNode(self._sources(made.parents)) if form.requires_grad and not form.is_leaf else None
        proxy = Proxy(form, node)
        for position in made.shares:
            given = self.given[position]
            if type(given) is Proxy:
                proxy.origin = proxy.origin or given.origin
            elif self.ref_to(given) is not None:
                proxy.origin = Origin(given)
        if made.view_of is not None and type(self.given[made.view_of]) is Proxy:
            proxy.join(self.given[made.view_of])
        self.size += made.size
        self.add(proxy)
        return proxy

    def add(self, proxy: Any) -> Any:
        """Note a proxy that needs an id, and return it."""
        self.new.append(proxy)
        return proxy

    def same(self, position: int) -> Any:
        """Return a result that is one of the given tensors."""
        given = self.given[position]
        if isinstance(given, Proxy):
            return self.existing(given)
        place = self._place_of(given)
        if place is not None:
            return SameAs(place, TensorMeta.of(given))
        proxy = tensor_proxy(given)
        if self.ref_to(given) is not None:
            proxy.origin = Origin(given)
        self.size += size_in_bytes(proxy.form)
        return self.add(proxy)

    def existing(self, proxy: Proxy) -> Any:
        """Return a result that is a tensor of the vault: the argument that it is, or the same tensor under a new id."""
        place = self._place_of(proxy)
        return SameAs(place, describe(proxy)) if place is not None else self.add(proxy)

    def _place_of(self, obj: Any) -> int | None:
        sent = (*self.operation.cmd_args, *self.operation.cmd_kwargs.values())
        for place, arg in enumerate((*self.args, *self.kwargs.values())):
            if arg is obj and type(sent[place]) is Ref:
                return place
        return None

    def give_gradient(self, proxy: Proxy, node: GraphNode | None = None) -> None:
        """Note that a backward pass adds to the gradient of a tensor.

        Args:
            proxy: the tensor.
            node: the graph of the gradient, if it gets one.
        """
        if proxy.grad is not None and node is None:
            return
        form = gradient_form(proxy.form)
        self.size += size_in_bytes(form)
        if node is not None:
            form = connected(form)
        proxy.grad = Proxy(form, node)
