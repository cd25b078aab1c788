"""Sources: the tensors that a function depends on, their forms, and where the inputs of its program come from."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from syft.core.tensor import AbstractTensor
from syft.core.trees import iter_tensors
from syft.hook.syft_tensor import SyftTensor
from syft.mpc.rules.operands import Link
from syft.mpc.runtime.recording import Value, key_of
from syft.tensors.additive_shared import AdditiveSharingTensor
from syft.tensors.precision import FixedPrecisionTensor


def link_of(leaf: object) -> Link | None:
    """Return the link of an encrypted tensor, None of anything else."""
    link = leaf.__dict__.get("child") if isinstance(leaf, SyftTensor) else leaf
    return link if isinstance(link, FixedPrecisionTensor | AdditiveSharingTensor) else None


def sharing_of(leaf: object) -> AdditiveSharingTensor | None:
    """Return the link to the shares of a tensor, None if it is not shared."""
    link = link_of(leaf)
    below = link.child if isinstance(link, FixedPrecisionTensor) else link
    return below if isinstance(below, AdditiveSharingTensor) and type(below.child) is dict else None


def plain_of(leaf: object) -> torch.Tensor | None:
    """Return what is public of a tensor: itself, or the whole numbers of an encoded one."""
    link = link_of(leaf)
    below = link.child if isinstance(link, FixedPrecisionTensor) else None if link is not None else leaf
    return below if isinstance(below, torch.Tensor) else None


def form_of(leaf: torch.Tensor | AbstractTensor) -> tuple[Any, ...]:
    """Return what a recording depends on of a tensor, besides what is public of it."""
    link, sharing = link_of(leaf), sharing_of(leaf)
    form: tuple[Any, ...] = (tuple(leaf.shape), leaf.dtype)
    if isinstance(link, FixedPrecisionTensor):
        form += (link.base, link.precision_fractional, link.field, link.is_bit)
    if sharing is not None:
        provider = getattr(sharing.crypto_provider, "id", sharing.crypto_provider)
        form += (tuple(sharing.child), provider, sharing.protocol, sharing.insecure, sharing.is_bit)
    return form


def signature(leaves: list[Any]) -> tuple[Any, ...]:
    """Return the forms of tensors, and which of them are the same."""
    first: dict[int, int] = {}
    places = []
    for number, leaf in enumerate(leaves):
        sharing = sharing_of(leaf)
        places.append(first.setdefault(id(leaf) if sharing is None else key_of(sharing), number))
    return (torch.is_inference_mode_enabled(), *places, *map(form_of, leaves))


@dataclasses.dataclass(frozen=True, slots=True)
class ProgramInput:
    """Where an input comes from: a tensor, or something that was noted of it.

    Attributes:
        leaf: the number of the tensor.
        key: what was noted; None for the tensor itself.
        position: which of the links that were noted together.
        other: the number of the tensor that the note is about too, if there is one.
    """

    leaf: int
    key: Any = None
    position: int = 0
    other: int | None = None

    def find(self, leaves: list[Any]) -> AdditiveSharingTensor | None:
        """Return the link that the input is now; None if what was noted holds no longer."""
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
    """Return where each input comes from; None if one comes from elsewhere."""
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
