"""Differential privacy: mechanisms, noise, accounting, PATE, and training with a proven budget.

Nothing is loaded before it is asked for: `import syft` costs no more with this package than without.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from syft.dp import registration as _registration  # noqa: F401

if TYPE_CHECKING:
    from syft.dp.accounting.accountant import Accountant as Accountant
    from syft.dp.accounting.accountant import noise_for as noise_for
    from syft.dp.accounting.events import Approximate as Approximate
    from syft.dp.accounting.events import Event as Event
    from syft.dp.accounting.events import GaussianNoise as GaussianNoise
    from syft.dp.accounting.events import NonPrivate as NonPrivate
    from syft.dp.accounting.events import PoissonSampled as PoissonSampled
    from syft.dp.accounting.events import Pure as Pure
    from syft.dp.accounting.events import event_from_dict as event_from_dict
    from syft.dp.accounting.neighbours import Neighbours as Neighbours
    from syft.dp.budget.ledger import Ledger as Ledger
    from syft.dp.budget.ledger import Limit as Limit
    from syft.dp.mechanisms import Exponential as Exponential
    from syft.dp.mechanisms import Gaussian as Gaussian
    from syft.dp.mechanisms import Laplace as Laplace
    from syft.dp.mechanisms import ReportNoisyMax as ReportNoisyMax
    from syft.dp.queries.client import budget as budget
    from syft.dp.queries.client import count as count
    from syft.dp.queries.client import dataset as dataset
    from syft.dp.queries.client import histogram as histogram
    from syft.dp.queries.client import mean as mean
    from syft.dp.queries.client import median as median
    from syft.dp.queries.client import most_common as most_common
    from syft.dp.queries.client import quantile as quantile
    from syft.dp.queries.client import sum as sum
    from syft.dp.training.privacy_engine import PrivacyEngine as PrivacyEngine
    from syft.dp.training.sample_privacy import SamplePrivacy as SamplePrivacy
    from syft.dp.training.user_privacy import UserPrivacy as UserPrivacy

# Module -> its public names. A module is loaded when one of its names is first used.
_HOMES: dict[str, tuple[str, ...]] = {
    "accounting.accountant": ("Accountant", "noise_for"),
    "accounting.events": (
        "Approximate", "Event", "GaussianNoise", "NonPrivate", "PoissonSampled", "Pure", "event_from_dict"
    ),
    "accounting.neighbours": ("Neighbours",),
    "budget.ledger": ("Ledger", "Limit"),
    "mechanisms": ("Exponential", "Gaussian", "Laplace", "ReportNoisyMax"),
    "queries.client": ("budget", "count", "dataset", "histogram", "mean", "median", "most_common", "quantile", "sum"),
    "training.privacy_engine": ("PrivacyEngine",),
    "training.sample_privacy": ("SamplePrivacy",),
    "training.user_privacy": ("UserPrivacy",),
}  # fmt: skip
_LAZY = {name: f"syft.dp.{home}" for home, names in _HOMES.items() for name in names}
_MODULES = frozenset({"accounting", "mechanisms", "pate", "queries"})


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        found = getattr(importlib.import_module(_LAZY[name]), name)
        globals()[name] = found  # the next look is a plain attribute
        return found
    if name in _MODULES:
        return importlib.import_module(f"syft.dp.{name}")
    raise AttributeError(f"module 'syft.dp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *_MODULES})
