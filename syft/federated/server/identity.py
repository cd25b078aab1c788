"""The identity of a federated run, which is compared with a checkpoint, and the seeds of its clients."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from syft.federated.server.model import SharedModel
from syft.federated.server.settings import RunSettings
from syft.federated.strategies.strategy import Strategy


def run_identity(
    model: SharedModel, strategy: Strategy, settings: RunSettings, is_secure: bool, privacies: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the properties that distinguish this run from another one.

    Args:
        model: the shared model.
        strategy: the strategy.
        settings: the settings of the run.
        is_secure: whether the aggregation hides the results of single clients.
        privacies: name -> a kind of differential privacy, or None.
    """
    plans = (model.plan.code + model.loss.code).encode()
    return {
        "strategy": strategy.name or type(strategy).__name__,
        "settings": strategy.settings(),
        "layout": model.layout.fingerprint(),
        "model": hashlib.blake2b(plans, digest_size=16).hexdigest(),
        "training": settings.payload(),
        "secure": is_secure,
        **{name: None if privacy is None else privacy.settings() for name, privacy in privacies.items()},
    }


def client_seed(seed: int, round: int, attempt: int, name: str) -> int:
    """Return a number below 2^63 that is specific to a client in an attempt at a round."""
    digest = hashlib.blake2b(f"{seed}:{round}:{attempt}:{name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
