"""TensorSpec: the properties of a tensor that reveal no values, and fake tensors with the same properties.

A call is tried on fakes of its arguments. The resulting specs depend on specs only, so they may be revealed: sizes,
dtypes, strides, shared graphs, and the presence of gradients.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from syft.core.references import SameAs
from syft.core.trees import map_tensors, rebuild_tuple
from syft.hook.syft_tensor import SyftTensor

if TYPE_CHECKING:
    from torch._subclasses.fake_tensor import FakeTensorMode

V = TypeVar("V")


@dataclasses.dataclass(frozen=True, slots=True)
class TensorSpec:
    """The properties of a tensor besides its values.

    Attributes:
        shape: its sizes.
        dtype: its dtype.
        requires_grad: whether gradients reach it.
        strides: its strides in memory.
        is_leaf: whether it is a leaf of autograd's graph.
        is_conj: whether its memory holds the conjugate.
        is_neg: whether its memory holds the negative.
        has_grad: whether there is a gradient.
        position: its index among the input tensors, for a result that is one.
        reaches: the positions of input tensors that its gradients reach.
        view_of: the position of the input tensor that it is a view of, as autograd knows it.
        shares: the positions of input tensors whose memory it shares.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    requires_grad: bool = False
    strides: tuple[int, ...] = ()
    is_leaf: bool = True
    is_conj: bool = False
    is_neg: bool = False
    has_grad: bool = False
    position: int | None = None
    reaches: tuple[int, ...] = ()
    view_of: int | None = None
    shares: tuple[int, ...] = ()


def spec_of(tensor: torch.Tensor) -> TensorSpec:
    """Return the spec of a plain tensor; TypeError for any other value."""
    if isinstance(tensor, SyftTensor) or tensor.layout is not torch.strided or tensor.is_quantized:
        raise TypeError("only plain tensors have a spec")
    leaf = tensor.is_leaf
    return TensorSpec(
        tuple(map(int, tensor.shape)), tensor.dtype, tensor.requires_grad, tuple(map(int, tensor.stride())), leaf,
        tensor.is_conj(), tensor.is_neg(), leaf and tensor.grad is not None,
    )  # fmt: skip


def specs_in(value: object) -> Any:
    """Return arguments with specs in place of tensors; TypeError if other leaves are among them."""

    def spec(leaf: object) -> Any:
        if not isinstance(leaf, torch.Tensor):
            raise TypeError("only plain tensors have a spec")
        return spec_of(leaf)

    return map_tensors(spec, value)


def remember(cache: dict[Any, V], key: object, compute: Callable[[], V], most: int) -> V:
    """Return the cached value of a key, computing it when first needed; a full cache is cleared before."""
    found = cache.get(key)
    if found is None:
        found = compute()
        if len(cache) >= most:
            cache.clear()
        cache[key] = found
    return found


def frozen(value: object, leaf_key: Callable[[object], Any] = lambda value: None) -> Any:
    """Return a hashable key that differs where two calls may differ; `leaf_key` returns the key of a leaf, or None."""
    found = leaf_key(value)
    if found is not None:
        return found
    if isinstance(value, tuple | list) and not isinstance(value, torch.Size):
        return (type(value).__name__, tuple([frozen(item, leaf_key) for item in value]))
    if isinstance(value, dict):
        return ("dict", tuple([(key, frozen(item, leaf_key)) for key, item in value.items()]))
    if isinstance(value, slice):
        return ("slice", *[frozen(item, leaf_key) for item in (value.start, value.stop, value.step)])
    return (type(value).__name__, value)


class FakeInputs:
    """Fake tensors in place of the inputs, and the effects of a call on them. Made inside a fake mode.

    Args:
        mode: the fake mode, if there is one: calls may have thousands of inputs, and it makes their fakes faster.

    Attributes:
        mode: the mode.
        tensors: the fakes, in the order in which they were made.
    """

    def __init__(self, mode: FakeTensorMode | None = None) -> None:
        self.mode = mode
        self.tensors: list[torch.Tensor] = []
        # The leaves that represent the graphs of the fakes; and the initial specs and versions.
        self._leaves: list[torch.Tensor] = []
        self._before: list[tuple[TensorSpec, int]] = []

    def of(self, value: object) -> Any:
        """Return nested arguments with fakes in place of specs."""
        if isinstance(value, TensorSpec):
            return self._fake(value)
        if isinstance(value, dict):
            return {key: self.of(item) for key, item in value.items()}
        if type(value) is tuple:
            return tuple([self.of(item) for item in value])
        if type(value) is list:
            return [self.of(item) for item in value]
        if isinstance(value, slice):
            return slice(self.of(value.start), self.of(value.stop), self.of(value.step))
        return value

    def _fake(self, spec: TensorSpec) -> torch.Tensor:
        made = blank(spec, self.mode)
        leaf = made
        if spec.requires_grad and spec.is_leaf:
            made.requires_grad_()
        elif spec.requires_grad:
            with torch.enable_grad():
                leaf = torch.zeros(spec.shape, dtype=spec.dtype).requires_grad_()
                if _overlaps(spec):  # it can't be written to, so its graph is that of a view
                    made = leaf.as_strided(spec.shape, spec.strides)
                else:
                    made.copy_(leaf)
        if spec.has_grad:
            made.grad = torch.zeros_like(made)
        self.tensors.append(made)
        self._leaves.append(leaf)
        self._before.append((spec, made._version))
        return made

    def outline(self, result: object) -> Any:
        """Return a result with specs in place of tensors, and None in place of other values."""
        if isinstance(result, torch.Tensor):
            same = next((place for place, fake in enumerate(self.tensors) if fake is result), None)
            return dataclasses.replace(
                spec_of(result),
                position=same,
                reaches=self._reached(result),
                view_of=self._viewed(result),
                shares=self._shared(result),
            )
        if isinstance(result, dict):
            return {key: self.outline(item) for key, item in result.items()}
        if isinstance(result, tuple) and not isinstance(result, torch.Size):
            return rebuild_tuple(type(result), [self.outline(item) for item in result])
        return [self.outline(item) for item in result] if isinstance(result, list) else None

    def _reached(self, result: torch.Tensor) -> tuple[int, ...]:
        if not result.requires_grad:
            return ()
        reached = {id(leaf) for leaf in leaves_of([result])}
        return tuple(place for place, leaf in enumerate(self._leaves) if id(leaf) in reached)

    def _viewed(self, result: torch.Tensor) -> int | None:
        """Return the position of the fake that a result is a view of, as autograd knows it."""
        if not result._is_view():
            return None
        base = result._base
        for place, fake in enumerate(self.tensors):
            if fake is base or (fake._is_view() and fake._base is base):
                return place if fake is not result else None
        return None

    def _shared(self, result: torch.Tensor) -> tuple[int, ...]:
        """Return the positions of the fakes whose memory a result shares."""
        memory = result.untyped_storage()._cdata
        return tuple(place for place, fake in enumerate(self.tensors) if fake.untyped_storage()._cdata == memory)

    def changed(self) -> tuple[tuple[int, TensorSpec], ...]:
        """Return the positions of input tensors that the call has changed, and their specs now."""
        found = []
        for place, (fake, leaf, (before, version)) in enumerate(
            zip(self.tensors, self._leaves, self._before, strict=True)
        ):
            after, has_grad = spec_of(fake), leaf.grad is not None
            if after.has_grad is not has_grad:
                after = dataclasses.replace(after, has_grad=has_grad)
            if after != before or fake._version != version:
                found.append((place, dataclasses.replace(after, reaches=self._reached(fake))))
        return tuple(found)


def _overlaps(spec: TensorSpec) -> bool:
    return any(stride == 0 and size > 1 for size, stride in zip(spec.shape, spec.strides, strict=True))


def blank(spec: TensorSpec, mode: FakeTensorMode | None = None) -> torch.Tensor:
    """Return zeros of a spec, without a graph; a fake of the mode if one is given."""
    if mode is None:
        made = torch.empty_strided(spec.shape, spec.strides, dtype=spec.dtype)
    else:  # what the mode does for the call above, without its cache, which takes four times as long
        from torch._subclasses.fake_tensor import FakeTensor

        with torch._C._DisableTorchDispatch():
            meta = torch.empty_strided(spec.shape, spec.strides, dtype=spec.dtype, device="meta")
        made = FakeTensor(mode, meta, torch.device("cpu"))
    if type(made) is torch.Tensor:  # a fake has no values
        made.zero_() if not _overlaps(spec) else made.as_strided((1,), (1,)).zero_()
    if spec.is_conj:
        made = made.conj()
    return torch._neg_view(made) if spec.is_neg else made


def shape_of_result(result: object) -> Any:
    """Return a result with shapes and dtypes in place of tensors, as the client sees it."""
    if isinstance(result, torch.Tensor | TensorSpec):
        return TensorSpec(tuple(map(int, result.shape)), result.dtype)
    if isinstance(result, SameAs):
        return TensorSpec(tuple(result.meta.shape), result.meta.dtype)
    if isinstance(result, dict):
        return tuple((key, shape_of_result(item)) for key, item in result.items())
    if isinstance(result, tuple | list) and not isinstance(result, torch.Size):
        return tuple(shape_of_result(item) for item in result)
    return None


def leaves_of(tensors: Iterable[torch.Tensor]) -> Iterator[torch.Tensor]:
    """Yield the leaves that a backward pass from some tensors may add gradients to."""
    for tensor in tensors:
        if tensor.is_leaf:
            yield tensor
    for node in nodes_of(tensors):
        leaf = getattr(node, "variable", None)
        if isinstance(leaf, torch.Tensor):
            yield leaf


def nodes_of(tensors: Iterable[torch.Tensor]) -> set[Any]:
    """Return the nodes of autograd's graph that a backward pass from some tensors goes through."""
    pending = [tensor.grad_fn for tensor in tensors if tensor.grad_fn is not None]
    seen = set(pending)
    while pending:
        for following, _ in pending.pop().next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                pending.append(following)
    return seen
