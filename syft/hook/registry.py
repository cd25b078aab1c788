"""`implements`: register the rule of a kind of link for a torch call; `rules_of` lists the rules.

Example:
    >>> import torch
    >>> from syft.core.tensor import AbstractTensor
    >>> from syft.hook.registry import implements, rules_of
    >>> class Doubling(AbstractTensor): ...
    >>> @implements(Doubling, torch.Tensor.neg)
    ... def neg(x):
    ...     return x.child * -2
    >>> [name for name, _ in rules_of(Doubling)]
    ['torch.Tensor.neg']
"""

from __future__ import annotations

from collections.abc import Callable

from syft.core.dispatch import function_name
from syft.core.tensor import AbstractTensor, Rule


def implements(link: type[AbstractTensor], *functions: object) -> Callable[[Rule], Rule]:
    """Register a rule for torch functions or ATen operations on one kind of link."""
    return link.implements(*functions)


def rules_of(link: type[AbstractTensor]) -> list[tuple[str, Rule]]:
    """List the rules of a kind of link, inherited ones included, by the name of the function."""
    found: dict[str, Rule] = {}
    for base in reversed(link.__mro__):
        found.update({function_name(key): rule for key, rule in base.__dict__.get("_rules", {}).items()})
    return sorted(found.items())
