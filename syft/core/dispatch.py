"""Run a torch call on links: find the rule, or refuse, or forward it down the chain."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from inspect import Parameter, Signature
from types import FunctionType
from typing import Any

import torch
from torch.overrides import resolve_name

from syft._suggestions import closest, no_attribute
from syft.core import tensor as links
from syft.core.old_forms import OLD_FORMS, current_form
from syft.core.providers import providers
from syft.core.tensor import AbstractTensor, Level, Rule
from syft.core.trees import SCALARS, iter_tensors, map_tensors
from syft.core.wide_int import WideInt
from syft.exceptions import UnsupportedOperationError

# Operators reach links under the name Python uses; rules are written under the name people use.
OPERATORS = {
    **{f"__{name}__": name for name in "add sub mul matmul pow neg lt le gt ge eq ne".split()},
    **{f"__i{name}__": f"{name}_" for name in ("add", "sub", "mul")},
    **{f"__{name}__": f"bitwise_{name}" for name in ("and", "or", "xor")},
    "__radd__": "add",
    "__rmul__": "mul",
    "__truediv__": "div",
    "__itruediv__": "div_",
    "__mod__": "remainder",
    "__invert__": "bitwise_not",
}
_OTHER_OPERATORS = (
    "__rsub__ __rtruediv__ __rpow__ __rmatmul__ __getitem__ __setitem__ __len__ __abs__ __pos__ __floordiv__ "
    "__rfloordiv__ __ifloordiv__ __rmod__ __imod__ __ipow__ __lshift__ __rshift__ __rand__ __ror__ __rxor__ "
    "__iand__ __ior__ __ixor__"
).split()


def function_name(function: Callable[..., Any]) -> str:
    """Return the dotted name of a torch function, for people."""
    return resolve_name(function) or str(function)


def run(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> Any:
    """Run a torch call whose arguments may be links, plain tensors and anything else.

    Links in, links out: outer shells are the business of `SyftTensor`.
    """
    kwargs = kwargs or {}
    link = deciding_link(args, kwargs)
    if link is None:
        return function(*args, **kwargs)
    if link.level is Level.API:
        return type(link).handle(function, args, kwargs)
    return _run_below_autograd(function, args, kwargs)


def run_bare(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Any:
    """Run a torch function that was called with bare links, and perhaps with shells; results are bare links."""
    kwargs, shell = kwargs or {}, providers.wrapper
    if any(isinstance(leaf, shell) for leaf in iter_tensors((args, kwargs))):
        link = deciding_link(args, kwargs)
        if link is not None and link.level is Level.API and not link.on_shells:
            args, kwargs = map_tensors(lambda t: links.below(t) if isinstance(t, shell) else t, (args, kwargs))
    return run(function, args, kwargs)


def deciding_link(args: tuple[Any, ...], kwargs: dict[str, Any]) -> AbstractTensor | None:
    """Return the link that decides what a call does: API level first, then priority, then position."""
    best: AbstractTensor | None = None
    best_rank = -1
    for leaf in iter_tensors((args, kwargs) if kwargs else args):
        if isinstance(leaf, AbstractTensor):
            rank = leaf.priority + (1000 if leaf.level is Level.API else 0)
            if rank > best_rank:
                best, best_rank = leaf, rank
    return best


def _run_below_autograd(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a call on ATen-level links through torch itself, so that autograd takes part."""
    shell = providers.wrapper
    wrapped = map_tensors(lambda t: t.wrap() if isinstance(t, AbstractTensor) else t, (args, kwargs))
    result = function(*wrapped[0], **wrapped[1])
    return map_tensors(lambda t: t.__dict__["child"] if isinstance(t, shell) else t, result)


def find_rule(cls: type[AbstractTensor], function: Callable[..., Any]) -> Rule | None:
    """Return the rule of a class for a function: its table first, then its overloaded methods and modules."""
    key = (cls, function)
    try:
        return links.rule_cache[key]
    except KeyError:
        rule = links.rule_cache[key] = _search_rule(cls, function)
        return rule


def rules_of(cls: type[AbstractTensor]) -> list[tuple[str, Rule]]:
    """List the rules of a kind of link, inherited ones included, by the name of the function."""
    found: dict[str, Rule] = {}
    for base in reversed(cls.__mro__):
        found |= {function_name(key): rule for key, rule in base.__dict__.get("_rules", {}).items()}
    return sorted(found.items())


def _search_rule(cls: type[AbstractTensor], function: Callable[..., Any]) -> Rule | None:
    for base in cls.__mro__:
        rules = base.__dict__.get("_rules")
        if rules and function in rules:
            found: Rule = rules[function]
            return found
    parts = function_name(function).split(".")
    if parts[:2] == ["torch", "Tensor"] and len(parts) == 3:
        method = getattr(cls, OPERATORS.get(parts[2], parts[2]), None)
        return _as_written(method, function) if getattr(method, "is_overloaded", False) else None
    module: Any = cls
    for part in parts:
        module = getattr(module, part, None)
    return _as_written(module, function) if callable(module) and getattr(module, "is_overloaded", False) else None


def _as_written(overloaded: Any, function: Callable[..., Any]) -> Rule:
    """Return an overloaded function that gets the arguments of the user, without the defaults that torch fills in."""
    defaults = _defaults(function)
    if not defaults:
        return overloaded  # type: ignore[no-any-return]

    def rule(*args: object, **kwargs: object) -> Any:
        return overloaded(*args, **{name: value for name, value in kwargs.items() if not is_default(name, value)})

    def is_default(name: str, value: Any) -> bool:
        default = defaults.get(name, Parameter.empty)
        return value is default or (type(value) is type(default) and type(value) in SCALARS and value == default)

    return rule


def _defaults(function: Any) -> dict[str, Any]:
    """Return the default values of a torch function that is written in Python; no other fills them in."""
    name = getattr(function, "__name__", "")
    # F.max_pool2d chooses by `return_indices`, and calls this one.
    pooling = getattr(torch.nn.functional, f"_{name}", None) if "_pool" in name else None
    written = pooling or (function if isinstance(function, FunctionType) else None)
    if written is None:
        return {}
    parameters = inspect.signature(written).parameters.values()
    return {one.name: one.default for one in parameters if one.default is not Parameter.empty}


def handle(
    cls: type[AbstractTensor], function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Run a call on links of one kind: by its rule, by forwarding if the kind says so, else refuse."""
    rule = find_rule(cls, function)
    if rule is not None:
        return rule(*args, **kwargs)
    if cls.unregistered == "forward":
        cls.on_function_call((function_name(function), None, args, kwargs))
        return forward(cls, function, args, kwargs)
    raise UnsupportedOperationError(function_name(function), cls.__name__, _nearest(cls, function))


def forward(cls: type[AbstractTensor], function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a call on what is below the links of one kind, and put the link back on every result."""
    seen: dict[int, AbstractTensor] = {}
    metas: dict[int, Any] = {}

    def below(leaf: object) -> Any:
        if isinstance(leaf, cls):
            seen[id(leaf.child)] = leaf
            metas[id(leaf)] = leaf.tensor_meta()
            return leaf.child
        return leaf

    inner_args, inner_kwargs = map_tensors(below, (args, kwargs))
    result = run(function, inner_args, inner_kwargs)
    model = next(iter(seen.values()))

    for link in seen.values():
        link.reshaped = link.reshaped or link.tensor_meta() != metas[id(link)]

    def above(leaf: Any) -> Any:
        known = seen.get(id(leaf))  # an in-place call returns its own argument
        return type(model)(**model.get_class_attributes()).on(leaf, wrap=False) if known is None else known

    return map_tensors(above, result)


def _nearest(cls: type[AbstractTensor], function: Callable[..., Any]) -> str:
    """Name the supported call that looks most like the one refused."""
    known = [name for name, _ in rules_of(cls)]
    close = closest(function_name(function), known, cutoff=0.3)
    hint = f"The nearest supported call is {close}." if close else "It has no rules yet; add one with implements()."
    if cls.__module__.partition(".")[0] != "syft":
        hint += f' Set unregistered = "forward" in {cls.__name__} to run other calls on the tensor below.'
    return hint


def resolve(name: str, is_method: bool = False) -> Any:
    """Return the torch function of a dotted name, or the tensor method of a bare one."""
    if is_method or "." not in name:
        return getattr(torch.Tensor, name)
    value: Any = torch
    for part in name.split(".")[1:]:
        value = getattr(value, part)
    return value


def _call_method(link: AbstractTensor, name: str) -> Any:
    """Answer `link.name` for any method or property of torch.Tensor."""
    attribute = None if name.startswith("_") else getattr(torch.Tensor, name, None)
    if attribute is None or name in ("child", "data_ptr") or getattr(attribute, "of_shell", False):
        raise no_attribute(link, name, torch.Tensor)
    if hasattr(attribute, "__set__") or not callable(attribute):
        return run(attribute.__get__, (link,))
    return _method(name, attribute).__get__(link)


_NAMED = Parameter.POSITIONAL_OR_KEYWORD
_DIM = (Parameter("dim", _NAMED, default=None), Parameter("keepdim", _NAMED, default=False))
_OTHER = (Parameter("other", _NAMED),)
# Name of a tensor method -> its parameters, where they are not `other` alone.
_PARAMETERS: dict[str, tuple[Parameter, ...]] = {
    **dict.fromkeys(("sum", "mean", "max", "min", "argmax", "argmin"), _DIM),
    **dict.fromkeys(("t", "neg", "relu"), ()),
    **dict.fromkeys(("exp", "inverse"), (Parameter("iterations", _NAMED, default=None),)),
    "sigmoid": (Parameter("method", _NAMED, default=None),),
    "log": tuple(Parameter(name, _NAMED, default=None) for name in ("iterations", "exp_iterations")),
    "pow": (Parameter("exponent", _NAMED),),
    "chunk": (Parameter("chunks", _NAMED), Parameter("dim", _NAMED, default=0)),
}


def give_methods(cls: type[AbstractTensor], names: str) -> None:
    """Give a kind of link tensor methods as attributes of its class, so that they can be found and overridden."""
    for name in names.split():
        method = _method(name, getattr(torch.Tensor, name))
        method.__doc__ = f"Run torch's `{name}` on this link."
        method.__signature__ = Signature((Parameter("self", _NAMED), *_PARAMETERS.get(name, _OTHER)))
        setattr(cls, name, method)


def _method(name: str, function: Callable[..., Any]) -> Any:
    def method(self: Any, *args: object, **kwargs: object) -> Any:
        if args and type(args[0]) is WideInt:
            return WideInt.__torch_function__(method, (), (self, *args), kwargs)
        if name in OLD_FORMS:
            args, kwargs = current_form(name, args, kwargs)
        return run_bare(function, (self, *args), kwargs)

    method.__name__ = name
    return method


def _install_operators() -> None:
    """Give links Python's operators; `==` stays identity so that links can be kept in sets and dicts."""
    for name in (*OPERATORS, *_OTHER_OPERATORS):
        if name not in ("__eq__", "__ne__"):
            plain = name if name.startswith("__i") else OPERATORS.get(name, name)
            setattr(AbstractTensor, name, _method(name, getattr(torch.Tensor, plain)))


providers.handle, providers.run_bare, providers.resolve, providers.call_method = handle, run_bare, resolve, _call_method
_install_operators()
