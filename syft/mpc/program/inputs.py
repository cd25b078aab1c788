"""Inputs of programs: signatures of the tensors that a function depends on, and the sources of inputs."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from syft.core.tensor import AbstractTensor
from syft.core.trees import iter_tensors
from syft.hook.syft_tensor import SyftTensor
from syft.mpc.rules.types import Link
from syft.mpc.runtime.recording import Value, key_of
from syft.tensors.additive_shared import AdditiveSharingTensor
from syft.tensors.precision import FixedPrecisionTensor


def link_of(leaf: object) -> Link | None:
    """Return the link of an encrypted tensor; None for other objects."""
    link = leaf.__dict__.get("child") if isinstance(leaf, SyftTensor) else leaf
    return link if isinstance(link, FixedPrecisionTensor | AdditiveSharingTensor) else None


def sharing_of(leaf: object) -> AdditiveSharingTensor | None:
    """Return the link to the shares of a tensor, None if it is not shared."""
    link = link_of(leaf)
    below = link.child if isinstance(link, FixedPrecisionTensor) else link
    return below if isinstance(below, AdditiveSharingTensor) and type(below.child) is dict else None


def plain_of(leaf: object) -> Any:
    """Return the public numbers of a tensor: itself, or the integers of an encoded one; None if it is shared."""
    link = link_of(leaf)
    below = link.child if isinstance(link, FixedPrecisionTensor) else None if link is not None else leaf
    return below if isinstance(below, torch.Tensor) else None


def spec_of(leaf: torch.Tensor | AbstractTensor) -> tuple[Any, ...]:
    """Return the properties of a tensor that a recording depends on, besides public values."""
    link, sharing = link_of(leaf), sharing_of(leaf)
    spec: tuple[Any, ...] = (tuple(leaf.shape), leaf.dtype)
    if isinstance(link, FixedPrecisionTensor):
        spec += (link.base, link.precision_fractional, link.field, link.is_bit)
    if sharing is not None:
        provider = getattr(sharing.crypto_provider, "id", sharing.crypto_provider)
        spec += (tuple(sharing.child), provider, sharing.protocol, sharing.insecure, sharing.is_bit)
    return spec


def signature(leaves: list[Any]) -> tuple[Any, ...]:
    """Return the specs of tensors, and which of them are identical."""
    first: dict[int, int] = {}
    places = []
    for number, leaf in enumerate(leaves):
        sharing = sharing_of(leaf)
        places.append(first.setdefault(id(leaf) if sharing is None else key_of(sharing), number))
    return (torch.is_inference_mode_enabled(), *places, *map(spec_of, leaves))


@dataclasses.dataclass(frozen=True, slots=True)
class ProgramInput:
    """The source of an input: a tensor, or a fact that is cached with it.

    Attributes:
        leaf: the index of the tensor.
        key: the key of the fact; None for the tensor itself.
        position: the index of the link within the fact.
        other: the index of the tensor that the fact compares with, if there is one.
    """

    leaf: int
    key: Any = None
    position: int = 0
    other: int | None = None

    def find(self, leaves: list[Any]) -> AdditiveSharingTensor | None:
        """Return the current link of the input; None if the fact is no longer valid."""
        if self.key is None:
            return sharing_of(leaves[self.leaf])
        link = link_of(leaves[self.leaf])
        fact, about = ((link and link.facts) or {}).get(self.key, (None, None))
        if fact is None or (about is None) is not (self.other is None):
            return None
        if self.other is not None and not about.is_same(_other(leaves[self.other])):
            return None
        return sharing_of(list(iter_tensors(fact))[self.position])


def _other(leaf: object) -> object:
    link = link_of(leaf)
    return leaf if link is None else link


def sources_of(inputs: list[Value], leaves: list[Any]) -> dict[Value, ProgramInput] | None:
    """Return the source of each input; None if one has no source among the tensors."""
    places: dict[int, ProgramInput] = {}
    others = {id(_other(leaf)): number for number, leaf in enumerate(leaves)}
    for number, leaf in enumerate(leaves):
        link = link_of(leaf)
        for key, (fact, about) in () if link is None else (link.facts or {}).items():
            other = None if about is None else others.get(id(about.of()), -1)
            for position, part in enumerate(iter_tensors(fact)):
                sharing = sharing_of(part)
                if sharing is not None and other != -1:
                    places.setdefault(key_of(sharing), ProgramInput(number, key, position, other))
    for number, leaf in reversed(list(enumerate(leaves))):
        sharing = sharing_of(leaf)
        if sharing is not None:
            places[key_of(sharing)] = ProgramInput(number)
    found = {value: places.get(key_of(value.link)) for value in inputs}
    known = {value: source for value, source in found.items() if source is not None}
    return known if len(known) == len(found) else None
