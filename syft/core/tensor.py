"""AbstractTensor: one link of a chain, a plain class with a table of rules for torch calls.

A chain is a `SyftTensor` (the outer torch.Tensor) whose `.child` is a link, whose `.child` is the next link or
a plain tensor. A link says at which level it is interpreted:

* `Level.API`: it sees the call the user wrote (`torch.nn.functional.linear`), above autograd;
* `Level.ATEN`: it sees the ATen operations below autograd, so torch differentiates through it.

and what happens to a call without a rule: `"refuse"` (the default) or `"forward"` (run it on the tensor below, and
put the link back on the results; the default of a class that defines `on_function_call`).

Example:
    >>> import torch
    >>> from syft.core.tensor import AbstractTensor
    >>> class Shouting(AbstractTensor):
    ...     unregistered = "forward"
    >>> @Shouting.implements(torch.Tensor.neg)
    ... def shout(x):
    ...     return "NO"
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from syft.core.id_provider import ObjectId
from syft.core.labels import check_labels
from syft.core.object import AbstractObject, initialize_object
from syft.core.providers import providers
from syft.core.redefinition import is_redefinition
from syft.core.references import TensorMeta
from syft.exceptions import SyftError

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

Rule = Callable[..., Any]


class Level(enum.Enum):
    """Where a link sees a call: as the user wrote it, or as ATen operations below autograd."""

    API = "api"
    ATEN = "aten"


_Tensor: Any = torch.Tensor


class AbstractTensor(AbstractObject):
    """One link of a chain.

    Args:
        id: its id; a fresh one is drawn when first needed.
        owner: the worker it belongs to.
        tags: tags it can be found by.
        description: a text it can be found by.
        child: the next link below it, or a plain tensor.
    """

    level: ClassVar[Level] = Level.API
    unregistered: ClassVar[str] = "refuse"
    # Of several links in one call the one with the highest priority decides; pointers come last.
    priority: ClassVar[int] = 1
    # Whether the link handles calls with the shells of its arguments, in `handle_shells`, instead of with their links.
    on_shells: ClassVar[bool] = False
    # Whether tags and descriptions of a chain are those of this link.
    carries_labels: ClassVar[bool] = False
    # Name of a ufunc of numpy -> the operator that computes it on tensors, for `numpy_scalar * x`.
    numpy_operators: ClassVar[Mapping[str, Callable[..., Any]]] = {}
    _rules: ClassVar[dict[Any, Rule]] = {}
    # Set when a call changed shape, dtype or requires_grad in place, so that the shell must follow.
    reshaped = False

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        cls._rules = {}
        if "on_function_call" in cls.__dict__ and all(
            "unregistered" not in base.__dict__ for base in _below_abstract(cls)
        ):
            cls.unregistered = "forward"

    @classmethod
    def implements(cls, *functions: object) -> Callable[[Rule], Rule]:
        """Register a rule for torch functions (API level) or ATen operations on this kind of link.

        A function that is defined again, as when a notebook cell runs twice, replaces the earlier one.
        """

        def register(rule: Rule) -> Rule:
            for function in functions:
                if function in cls._rules and not is_redefinition(cls._rules[function], rule):
                    raise SyftError(f"{cls.__name__} already has a rule for {function}.")
                cls._rules[function] = rule
            rule_cache.clear()
            return rule

        return register

    @classmethod
    def handle(cls, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a torch call whose arguments hold links of this kind (replaced by core.dispatch)."""
        return providers.handle(cls, function, args, kwargs)

    @classmethod
    def handle_shells(cls, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a torch call as the user wrote it, for links with `on_shells`."""
        raise NotImplementedError(f"{cls.__name__} has on_shells and needs handle_shells().")

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run a torch function on bare links, as the method of that name does; results are links."""
        return providers.run_bare(func, args, kwargs)

    def tensor_meta(self) -> TensorMeta:
        """Return shape, dtype, requires_grad and device as the user sees them."""
        child = self.child
        return child.tensor_meta() if isinstance(child, AbstractTensor) else TensorMeta.of(child)

    def wrap(self, register: bool = True, type: object = None, **kwargs: object) -> Any:
        """Put this link inside a torch.Tensor that users can work with."""
        return providers.wrapper(self, **kwargs)

    def on(self, tensor: torch.Tensor, wrap: bool = True) -> Any:
        """Put this link on top of a tensor (or of the chain inside it)."""
        requires_grad = None
        if isinstance(tensor, providers.wrapper):
            self.child = tensor.__dict__["child"]
        elif self.level is Level.ATEN and isinstance(tensor, torch.Tensor):
            requires_grad, self.child = tensor.requires_grad, tensor.detach()
        else:
            self.child = tensor
        if not wrap:
            return self
        wrapped = self.wrap()
        return wrapped.requires_grad_() if requires_grad else wrapped

    def copy(self) -> Any:
        """Return a copy with an id of its own."""
        return without_ids(self.clone())

    def clone(self, *, memory_format: torch.memory_format | None = None) -> Any:
        """Return a copy of this link and of the tensor below it, with the same ids."""
        options = {} if memory_format is None else {"memory_format": memory_format}
        made = type(self)(**self.get_class_attributes()).on(self.child.clone(**options), wrap=False)
        return keep_ids(self, made)

    @property
    def shape(self) -> torch.Size:
        """The shape of the tensor at the bottom."""
        return self.tensor_meta().shape

    def dim(self) -> int:
        """Return the number of dimensions."""
        return len(self.shape)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype as the user sees it."""
        return self.tensor_meta().dtype

    @property
    def grad(self) -> Any:
        """The gradient of the tensor below, under the same link."""
        grad = self.child.grad
        return None if grad is None else type(self)(**self.get_class_attributes()).on(grad)

    def grad_of(self, shell: torch.Tensor) -> Any:
        """Return the gradient of the shell this link is in: torch's own, below autograd."""
        if self.level is Level.ATEN:
            with torch._C.DisableTorchFunctionSubclass():
                return _Tensor.grad.__get__(shell)
        grad = self.grad
        return grad.wrap() if isinstance(grad, AbstractTensor) else grad

    def set_grad_of(self, shell: torch.Tensor, value: object) -> None:
        """Set the gradient of the shell this link is in."""
        if self.level is Level.ATEN:
            with torch._C.DisableTorchFunctionSubclass():
                _Tensor.grad.__set__(shell, value)
        else:
            self.child.grad = below(value)

    def refresh(self) -> Any:
        """Re-randomise the shares below this link, if there are any."""
        self.child = self.child.refresh()
        return self

    @classmethod
    def handle_func_command(cls, command: tuple[Any, ...]) -> Any:
        """Run a command `(function or dotted name, self or None, args, kwargs)` on links of this kind."""
        name, self, args, kwargs = command
        function = providers.resolve(name, self is not None) if isinstance(name, str) else name
        return cls.handle(function, args if self is None else (self, *args), kwargs or {})

    def __getattr__(self, name: str) -> Any:
        return providers.call_method(self, name)

    def __repr__(self) -> str:
        name = type(self).__name__
        return f"{name}>{self.child!r}" if "child" in self.__dict__ else name

    @staticmethod
    def simplify(worker: BaseWorker, tensor: AbstractTensor) -> tuple[Any, ...]:
        """Return id, tags, description, inherited attributes and child."""
        child = tensor.__dict__.get("child")
        return (tensor.id, tensor.tags, tensor.description, tensor.get_class_attributes(), child)

    @classmethod
    def detail(cls, worker: BaseWorker, payload: tuple[Any, ...]) -> Any:
        """Rebuild a link of this class."""
        obj_id, tags, description, attributes, child = payload
        check_labels(obj_id, tags, description)
        link = cls(id=obj_id, owner=worker, tags=tags, description=description, **attributes)
        if child is not None:
            link.child = child
        return link


def _below_abstract(cls: type) -> list[type]:
    """Return a class and its bases up to AbstractTensor."""
    return [base for base in cls.__mro__ if base is not AbstractTensor and issubclass(base, AbstractTensor)]


def below(value: Any) -> Any:
    """Return the link in a shell, or what is below a link; anything else unchanged."""
    own = getattr(value, "__dict__", None)
    return value if own is None else own.get("child", value)


def keep_ids(source: Any, target: Any) -> Any:
    """Give the links of a copied chain the ids of the original; returns the copy."""
    made = target
    while isinstance(source, AbstractTensor) and type(source) is type(made):
        made._id = source.id
        source, made = source.__dict__.get("child"), made.__dict__.get("child")
    return target


def without_ids(link: Any) -> Any:
    """Let the links of a copied chain draw ids of their own; returns the chain."""
    found = link
    while isinstance(found, AbstractTensor):
        found._id = None
        found = found.__dict__.get("child")
    return link


# (class, function) -> its rule, or None; filled by core.dispatch.
rule_cache: dict[tuple[type, Any], Rule | None] = {}


def initialize_tensor(
    hook: Any,
    obj: Any,
    owner: object = None,
    id: ObjectId | None = None,
    init_args: tuple[Any, ...] = (),
    init_kwargs: dict[str, Any] | None = None,
) -> Any:
    """Give a tensor an owner and an id."""
    initialize_object(hook, obj, owner, reinitialize=False, id=id)
    return obj
