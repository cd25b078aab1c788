"""hook_args: swap links for what is below them in arguments, put them back on responses, register responses.

One recursion does it for every signature; nothing is remembered by the name of a method, which was wrong as soon
as a method was called in two ways. The documented registries are open: an entry put into one is used.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from syft.core.labels import set_id
from syft.core.tensor import AbstractTensor, below
from syft.core.trees import rebuild_tuple
from syft.exceptions import PureFrameworkTensorFoundError, RemoteObjectFoundError

if TYPE_CHECKING:
    from syft.workers.abstract import AbstractWorker

# Entries by "Class.method" or function name replace the recursion for that call.
hook_method_args_functions: dict[str, Callable[..., Any]] = {}
hook_method_response_functions: dict[str, Callable[..., Any]] = {}
get_tensor_type_functions: dict[str, Callable[..., Any]] = {}
register_response_functions: dict[str, Callable[..., Any]] = {}

base_types: set[type] = {
    int, float, str, bool, bytes, bytearray, complex, type(None), type(...), np.ndarray, torch.dtype, torch.device,
    torch.Size, torch.layout, torch.memory_format, slice,
}  # fmt: skip


def one(_args: object) -> int:
    """The rule of every tensor."""
    return 1


def get_child(link: Any) -> Any:
    """The default way to unwrap a link."""
    return link.child


type_rule: dict[Any, Callable[[Any], Any]] = {torch.Tensor: one, torch.nn.Parameter: one}
forward_func: dict[Any, Callable[[Any], Any]] = {}
backward_func: dict[Any, Callable[..., Any]] = {}
# Kept from earlier releases, which remembered signatures; nothing is remembered now, so nothing is ambiguous.
ambiguous_methods = set("__getitem__ __setitem__ _getitem_public add_ backward cat chunk".split())
ambiguous_functions = set("torch.unbind unbind torch.stack stack torch.cat cat torch.mean".split())


def register_type_rule(new_type_rules: dict[Any, Callable[[Any], Any]]) -> None:
    """Teach the walk new kinds of tensor."""
    type_rule.update(new_type_rules)


def register_forward_func(new_forward_rules: dict[Any, Callable[[Any], Any]]) -> None:
    """Say how new kinds of tensor are unwrapped."""
    forward_func.update(new_forward_rules)


def register_backward_func(new_backward_rules: dict[Any, Callable[..., Any]]) -> None:
    """Say how results are wrapped in new kinds of tensor."""
    backward_func.update(new_backward_rules)


def register_ambiguous_method(*method: str) -> None:
    """Note methods that are called in several ways."""
    ambiguous_methods.update(method)


def register_ambiguous_function(*function: str) -> None:
    """Note functions that are called in several ways."""
    ambiguous_functions.update(function)


def default_backward_func(tensorcls: Any) -> Callable[..., Any]:
    """Return the default way to wrap a result: a new link on top of it."""
    return lambda result, **kwargs: tensorcls(**kwargs).on(result, wrap=False)


def default_register_tensor(*tensorcls: object) -> None:
    """Register the rule, the unwrapping and the wrapping of new kinds of tensor at once."""
    for cls in tensorcls:
        register_type_rule({cls: one})
        register_forward_func({cls: get_child})
        register_backward_func({cls: default_backward_func(cls)})


def _is_tensor(value: object) -> bool:
    return isinstance(value, torch.Tensor | AbstractTensor) or type(value) in type_rule


def _unwrap(value: object) -> Any:
    """Return what is below a link or shell; plain values and plain tensors are returned as they are."""
    rule = forward_func.get(type(value))
    if rule is not None:
        return rule(value)
    return value.__dict__["child"] if _is_tensor(value) and "child" in value.__dict__ else value


def _map(function: Callable[[Any], Any], value: Any, other: Callable[[Any], Any] = lambda value: value) -> Any:
    """Rebuild nested arguments with a function applied to their tensors, and `other` to all other values."""
    kind = type(value)
    if kind in base_types:
        return other(value)
    if isinstance(value, list):
        return [_map(function, item, other) for item in value]
    if isinstance(value, dict):
        return {key: _map(function, item, other) for key, item in value.items()}
    if _is_tensor(value):
        return function(value)
    if isinstance(value, tuple):
        return rebuild_tuple(kind, [_map(function, item, other) for item in value])
    return other(value)


def unwrap_args_from_method(attr: str, method_self: object, args: object, kwargs: object) -> tuple[Any, Any, Any]:
    """Replace the link a method is called on, and every link in its arguments, by what is below.

    Args:
        attr: the name of the method.
        method_self: the tensor it is called on.
        args: its arguments.
        kwargs: its keyword arguments, unwrapped too.

    Returns:
        The new self, arguments and keyword arguments.
    """
    custom = hook_method_args_functions.get(f"{type(method_self).__name__}.{attr}")
    new_args = custom(args) if custom is not None else _map(_unwrap, args)
    return _unwrap(method_self), new_args, _map(_unwrap, kwargs)


def unwrap_args_from_function(
    attr: str, args: object, kwargs: object, return_args_type: bool = False
) -> tuple[Any, ...]:
    """Replace every link in the arguments of a function by what is below.

    Args:
        attr: the name of the function.
        args: its arguments.
        kwargs: its keyword arguments, unwrapped too.
        return_args_type: also return the type of the tensors as given.

    Returns:
        The new arguments, keyword arguments, the type of what is below, and the type as given if asked for.

    Raises:
        PureFrameworkTensorFoundError: if there is no link to unwrap.
    """
    custom = hook_method_args_functions.get(attr)
    leaves: list[Any] = []
    _map(leaves.append, (args, kwargs))
    first = next((leaf for leaf in leaves if _is_link(leaf)), None)
    if first is None:
        for leaf in leaves:
            _refuse_pointer(leaf)
        raise PureFrameworkTensorFoundError(attr, hint="There is no syft tensor among the arguments.")
    new_args = custom(args) if custom is not None else _map(_unwrap, args)
    type_of = get_tensor_type_functions.get(attr)
    result = (new_args, _map(_unwrap, kwargs), type_of(args) if type_of is not None else type(_unwrap(first)))
    return (*result, type(first)) if return_args_type else result


def _is_link(value: object) -> bool:
    """Say whether there is something below a value."""
    return type(value) in forward_func or "child" in getattr(value, "__dict__", ())


def _refuse_pointer(value: object) -> None:
    if not _is_link(value) and getattr(value, "location", None) is not None:
        raise RemoteObjectFoundError(value)


def zero_fold(*a: object, **k: object) -> tuple[()]:
    """Apply no function."""
    return ()


def many_fold(lambdas: Any, args: Any, **kwargs: Any) -> tuple[Any, ...]:
    """Apply functions to values, one by one."""
    return tuple([function(value, **kwargs) for function, value in zip(lambdas, args, strict=True)])


def one_fold(return_tuple: bool, **kwargs: Any) -> Callable[..., Any]:
    """Return the fold of one function: its bare result, or a tuple of it."""
    return many_fold if return_tuple else lambda *given, **kwargs: many_fold(*given, **kwargs)[0]


two_fold = three_fold = four_fold = five_fold = six_fold = seven_fold = eight_fold = many_fold


def layers(*path: int) -> Callable[[Any], Any]:
    """Return a function that follows a path of any depth into nested arguments."""
    return lambda args: functools.reduce(operator.getitem, path, args)


one_layer = two_layers = three_layers = four_layers = layers
get_element_at: dict[int, Callable[..., Any]] = dict.fromkeys((1, 2, 3, 4), layers)


def typed_identity(a: object) -> Callable[[Any], Any]:
    """Return the identity on values of the type of `a`; any other type raises."""
    expected = type(a)

    def identity(value: object) -> Any:
        if not isinstance(value, expected):
            raise TypeError(f"expected a {expected.__name__}, got a {type(value).__name__}")
        return value

    return identity


def build_get_tensor_type(rules: Any, layer: list[int] | None = None) -> Callable[[Any], Any] | None:
    """Build a function that returns the type of what is below the first tensor of arguments of one skeleton."""
    for index, rule in enumerate(rules):
        path = [*(layer or []), index]
        if isinstance(rule, list | tuple):
            found = build_get_tensor_type(rule, path)
            if found is not None:
                return found
        elif rule == 1:
            follow = layers(*path)
            return lambda args: type(below(follow(args)))
    return None


def _folded(rules: Any, function: Callable[[Any], Any], return_tuple: bool = False) -> Callable[[Any], Any]:
    """Build a function over arguments of one skeleton that applies `function` to its tensors."""
    if isinstance(rules, dict):
        named = {key: _folded(rule, function, True) for key, rule in rules.items()}
        return lambda values: {key: named[key](value) for key, value in values.items()}
    if not isinstance(rules, list | tuple):
        return function if rules else (lambda value: value)
    lambdas = [_folded(rule, function, True) for rule in rules]

    def apply(values: Any) -> Any:
        results = many_fold(lambdas, values)
        if len(results) == 1 and not return_tuple:
            return results[0]
        return list(results) if isinstance(rules, list) else rebuild_tuple(type(values), list(results))

    return apply


def build_unwrap_args_from_function(args: object, return_tuple: bool = False) -> Callable[..., Any]:
    """Build the function that unwraps arguments like these."""
    return build_unwrap_args_with_rules(args, build_rule(args), return_tuple)


def hook_response(
    attr: str, response: Any, wrap_type: object, wrap_args: dict[str, Any] | None = None, new_self: Any = None
) -> Any:
    """Put a link of one kind on top of every tensor of a response.

    Args:
        attr: the name of the method.
        response: what the call below returned.
        wrap_type: the kind of link.
        wrap_args: arguments of its constructor, such as the precision.
        new_self: the link the call was made on, returned when the call was in place.
    """
    custom = hook_method_response_functions.get(f"{attr}@{getattr(wrap_type, '__name__', wrap_type)}")
    if custom is not None:
        return custom(response)
    if new_self is not None and attr.endswith("_") and not attr.endswith("__") and _is_tensor(response):
        new_self.child = response
        return new_self
    wrap = backward_func.get(wrap_type, default_backward_func(wrap_type))
    return _map(lambda leaf: wrap(leaf, **(wrap_args or {})), response)


def build_wrap_reponse_from_function(response: object, wrap_type: object, wrap_args: object) -> Callable[..., Any]:
    """Build the function that wraps responses like this one."""
    return build_wrap_response_with_rules(response, build_rule(response), wrap_type, wrap_args)


def build_rule(args: object) -> Any:
    """Return the skeleton of arguments: 1 for a tensor or a numpy array, 0 for anything else, containers kept."""
    return _map(
        lambda leaf: type_rule.get(type(leaf), one)(leaf), args, lambda value: int(isinstance(value, np.ndarray))
    )


def build_unwrap_args_with_rules(args: object, rules: object, return_tuple: bool = False) -> Callable[..., Any]:
    """Build a function that unwraps arguments of one skeleton; a pointer raises RemoteObjectFoundError."""

    def unwrap(value: object) -> Any:
        _refuse_pointer(value)
        return _unwrap(value)

    return _folded(rules, unwrap, return_tuple)


def build_wrap_response_with_rules(
    response: Any,
    rules: Any,
    wrap_type: object,
    wrap_args: Any,
    return_tuple: bool = False,
    return_list: bool = False,
) -> Callable[..., Any]:
    """Build a function that wraps responses of one skeleton."""
    wrap = backward_func.get(wrap_type, default_backward_func(wrap_type))
    build = _folded(rules, lambda leaf: wrap(leaf, **(wrap_args or {})), return_tuple or return_list)
    return (lambda value: list(build(value))) if return_list else build


def register_response(attr: str, response: Any, response_ids: Any, owner: object) -> Any:
    """Store every tensor of a response at a worker, under the ids given, and return pointers in their place."""
    custom = register_response_functions.get(attr)
    ids = list(response_ids or ())[::-1]
    if custom is not None:
        return custom(response, response_ids=ids, owner=owner)
    return _map(lambda leaf: register_tensor(leaf, owner, ids), response)


def build_register_response_function(response: object) -> Callable[..., Any]:
    """Build the function that registers responses like this one."""
    return build_register_response(response, build_rule(response))


def register_tensor(tensor: Any, owner: Any = None, response_ids: Any = None) -> Any:
    """Store a tensor at a worker, under the next of the ids given, and return a pointer to it.

    The order of earlier releases, `register_tensor(tensor, response_ids, owner)`, is understood too.
    """
    if isinstance(tensor, np.ndarray):
        return tensor  # an array has no id, so it is a value
    if isinstance(owner, list | tuple):
        owner, response_ids = response_ids, owner
    if response_ids:
        set_id(tensor, response_ids.pop())
    owner.register_obj(tensor)
    return tensor.create_pointer(location=owner, garbage_collect_data=False)


def build_register_response(response: object, rules: object, return_tuple: bool = False) -> Callable[..., Any]:
    """Build a function that registers responses of one skeleton."""

    def build(value: object, response_ids: object = None, owner: AbstractWorker | None = None) -> Any:
        return _folded(rules, lambda leaf: register_tensor(leaf, owner, response_ids), return_tuple)(value)

    return build


# The names of the page before the 0.2 reshuffle.
hook_method_args = unwrap_args_from_method
hook_function_args = unwrap_args_from_function
build_hook_args_function = build_unwrap_args_from_function
build_hook_response_function = build_wrap_reponse_from_function
build_args_hook = build_unwrap_args_with_rules
build_response_hook = build_wrap_response_with_rules
