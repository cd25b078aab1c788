"""DASH: a distributed association scan, one regression for each of many columns (Bloom, 2019)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from syft.exceptions import SyftError
from syft.linalg.owners import Owners, gather, link_of, revealed
from syft.linalg.student import p_values
from syft.mpc.protocols.householder import POINT
from syft.mpc.protocols.regression import SUM
from syft.mpc.runtime import client

if TYPE_CHECKING:
    from syft.linalg.owners import WorkerOrId


class DASH:
    """Regress y on each column of X together with all columns of C, over rows of several owners.

    This is a genome-wide association study: X has a column for each genetic variant, C has the covariates (age, sex,
    and a column of ones for an intercept). The results are those of one ordinary least squares problem for each column
    of X.

    Each owner decomposes its own C as Q R, and secret-shares R, Q^T X, Q^T y, and sums of products of residuals with
    respect to C, among all owners and `hbc_worker`. The parties combine the R's by reflections and compute all columns
    in parallel: in 25 rounds, plus 32 for each column of C, and 7 for each doubling of the number of owners. The public
    results are coefficients and standard errors; whether C is collinear, and the columns of X that C explains; for each
    column the power of two above its largest root mean square at any owner; and shapes. For the trust assumptions see
    `EncryptedLinearRegression`.

    Columns may have any units. The error of coefficients is about 1e-6 of a standard error, and the relative error of
    standard errors 1e-6, if the residual of y with respect to C is at least 1 / 30 of the root mean square of y (1e-3
    for 1 / 1000): subtract large constants from y first. Columns of X that C explains (up to 1 / 1000 of their root
    mean square), such as constant ones, get NaN.

    Args:
        crypto_provider: the worker that deals randomness, and holds neither rows nor shares.
        hbc_worker: an honest-but-curious worker that holds shares, and no rows.
        precision_fractional: ignored; accepted for compatibility. The computation always has 40 bits (12 decimals).

    Attributes:
        coef: a coefficient for each column of X.
        se: their standard errors.
        sigma2: the squares of the standard errors.
        pvalue: two-sided p-values of Student's t test that a coefficient is 0, in float64.
        total_size: the number of rows.
        dgf: degrees of freedom.
    """

    def __init__(self, crypto_provider: WorkerOrId, hbc_worker: WorkerOrId, precision_fractional: int = 6) -> None:
        if type(precision_fractional) is not int or not 1 <= precision_fractional <= 12:
            raise SyftError(f"precision_fractional must be an integer from 1 to 12, got {precision_fractional!r}.")
        self.crypto_provider = crypto_provider
        self.hbc_worker = hbc_worker
        self.precision_fractional = precision_fractional
        self.coef: torch.Tensor | None = None
        self.se: torch.Tensor | None = None
        self.sigma2: torch.Tensor | None = None
        self.pvalue: torch.Tensor | None = None
        self.total_size = 0
        self.dgf = 0

    def fit(
        self, X_ptrs: Sequence[torch.Tensor], C_ptrs: Sequence[torch.Tensor], y_ptrs: Sequence[torch.Tensor]
    ) -> DASH:
        """Scan rows at two owners or more.

        Args:
            X_ptrs: a pointer to a matrix for each owner: the columns to scan.
            C_ptrs: a pointer to a matrix for each owner: the covariates.
            y_ptrs: a pointer to a vector (or one column) for each owner.

        Returns:
            This object.
        """
        lists = {"C_ptrs": C_ptrs, "X_ptrs": X_ptrs, "y_ptrs": y_ptrs}
        owners = gather(lists, self.crypto_provider, self.hbc_worker)
        permanent = owners.widths[0]
        freedom = owners.rows - permanent - 1
        if freedom < 1:
            raise SyftError(
                f"{owners.rows} rows are too few for {permanent} columns of C and one of X; at least {permanent + 2} "
                "are needed."
            )
        exponents = owners.exponents()
        owners = owners.scaled(exponents)
        there, slopes, spreads = _scan(owners, permanent)
        units = torch.pow(2.0, exponents[-1] - exponents[permanent:-1])
        errors = (spreads.clamp(min=0) / freedom).sqrt()
        slopes = torch.where(there, slopes, math.nan)
        kind = torch.promote_types(y_ptrs[0].dtype, torch.float32)
        self.total_size, self.dgf = owners.rows, freedom
        self.coef = (slopes * units).to(kind)
        self.se = (torch.where(there, errors, math.nan) * units).to(kind)
        self.sigma2 = self.se**2
        self.pvalue = p_values(slopes / errors, freedom)
        return self

    def get_coeff(self) -> torch.Tensor:
        """Return the coefficients of the columns of X."""
        return self._result("coef")

    def get_standard_errors(self) -> torch.Tensor:
        """Return their standard errors."""
        return self._result("se")

    def get_p_values(self) -> torch.Tensor:
        """Return their two-sided p-values."""
        return self._result("pvalue")

    def _result(self, name: str) -> torch.Tensor:
        if self.coef is None:
            raise SyftError("This scan has no results yet. Call .fit(X_ptrs, C_ptrs, y_ptrs) first.")
        found: torch.Tensor = getattr(self, name)
        return found

    def __repr__(self) -> str:
        provider, helper = (getattr(worker, "id", worker) for worker in (self.crypto_provider, self.hbc_worker))
        state = "not fitted" if self.coef is None else f"{len(self.coef)} columns, {self.total_size} rows"
        return f"<DASH crypto_provider={provider!r} hbc_worker={helper!r}: {state}>"


def _scan(owners: Owners, permanent: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return which columns of X are not explained by C, their coefficients, and their residual variances."""
    total = owners.rows
    root = math.sqrt(total)
    compressed: list[Any] = []
    squares: list[Any] = []
    products: list[Any] = []
    for owner in owners.each:
        q, r = torch.linalg.qr(owner.data[:, :permanent])
        inside = owner.data[:, permanent:]
        along = q.t() @ inside
        rest = inside - q @ along
        compressed.append(owners.share(torch.cat([r, along], 1) / root, POINT))
        squares.append(rest.pow(2).sum(0) / total)
        products.append((rest[:, :-1] * rest[:, -1:]).sum(0) / total)
    summed = owners.shared_sum(squares, SUM)
    good, there, slopes, spreads = client.run(
        "association",
        link_of(torch.cat(compressed)),
        link_of(summed[:-1]),
        link_of(owners.shared_sum(products, SUM)),
        link_of(summed[-1:]),
    )
    if not good.get().item():
        raise SyftError("The columns of C are collinear, or nearly so. Leave out columns that follow from others.")
    return there.get() > 0, revealed(slopes, POINT), revealed(spreads, POINT)
