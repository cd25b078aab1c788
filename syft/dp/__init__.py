"""Differential privacy: mechanisms, noise, accounting, PATE, and training with a proven budget.

Modules are imported on first use, so `import syft` does not become slower.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from syft._lazy import lazy_names
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
    from syft.dp.budgets.ledger import Ledger as Ledger
    from syft.dp.budgets.ledger import Limit as Limit
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

# Module -> its public names.
_HOMES: dict[str, tuple[str, ...]] = {
    "accounting.accountant": ("Accountant", "noise_for"),
    "accounting.events": (
        "Approximate", "Event", "GaussianNoise", "NonPrivate", "PoissonSampled", "Pure", "event_from_dict"
    ),
    "accounting.neighbours": ("Neighbours",),
    "budgets.ledger": ("Ledger", "Limit"),
    "mechanisms": ("Exponential", "Gaussian", "Laplace", "ReportNoisyMax", "noise"),
    "queries.client": ("budget", "count", "dataset", "histogram", "mean", "median", "most_common", "quantile", "sum"),
    "training.privacy_engine": ("PrivacyEngine",),
    "training.sample_privacy": ("SamplePrivacy",),
    "training.user_privacy": ("UserPrivacy",),
}  # fmt: skip
if not TYPE_CHECKING:  # a type checker would accept any name
    __getattr__, __dir__ = lazy_names(__name__, _HOMES, ("accounting", "mechanisms", "pate", "queries"))
