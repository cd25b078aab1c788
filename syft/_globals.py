"""The values of `sy.local_worker`, `sy.torch` and `sy.framework`, and the documented names that are still missing."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

import torch

from syft.core.context import local_worker

if TYPE_CHECKING:
    from syft.workers.abstract import AbstractWorker


def computed(name: str) -> ModuleType | AbstractWorker | None:
    """Return the present value of one of the documented globals."""
    if name in ("torch", "framework"):
        return torch
    worker: AbstractWorker | None = local_worker(required=False)
    return worker


# Documented names that are not implemented yet.
_MISSING = frozenset({"AutogradTensor", "CRTPrecisionTensor", "LargePrecisionTensor", "NumpyTensor", "keygen", "pool"})


def missing_reason(name: str) -> str:
    """Return the end of the error text for a documented name that is not implemented yet, else an empty text."""
    return ": this part of the documented API is not there yet (README, What works today)" if name in _MISSING else ""
