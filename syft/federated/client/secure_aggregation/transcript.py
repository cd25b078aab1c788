"""Context: a digest of everything that a client is asked to compute in a round.

A server that sends one client a different model, or has the others clip their updates to zero, could isolate that
client's update in the sum. Masks are bound to the context, so they would not cancel.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from syft.federated.client.local_round import LocalRound

# Settings that differ between clients: the shares sealed for a client, and which of its controls to use.
_OWN: dict[str, frozenset[str]] = {"masking": frozenset({"sealed"}), "control": frozenset({"version"})}


def context_of(work: LocalRound) -> bytes:
    """Return the SHA-256 of everything that determines a client's result, except for the order of its samples.

    Call it before the first batch.
    """
    config, found = work.config, hashlib.sha256(b"syft context 1")
    modifiers = {
        each.name: {name: value for name, value in each.settings.items() if name not in _OWN.get(each.name, ())}
        for each in work.modifiers
    }
    parts = {
        "round": work.round,
        "config": [config.batch_size, config.epochs, config.max_nr_batches, config.shuffle, config.optimizer],
        "optimizer_args": config.optimizer_args,
        "layout": work.layout.fingerprint(),
        # The model's tensors are its initial state.
        "plans": [[plan.program.to_rows(), plan.state.tensors()] for plan in (work.plan, work.loss)],
        "modifiers": modifiers,
    }
    _feed(found, parts)
    return found.digest()


def _feed(found: Any, value: Any) -> None:
    """Hash a nested value. Lists and tuples are equal, as serialization may change one into the other."""
    if isinstance(value, torch.Tensor):
        flat = value.detach().cpu().contiguous().reshape(-1)
        _feed(found, [str(flat.dtype), list(value.shape)])
        found.update(flat.view(torch.uint8).numpy().data if flat.numel() else b"")
    elif isinstance(value, dict):
        found.update(b"{%d}" % len(value))
        for name in sorted(value):
            _feed(found, name)
            _feed(found, value[name])
    elif isinstance(value, list | tuple):
        found.update(b"[%d]" % len(value))
        for item in value:
            _feed(found, item)
    else:
        text = f"{type(value).__name__} {value!r}".encode()
        found.update(b"<%d>" % len(text) + text)
