"""AutogradTensor: the link that shows that gradients are computed for what is below it.

torch's own autograd computes them. A plain tensor below the link is an ordinary tensor that requires a gradient.
Pointers, encoded and shared tensors are followed anyway, at their worker or below `__torch_function__`; over them this
link is a view, made when `x.child` is read (see `syft.hook.autograd_mark`).

Example:
    >>> import torch, syft as sy
    >>> hook = sy.TorchHook(torch)
    >>> a = sy.AutogradTensor().on(torch.tensor([1.0, 2.0]).fix_precision())
    >>> (a * a).backward()
    >>> a.grad.float_precision()
    tensor([2., 4.])
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from syft.core.dispatch import give_methods
from syft.core.id_provider import ObjectId
from syft.core.labels import check_labels
from syft.core.providers import providers
from syft.core.references import TensorMeta
from syft.core.tensor import AbstractTensor, Level, below, keep_ids
from syft.core.trees import map_tensors
from syft.hook.autograd_mark import KEY as MARK
from syft.hook.autograd_mark import AutogradMark, mark, mark_of
from syft.hook.syft_tensor import SyftTensor, make_shell, refresh
from syft.pointers.pointer_tensor import PointerTensor
from syft.tensors.gradients import GradFunc
from syft.tensors.gradients import backwards_grad as backwards_grad
from syft.tensors.views import Viewable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from syft.workers.base import BaseWorker


class AutogradTensor(AbstractTensor):
    """A link over a tensor whose gradients are computed.

    Args:
        data: the tensor or link below it.
        requires_grad: make the tensor below require a gradient, if its dtype has gradients.
        owner: the worker it belongs to.
        id: its id.
        preinitialize_grad: give the tensor below a gradient of zeros, if it has none.
        tags: its tags, which searches match.
        description: its description, which searches match.
        child: same as `data`.
    """

    on_shells: ClassVar[bool] = True
    # Above pointers and encoded tensors, and below PrivateTensor.
    priority: ClassVar[int] = 40
    # The tensor that shows this link; None for a link on its own.
    _shell: Any = None

    def __init__(
        self,
        data: Any = None,
        requires_grad: bool = True,
        owner: BaseWorker | None = None,
        id: ObjectId | None = None,
        preinitialize_grad: bool = False,
        tags: Iterable[str] | None = None,
        description: str | None = None,
        child: Any = None,
    ) -> None:
        super().__init__(id=id, owner=owner, tags=tags, description=description)
        self.preinitialize_grad = bool(preinitialize_grad)
        self._requires_grad = bool(requires_grad)
        data = child if data is None else data
        if data is not None:
            self._take(data)

    # --- the chain ----------------------------------------------------------------------------------------------

    def _take(self, data: Any) -> None:
        """Put a tensor, or the chain in it, below this link."""
        if isinstance(data, SyftTensor):
            self._shell = _linked(data, self)
            self.child = self._shell.__dict__["child"]
        else:
            self.child = data
            if isinstance(data, torch.Tensor):
                _require_grad(data, self)

    def on(self, tensor: torch.Tensor, wrap: bool = True) -> Any:
        """Put this link on top of a tensor (or of the chain inside it); a parameter stays one."""
        if isinstance(tensor, SyftTensor) and isinstance(below(tensor), AutogradTensor):
            return tensor if wrap else below(tensor)
        self._take(tensor)
        made = self._tensor() if isinstance(tensor, SyftTensor | AbstractTensor) else make_shell(self, _follows(tensor))
        if isinstance(tensor, torch.nn.Parameter):
            made._is_param = True
        return made if wrap else self

    def wrap(self, register: bool = True, type: object = None, **kwargs: Any) -> Any:
        """Put this link inside a torch.Tensor that users can work with."""
        if isinstance(self.child, torch.Tensor):
            return make_shell(self, _follows(self.child))
        return self._tensor(**kwargs)

    def _tensor(self, requires_grad: bool | None = None) -> Any:
        """Return the tensor that calls on this link run on."""
        if isinstance(self.child, torch.Tensor):
            return self.child
        if self._shell is None:
            shell = make_shell(self.child, self.child.tensor_meta().requires_grad)
            wanted = self._requires_grad if requires_grad is None else requires_grad
            self._shell = _linked(shell, self) if wanted else mark(shell, _mark_from(self))
            self.child = self._shell.__dict__["child"]
        return self._shell

    def tensor_meta(self) -> TensorMeta:
        """Return shape, dtype, requires_grad and device of the tensor below."""
        meta = super().tensor_meta()
        return TensorMeta(meta.shape, meta.dtype, self.requires_grad, meta.device)

    # --- gradients ----------------------------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        """Whether autograd follows the tensor below; the requested value if its dtype has no gradients."""
        seen = self._shell if self._shell is not None else self.child if "child" in self.__dict__ else None
        if isinstance(seen, torch.Tensor) and (seen.is_floating_point() or seen.is_complex()):
            return bool(seen.requires_grad)
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self._requires_grad = bool(value)
        if "child" in self.__dict__:
            self._tensor().requires_grad_(bool(value))

    @property
    def grad(self) -> Any:
        """The gradient: plain over a plain tensor, else with this link, so that `.get()` fetches a copy."""
        return self._tensor().grad

    @grad.setter
    def grad(self, value: Any) -> None:
        self._tensor().grad = _inner(value)

    def grad_of(self, shell: torch.Tensor) -> Any:
        """Return the gradient of the plain tensor below."""
        return self.child.grad

    def set_grad_of(self, shell: torch.Tensor, value: object) -> None:
        """Set the gradient of the plain tensor below."""
        self.child.grad = _inner(value)

    @property
    def grad_fn(self) -> Any:
        """The node of the graph that computed the tensor below; None for a leaf, and for a remote tensor."""
        tensor = self._tensor()
        return None if isinstance(below(tensor), PointerTensor) else GradFunc.of(tensor.grad_fn)

    def backward(
        self, grad: Any = None, retain_graph: bool | None = None, create_graph: bool = False, inputs: Any = None
    ) -> None:
        """Compute gradients; without an argument the gradient of this tensor starts with ones."""
        tensor, gradient = self._tensor(), _inner(grad)
        if gradient is None and tensor.numel() != 1:
            gradient = torch.ones_like(tensor)
        tensor.backward(gradient, retain_graph, create_graph, _inner(inputs))

    @property
    def data(self) -> AutogradTensor:
        """This link."""
        return self

    @data.setter
    def data(self, value: object) -> None:
        self._tensor().data = _inner(value)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name.startswith("_") or "child" not in self.__dict__:
                raise
            return getattr(self.child, name)  # such as precision_fractional, location

    def attr(self, attr_name: str) -> Any:
        """Return the gradient, or an attribute of the tensor below."""
        return self.grad if attr_name == "grad" else getattr(self.child, attr_name)

    # --- what is below ------------------------------------------------------------------------------------------

    def get(self) -> Any:
        """Fetch what is below; the link stays unless that is a plain tensor."""
        fetched = self._tensor().get()
        return fetched.child if isinstance(fetched, SyftTensor) else fetched

    def float_precision(self) -> torch.Tensor:
        """Decode what is below; the link is removed."""
        decoded: torch.Tensor = self._tensor().float_precision()
        return decoded

    float_prec = float_precision

    def clone(self, *, memory_format: torch.memory_format | None = None) -> Any:
        """Return a copy of this link and of the tensor below it, with the same ids."""
        options = {} if memory_format is None else {"memory_format": memory_format}
        return keep_ids(self, _as_link(self._tensor().clone(**options)))

    def get_class_attributes(self) -> dict[str, Any]:
        """Return the attributes that results inherit."""
        return {"requires_grad": self._requires_grad}

    @classmethod
    def handle(cls, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a call on bare links, through the tensors that autograd follows; results are bare links."""
        seen: dict[int, AutogradTensor] = {}

        def tensor_of(leaf: object) -> Any:
            if isinstance(leaf, AutogradTensor):
                tensor = leaf._tensor()
                seen[id(tensor)] = leaf
                return tensor
            return leaf.wrap() if isinstance(leaf, AbstractTensor) else leaf

        inner_args, inner_kwargs = map_tensors(tensor_of, (args, kwargs))
        result = function(*inner_args, **inner_kwargs)
        return map_tensors(lambda leaf: seen[id(leaf)] if id(leaf) in seen else _as_link(leaf), result)

    @classmethod
    def handle_shells(cls, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a call on the plain tensors below; results have the link."""
        seen: dict[int, Any] = {}

        def inner(leaf: Any) -> Any:
            tensor = _inner(leaf)
            if tensor is not leaf:
                seen[id(tensor)] = leaf if isinstance(leaf, SyftTensor) else leaf.wrap()
            return tensor

        inner_args, inner_kwargs = map_tensors(inner, (args, kwargs))
        if function is torch.Tensor.__deepcopy__:
            return _as_shell(copy.deepcopy(*inner_args))  # a parameter has its own way
        result = function(*inner_args, **inner_kwargs)
        for shell in seen.values():
            link = below(shell)
            if isinstance(link, AutogradTensor) and _spec(shell) != _spec(link.child):
                refresh(shell)
        return map_tensors(lambda leaf: seen[id(leaf)] if id(leaf) in seen else _as_shell(leaf), result)

    # --- bytes --------------------------------------------------------------------------------------------------

    @staticmethod
    def simplify(worker: BaseWorker | None, tensor: AbstractTensor) -> tuple[Any, ...]:
        """Return id, tags, description, both options and the child."""
        link: Any = tensor
        child = link.__dict__.get("child")
        return (link.id, link.tags, link.description, link.requires_grad, link.preinitialize_grad, child)

    @classmethod
    def detail(cls, worker: BaseWorker | None, payload: tuple[Any, ...]) -> AutogradTensor:
        """Rebuild a link; the child is a tensor or another kind of link."""
        obj_id, tags, description, requires_grad, preinitialize_grad, child = payload
        check_labels(obj_id, tags, description)
        if type(requires_grad) is not bool or type(preinitialize_grad) is not bool:
            raise TypeError("requires_grad and preinitialize_grad of an AutogradTensor are True or False")
        if child is not None and not isinstance(child, torch.Tensor | AbstractTensor):
            raise TypeError("the child of an AutogradTensor is a tensor or a link")
        if isinstance(child, AutogradTensor) or (isinstance(child, SyftTensor) and mark_of(child) is not None):
            raise TypeError("the child of an AutogradTensor is not another one")
        made = cls(None, requires_grad, worker, obj_id, preinitialize_grad, tags, description)
        if child is not None:
            made.child = below(child) if isinstance(child, SyftTensor) else child
            if requires_grad and isinstance(made.child, torch.Tensor):
                _require_grad(made.child, made)
        return made


# --- helpers ----------------------------------------------------------------------------------------------------


def _mark_from(link: AutogradTensor) -> AutogradMark:
    return AutogradMark(link._id, link._requires_grad, link.preinitialize_grad, link.tags, link.description)


def _linked(tensor: SyftTensor, link: AutogradTensor) -> Any:
    """Return a tensor around the chain of another one, marked; it requires a gradient if it can."""
    if mark_of(tensor) is not None:
        return tensor
    inner = tensor.__dict__["child"]
    if isinstance(inner, PointerTensor):
        _require_grad(tensor, link)
        alias = keep_ids(inner, inner._second())
        made: Any = make_shell(alias, tensor.requires_grad)
    elif inner.level is Level.ATEN and tensor.requires_grad and not tensor.is_leaf:
        made = tensor.view_as(tensor)
    elif inner.level is Level.ATEN:
        made = make_shell(_alias(inner), link._requires_grad and tensor.is_floating_point())
        made.grad = tensor.grad
    else:
        _require_grad(tensor, link)
        made = make_shell(inner, tensor.requires_grad)
    mark(made, _mark_from(link))
    if link.preinitialize_grad and made.requires_grad and made.grad is None:
        made.grad = torch.zeros_like(made).detach()
    return made


def _alias(link: Any) -> Any:
    """Return a second link to the same numbers: a write to either changes both."""
    if not isinstance(link, Viewable) or "child" not in link.__dict__:
        return link
    alias: Any = link.like(link.child)
    alias.tags, alias.description = link.tags, link.description
    return keep_ids(link, alias).view_of(link, lambda child: child, lambda _, child: child)


def _require_grad(tensor: torch.Tensor, link: AutogradTensor) -> None:
    """Make a tensor require a gradient, if it was requested and its dtype has gradients."""
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return
    if link._requires_grad and not tensor.requires_grad:
        tensor.requires_grad_()
    if link.preinitialize_grad and tensor.requires_grad and tensor.is_leaf and tensor.grad is None:
        tensor.grad = torch.zeros_like(tensor).detach()


def _follows(tensor: Any) -> bool:
    return bool(tensor.requires_grad)


def _spec(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.shape, tensor.dtype, tensor.requires_grad


def _inner(value: Any) -> Any:
    """Return the tensor that a link, or a shell around one, computes with."""
    if isinstance(value, list | tuple):
        return [_inner(item) for item in value]
    if isinstance(value, AutogradTensor):
        return value._tensor()
    link = below(value) if isinstance(value, SyftTensor) else None
    return link.child if isinstance(link, AutogradTensor) else value


def _as_link(leaf: Any) -> Any:
    """Return a result of a call as a bare link."""
    if isinstance(leaf, SyftTensor):
        return leaf.child
    return AutogradTensor(leaf, requires_grad=leaf.requires_grad) if isinstance(leaf, torch.Tensor) else leaf


def _as_shell(leaf: Any) -> Any:
    """Return a result of a call on plain tensors with the link."""
    if isinstance(leaf, SyftTensor):
        return mark(leaf)
    if not isinstance(leaf, torch.Tensor):
        return leaf
    return make_shell(AutogradTensor(leaf, requires_grad=leaf.requires_grad), leaf.requires_grad)


def view(shell: Any) -> AutogradTensor:
    """Return the AutogradTensor that a marked tensor shows; the same one as long as it is in use."""
    noted: AutogradMark = shell.__dict__[MARK]
    link: AutogradTensor | None = noted.view() if noted.view is not None else None
    if link is None or link._shell is not shell:
        link = AutogradTensor(
            None, noted.requires_grad, None, noted.id, noted.preinitialize_grad, None, noted.description
        )
        link.tags, link._shell = noted.tags, shell
        noted.view = weakref.ref(link)
    link.child = shell.__dict__["child"]
    return link


providers.autograd_view = view
give_methods(
    AutogradTensor,
    "add add_ sub sub_ mul div pow matmul mm addmm t eq ne gt ge lt le relu sum mean neg sigmoid tanh sqrt sin sinh "
    "asin",
)
