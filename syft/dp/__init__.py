"""Differential privacy: mechanisms, noise, accounting, PATE, and training with a proven budget.

Nothing is loaded before it is asked for: `import syft` costs no more with this package than without.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from syft.dp import deputy as _deputy  # noqa: F401  (has workers know the call for questions about private data)

if TYPE_CHECKING:
    from syft.dp.accounting import Accountant as Accountant
    from syft.dp.accounting import noise_for as noise_for
    from syft.dp.engine import PrivacyEngine as PrivacyEngine
    from syft.dp.events import Approximate as Approximate
    from syft.dp.events import Event as Event
    from syft.dp.events import GaussianNoise as GaussianNoise
    from syft.dp.events import NonPrivate as NonPrivate
    from syft.dp.events import PoissonSampled as PoissonSampled
    from syft.dp.events import Pure as Pure
    from syft.dp.events import event_from_dict as event_from_dict
    from syft.dp.ledger import Ledger as Ledger
    from syft.dp.ledger import Limit as Limit
    from syft.dp.mechanisms import Exponential as Exponential
    from syft.dp.mechanisms import Gaussian as Gaussian
    from syft.dp.mechanisms import Laplace as Laplace
    from syft.dp.mechanisms import ReportNoisyMax as ReportNoisyMax
    from syft.dp.neighbours import Neighbours as Neighbours
    from syft.dp.queries import budget as budget
    from syft.dp.queries import count as count
    from syft.dp.queries import dataset as dataset
    from syft.dp.queries import histogram as histogram
    from syft.dp.queries import mean as mean
    from syft.dp.queries import median as median
    from syft.dp.queries import most_common as most_common
    from syft.dp.queries import quantile as quantile
    from syft.dp.queries import sum as sum
    from syft.dp.sample_level import SamplePrivacy as SamplePrivacy
    from syft.dp.user_level import UserPrivacy as UserPrivacy

# Name -> the module it lives in, loaded when it is first asked for. Modules are found by their own names.
_HOMES: dict[str, str] = {
    "Accountant": "accounting",
    "noise_for": "accounting",
    "Approximate": "events",
    "Event": "events",
    "GaussianNoise": "events",
    "NonPrivate": "events",
    "PoissonSampled": "events",
    "Pure": "events",
    "event_from_dict": "events",
    "Exponential": "mechanisms",
    "Gaussian": "mechanisms",
    "Laplace": "mechanisms",
    "ReportNoisyMax": "mechanisms",
    "Neighbours": "neighbours",
    "PrivacyEngine": "engine",
    "SamplePrivacy": "sample_level",
    "UserPrivacy": "user_level",
    "budget": "queries",
    "count": "queries",
    "dataset": "queries",
    "histogram": "queries",
    "mean": "queries",
    "median": "queries",
    "most_common": "queries",
    "quantile": "queries",
    "sum": "queries",
    "Ledger": "ledger",
    "Limit": "ledger",
}
_MODULES = frozenset({"accounting", "events", "ledger", "mechanisms", "noise", "pate", "queries"})


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        found = getattr(importlib.import_module(f"syft.dp.{_HOMES[name]}"), name)
        globals()[name] = found  # the next look is a plain attribute
        return found
    if name in _MODULES:
        return importlib.import_module(f"syft.dp.{name}")
    raise AttributeError(f"module 'syft.dp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_MODULES})
