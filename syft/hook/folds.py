"""The documented small parts of hook_args: folds, layers and rules over nested arguments.

A fold applies a list of functions to a list of values, one by one; a layer is a path into nested arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from syft.core.trees import rebuild_tuple

Fold = Callable[..., Any]


def zero_fold(*a: object, **k: object) -> tuple[()]:
    """Apply no function."""
    return ()


def one_fold(return_tuple: bool, **kwargs: Any) -> Fold:
    """Return the fold of one function: its bare result, or a tuple of it."""

    def bare(lambdas: Any, args: Any, **kwargs: Any) -> Any:
        return lambdas[0](args[0], **kwargs)

    def in_tuple(lambdas: Any, args: Any, **kwargs: Any) -> Any:
        return (lambdas[0](args[0], **kwargs),)

    return in_tuple if return_tuple else bare


def many_fold(lambdas: Any, args: Any, **kwargs: Any) -> tuple[Any, ...]:
    """Apply functions to values, one by one."""
    return tuple([function(value, **kwargs) for function, value in zip(lambdas, args, strict=True)])


def _fold_of(count: int, name: str) -> Fold:
    def fold(lambdas: Any, args: Any, **kwargs: Any) -> tuple[Any, ...]:
        return tuple([lambdas[i](args[i], **kwargs) for i in range(count)])

    fold.__name__ = name
    fold.__doc__ = f"Apply {count} functions to the first {count} values."
    return fold


two_fold = _fold_of(2, "two_fold")
three_fold = _fold_of(3, "three_fold")
four_fold = _fold_of(4, "four_fold")
five_fold = _fold_of(5, "five_fold")
six_fold = _fold_of(6, "six_fold")
seven_fold = _fold_of(7, "seven_fold")
eight_fold = _fold_of(8, "eight_fold")


def layers(*path: int) -> Callable[[Any], Any]:
    """Return a function that follows a path of any depth into nested arguments."""

    def follow(args: Any) -> Any:
        for index in path:
            args = args[index]
        return args

    return follow


def one_layer(idx1: int) -> Callable[[Any], Any]:
    """Return a function that gives one entry."""
    return layers(idx1)


def two_layers(idx1: int, idx2: int) -> Callable[[Any], Any]:
    """Return a function that gives an entry of an entry."""
    return layers(idx1, idx2)


def three_layers(idx1: int, *ids: int) -> Callable[[Any], Any]:
    """Return a function that goes three layers deep."""
    return layers(idx1, *ids)


def four_layers(idx1: int, *ids: int) -> Callable[[Any], Any]:
    """Return a function that goes four layers deep."""
    return layers(idx1, *ids)


get_element_at: dict[int, Callable[..., Any]] = {1: one_layer, 2: two_layers, 3: three_layers, 4: four_layers}


def typed_identity(a: object) -> Callable[[Any], Any]:
    """Return the identity on values of the type of `a`; any other type raises."""
    expected = type(a)

    def identity(value: object) -> Any:
        if not isinstance(value, expected):
            raise TypeError(f"expected a {expected.__name__}, got a {type(value).__name__}")
        return value

    return identity


def build_rule_with(args: object, leaf_rule: Callable[[Any], Any]) -> Any:
    """Return the skeleton of nested arguments, a rule in place of each leaf."""
    if isinstance(args, list):
        return [build_rule_with(item, leaf_rule) for item in args]
    if isinstance(args, tuple) and not isinstance(args, torch.Size):
        return rebuild_tuple(type(args), [build_rule_with(item, leaf_rule) for item in args])
    if isinstance(args, dict):
        return {key: build_rule_with(item, leaf_rule) for key, item in args.items()}
    return leaf_rule(args)


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
            return lambda args: type(getattr(follow(args), "child", follow(args)))
    return None


def folded(
    args: Any, rules: Any, make: Callable[[Any], Callable[[Any], Any]], return_tuple: bool = False
) -> Callable[..., Any]:
    """Build a function over arguments of one skeleton that applies `make(...)` to its tensors."""
    if isinstance(rules, dict):
        named = {key: folded(args[key], rule, make, True) for key, rule in rules.items()}
        return lambda values, **kwargs: {key: named[key](value, **kwargs) for key, value in values.items()}
    if not isinstance(rules, list | tuple):
        return make(args) if rules else (lambda value, **kwargs: value)
    lambdas = [folded(arg, rule, make, True) for arg, rule in zip(args, rules, strict=True)]
    as_list = isinstance(rules, list)

    def apply(values: Any, **kwargs: Any) -> Any:
        results = [function(value, **kwargs) for function, value in zip(lambdas, values, strict=True)]
        if len(results) == 1 and not return_tuple:
            return results[0]
        return results if as_list else rebuild_tuple(type(values), results)

    return apply
