"""Linear regression over rows of several owners: sums are secret-shared, and only the results become public."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from syft.exceptions import SyftError
from syft.linalg.owners import Owners, gather, link_of, revealed
from syft.linalg.scan import DASH
from syft.linalg.student import p_values
from syft.mpc.protocols.regression import COEFFICIENT, LEVER, MAX_COLUMNS, MEAN, SPREAD, SUM
from syft.mpc.runtime import client
from syft.pointers.pointer_tensor import PointerTensor

if TYPE_CHECKING:
    from syft.linalg.owners import WorkerOrId

__all__ = ["DASH", "EncryptedLinearRegression"]

# Below this the more exact of the two results for the error of the intercept fits.
EXACT_LEVER = 2.0**12


class EncryptedLinearRegression:
    """Ordinary least squares over rows of several owners, which stay private.

    Each owner computes means and sums of products of its own rows locally, and secret-shares them among all owners and
    `hbc_worker`. The parties add up, invert the Gram matrix and solve under encryption, in 71 rounds, plus 7 for each
    doubling of the number of owners. The public results are:

    * the coefficients and the intercept, and the parts of the standard errors: the residual sum of squares, and the
      diagonal of the inverse of the Gram matrix;
    * whether columns are collinear;
    * for each column the power of two above its largest root mean square at any owner, so that any unit works;
    * shapes: the number of rows of each owner, and the number of columns.

    An owner needs to trust only the crypto provider, which must not reveal its randomness to a party: all other owners
    and the helper together can't reconstruct the rows of an owner. With few rows, the results themselves may reveal
    something about single rows.

    Columns may have any units, and variance inflation factors up to 5,000; beyond that `fit` raises an error about
    collinearity. The error of coefficients is about 1e-6 of (standard deviation of y over that of the column), and the
    relative error of standard errors 1e-5; 1e-3 if columns have variance inflation factors in the thousands and also
    means hundreds of times their standard deviation.

    Args:
        crypto_provider: the worker that deals randomness, and holds neither rows nor shares.
        hbc_worker: an honest-but-curious worker that holds shares, and no rows.
        precision_fractional: the number of decimals that `summarize` shows. The computation always has 40 bits (12
            decimals) for columns scaled to size one.
        fit_intercept: whether there is an intercept. If not, columns are not centered.

    Attributes:
        coef: the coefficients, one for each column.
        intercept: the intercept, a scalar tensor; None without intercept.
        se_coef: their standard errors.
        se_intercept: that of the intercept.
        pvalue_coef: two-sided p-values of Student's t test that a coefficient is 0, in float64.
        pvalue_intercept: that of the intercept.
        sigma2: the variance of the residuals.
        sigma: its root, the residual standard error.
        total_size: the number of rows.
        dgf: degrees of freedom.
    """

    def __init__(
        self,
        crypto_provider: WorkerOrId,
        hbc_worker: WorkerOrId,
        precision_fractional: int = 6,
        fit_intercept: bool = True,
    ) -> None:
        if type(precision_fractional) is not int or not 1 <= precision_fractional <= 12:
            raise SyftError(f"precision_fractional must be an integer from 1 to 12, got {precision_fractional!r}.")
        self.crypto_provider = crypto_provider
        self.hbc_worker = hbc_worker
        self.precision_fractional = precision_fractional
        self.fit_intercept = bool(fit_intercept)
        self.coef: Any = None
        self.intercept: Any = None
        self.se_coef: Any = None
        self.se_intercept: Any = None
        self.pvalue_coef: Any = None
        self.pvalue_intercept: Any = None
        self.sigma2: Any = None
        self.sigma: Any = None
        self.total_size = 0
        self.dgf = 0

    def fit(self, X_ptrs: Sequence[torch.Tensor], y_ptrs: Sequence[torch.Tensor]) -> EncryptedLinearRegression:
        """Fit to rows at two owners or more.

        Args:
            X_ptrs: a pointer to a matrix for each owner; the number of columns is the same at each.
            y_ptrs: a pointer to a vector (or one column) for each owner, in the same order.

        Returns:
            This object.
        """
        owners = gather({"X_ptrs": X_ptrs, "y_ptrs": y_ptrs}, self.crypto_provider, self.hbc_worker)
        count = owners.widths[0]
        freedom = owners.rows - count - self.fit_intercept
        _check_size(owners, count, freedom)
        exponents = owners.exponents()
        owners = owners.scaled(exponents)
        coefficients, spread, lever = self._solve(owners, count)
        constant, residual = self._residual(owners, coefficients)
        self.total_size, self.dgf = owners.rows, freedom
        kind = torch.promote_types(y_ptrs[0].dtype, torch.float32)
        self._keep(exponents, coefficients, constant, residual, spread, lever, kind)
        return self

    def _solve(self, owners: Owners, count: int) -> tuple[torch.Tensor, torch.Tensor, float]:
        """Return coefficients, the diagonal of the inverse Gram matrix, and the leverage of the intercept."""
        total = owners.rows
        centered: list[Any] = []
        means: list[Any] = []
        for owner in owners.each:
            mean = owner.data.mean(0)
            data = owner.data - mean if self.fit_intercept else owner.data
            centered.append(data.t() @ data / total)
            means.append(mean)
        sums: list[Any] = [link_of(owners.shared_sum(centered, SUM))]
        weights: tuple[int, ...] = ()
        if self.fit_intercept:
            parts = [mean * (owner.rows / total) for mean, owner in zip(means, owners.each, strict=True)]
            rows = torch.stack([owners.share(mean, MEAN) for mean in means])
            sums += [link_of(rows), link_of(owners.shared_sum(parts, MEAN))]
            weights = tuple(round(owner.rows / total * (1 << MEAN)) for owner in owners.each)
        good, solved, spread, levers = client.run("regression", *sums, weights=weights)
        if not good.get().item():
            raise SyftError(
                "The columns of X are collinear, or nearly so"
                + (" (a column that never changes is collinear with the intercept)" if self.fit_intercept else "")
                + ", so coefficients can't be determined. Leave out columns that follow from others."
            )
        fine, rough = (levers.get().double() / torch.tensor([2.0**bits for bits in LEVER])).tolist()
        return revealed(solved, COEFFICIENT), revealed(spread, SPREAD), fine if rough < EXACT_LEVER else rough

    def _residual(self, owners: Owners, coefficients: torch.Tensor) -> tuple[float, float]:
        """Return the intercept and the residual sum of squares over the number of rows.

        The coefficients are public now, so each owner computes its own residuals exactly, and shares their sums.
        """
        negated = torch.cat([-coefficients, torch.ones(1, dtype=torch.float64)])
        rests = [owner.data @ owner.send(negated) for owner in owners.each]
        constant = 0.0
        if self.fit_intercept:
            sums = [(rest.sum() / owners.rows).view(1) for rest in rests]
            constant = float(revealed(link_of(owners.shared_sum(sums, SUM)), SUM))
        squares = [((rest - constant).pow(2).sum() / owners.rows).view(1) for rest in rests]
        return constant, float(revealed(link_of(owners.shared_sum(squares, SUM)), SUM))

    def _keep(
        self,
        exponents: torch.Tensor,
        coefficients: torch.Tensor,
        constant: float,
        residual: float,
        spread: torch.Tensor,
        lever: float,
        kind: torch.dtype,
    ) -> None:
        """Compute the public attributes from the revealed values, in the units of the data."""
        unit = 2.0 ** float(exponents[-1])
        units = torch.pow(2.0, exponents[-1] - exponents[:-1])
        variance = max(residual, 0.0) * self.total_size / self.dgf
        errors = (variance * spread / self.total_size).sqrt()
        self.coef, self.se_coef = (coefficients * units).to(kind), (errors * units).to(kind)
        self.pvalue_coef = p_values(coefficients / errors, self.dgf)
        self.sigma2 = torch.tensor(variance * unit**2, dtype=kind)
        self.sigma = torch.tensor(math.sqrt(variance) * unit, dtype=kind)
        self.intercept = self.se_intercept = self.pvalue_intercept = None
        if self.fit_intercept:
            error = math.sqrt(variance * (1 + max(lever, 0.0)) / self.total_size)
            self.intercept = torch.tensor(constant * unit, dtype=kind)
            self.se_intercept = torch.tensor(error * unit, dtype=kind)
            statistic = torch.tensor(constant, dtype=torch.float64) / error
            self.pvalue_intercept = p_values(statistic, self.dgf)

    def predict(self, X: torch.Tensor) -> torch.Tensor:
        """Return X coef + intercept: locally, at the location of a pointer, or on shares."""
        self._check_fitted()
        columns = len(self.coef)
        _check_columns(X, columns)
        kind = X.dtype if X.is_floating_point() else self.coef.dtype
        coef: Any = self.coef.to(kind)
        link = X.__dict__.get("child")
        if isinstance(link, PointerTensor):
            coef = coef.send(link.location)
        found = (X if X.is_floating_point() else X.to(kind)) @ coef
        predicted: torch.Tensor = found if self.intercept is None else found + float(self.intercept)
        return predicted

    def summarize(self) -> None:
        """Write a table of coefficients, standard errors and p-values to the standard output."""
        self._check_fitted()
        sys.stdout.write(self._table() + "\n")

    def _table(self) -> str:
        """Return the table."""
        rows = [
            (f"X{number}", *row)
            for number, row in enumerate(zip(self.coef, self.se_coef, self.pvalue_coef, strict=True), 1)
        ]
        if self.fit_intercept:
            rows.insert(0, ("intercept", self.intercept, self.se_intercept, self.pvalue_intercept))
        width = self.precision_fractional + 10
        line = "-" * (12 + 3 * width)
        lines = [f"{'':<12}" + "".join(f"{title:>{width}}" for title in ("coef", "std err", "p-value")), line]
        digits = self.precision_fractional
        for name, *numbers, p in rows:
            shown = [*(_shown(float(number), digits) for number in numbers), f"{p:.4g}"]
            lines.append(f"{name:<12}" + "".join(f"{text:>{width}}" for text in shown))
        lines += [
            line,
            f"{self.total_size} rows, {self.dgf} degrees of freedom, residual standard error {self.sigma:.{digits}g}",
        ]
        return "\n".join(lines)

    def _check_fitted(self) -> None:
        if self.coef is None:
            raise SyftError("This regression has no results yet. Call .fit(X_ptrs, y_ptrs) first.")

    def __repr__(self) -> str:
        provider, helper = (getattr(worker, "id", worker) for worker in (self.crypto_provider, self.hbc_worker))
        state = f"fitted to {self.total_size} rows" if self.coef is not None else "not fitted"
        return (
            f"<EncryptedLinearRegression crypto_provider={provider!r} hbc_worker={helper!r} "
            f"fit_intercept={self.fit_intercept}: {state}>"
        )


def _check_columns(x: object, columns: int) -> None:
    if not isinstance(x, torch.Tensor) or x.dim() not in (1, 2) or x.shape[-1] != columns:
        raise SyftError(f"predict takes a matrix of {columns} columns (or a pointer to one), like fit.")


def _check_size(owners: Owners, count: int, freedom: int) -> None:
    if count > MAX_COLUMNS:
        raise SyftError(f"An encrypted regression takes at most {MAX_COLUMNS} columns, got {count}.")
    if freedom < 1:
        raise SyftError(
            f"{owners.rows} rows are too few for {count} columns; at least {owners.rows - freedom + 1} are needed."
        )


def _shown(number: float, digits: int) -> str:
    """Format a number with a number of decimals, or in scientific notation if these would be zero."""
    plain = not number or 10 ** (-digits / 2) <= abs(number) < 10**8
    return f"{number:.{digits}f}" if plain else f"{number:.{digits}e}"
