"""Rows for regressions, spread over owners, and their float64 solutions."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy import stats


def spread(tensor: torch.Tensor, sizes: list[int], workers: list[Any]) -> list[Any]:
    """Send the rows of a tensor to owners, a given number to each."""
    return [part.send(worker) for part, worker in zip(tensor.split(sizes), workers, strict=True)]


def least_squares(x: torch.Tensor, y: torch.Tensor, intercept: bool = True) -> dict[str, Any]:
    """Return coefficients (the intercept first), standard errors, p-values and the residual variance, in float64."""
    columns = x.double().numpy()
    if intercept:
        columns = np.concatenate([np.ones((len(columns), 1)), columns], 1)
    target = y.double().numpy().reshape(-1)
    # In units of each column: numpy takes a column that is 10^16 times smaller than another one for nothing.
    unit = np.sqrt((columns**2).sum(0)).clip(1e-300)
    columns = columns / unit
    coef = np.linalg.lstsq(columns, target, rcond=None)[0]
    freedom = len(target) - columns.shape[1]
    variance = ((target - columns @ coef) ** 2).sum() / freedom
    # R^-1 R^-T loses less than the inverse of the Gram matrix.
    inverse = np.linalg.inv(np.linalg.qr(columns, "r"))
    errors = np.sqrt(variance * (inverse**2).sum(1)) / unit
    coef = coef / unit
    return {"coef": coef, "se": errors, "p": 2 * stats.t.sf(np.abs(coef / errors), freedom), "sigma2": variance}
