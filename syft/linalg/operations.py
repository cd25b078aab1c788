"""Inverse and QR decomposition, of plain, remote and encrypted matrices.

Encrypted matrices are worked on whole columns at once, with 30 bits behind the point whatever their format has, after a
private power of two has brought them to norm one. Errors come on top of what the rounding of the matrix itself makes
of its inverse: that is up to |A^-1|^2 / 2 units, for a matrix A that was encoded.

Example:
    >>> import torch
    >>> import syft as sy
    >>> hook = sy.TorchHook(torch)
    >>> alice, bob, carol = (sy.VirtualWorker(hook, id=f"{name}-of-linalg") for name in ("alice", "bob", "carol"))
    >>> a = torch.tensor([[4.0, 2.0], [2.0, 3.0]])
    >>> secret = a.fix_precision(precision_fractional=4).share(alice, bob, crypto_provider=carol)
    >>> found = sy.linalg.inv_sym(secret).get().float_precision()
    >>> bool(torch.allclose(found, torch.linalg.inv(a), atol=1e-3))
    True
"""

from __future__ import annotations

import math
from typing import Any

import torch

from syft.exceptions import SyftError
from syft.hook.syft_tensor import SyftTensor
from syft.tensors.additive_shared import AdditiveSharingTensor
from syft.tensors.precision import FixedPrecisionTensor

MODES = ("reduced", "complete", "r")
# How far elements of a symmetric matrix may be from their mirror images, beside the largest one.
TOLERANCE = 1e-5


def inv_sym(t: torch.Tensor) -> torch.Tensor:
    """Invert a symmetric matrix.

    Works for any symmetric matrix that has an inverse, definite or not. On shares only what is on and below the
    diagonal counts, so the result is symmetric whatever is above it.

    On shares: 74 rounds, whatever the size. The error is below 2^-22 |A^-1| and 5 units in the last place, for
    condition numbers up to 2,000 (Frobenius norm over smallest eigenvalue in size); that a matrix is nearer to singular
    can't be seen there, and what comes out then means nothing. The Frobenius norm must stay below 2^31 units (32,000
    with 16 bits, 2 million with three decimals).

    Args:
        t: a matrix: plain, a pointer to one, encoded in fixed precision, or shared.

    Returns:
        The inverse, of the same kind, where the matrix is.

    Raises:
        SyftError: if it is not square; if it is here and not symmetric, or singular. At another worker torch tells.
    """
    _check_matrix(t, "inv_sym")
    if t.shape[0] != t.shape[1]:
        raise SyftError(f"inv_sym takes a square matrix, and this one has the shape {tuple(t.shape)}.")
    values = _values_here(t)
    if values is not None:
        _check_symmetric(values, _unit_of(t))
    t = _lower_mirrored(t) if _is_shared(t) else t
    return _lower_mirrored(torch.linalg.inv(t))


def qr(
    t: torch.Tensor, mode: str = "reduced", norm_factor: float | None = None
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Write a matrix as a product Q R: Q has orthogonal columns of norm one, and R is upper triangular.

    By reflections (Householder), with the signs that numpy and torch give. On shares: 12 rounds, and 36 for each column
    (32 with mode "r"), less one column if the matrix is square. The error is below 4 units in the last place and 2^-24
    (in R: of the norm of the matrix) for each column, times the condition number. Columns that depend on others give
    something orthogonal all the same. The Frobenius norm must stay below 2^31 units.

    Args:
        t: a matrix: plain, a pointer to one, encoded in fixed precision, or shared.
        mode: "reduced" (Q as wide as t is), "complete" (Q square), or "r" (no Q).
        norm_factor: ignored; accepted for compatibility. The norm is computed privately.

    Returns:
        Q and R; R alone with mode "r".
    """
    if mode not in MODES:
        raise SyftError(f"qr has the modes {', '.join(map(repr, MODES))}, not {str(mode)[:20]!r}.")
    if norm_factor is not None and not 0 < norm_factor < math.inf:
        raise SyftError("norm_factor is a positive number, or left out.")
    _check_matrix(t, "qr")
    q, r = torch.linalg.qr(t, mode)
    return r if mode == "r" else (q, r)


def _check_matrix(t: object, name: str) -> None:
    if not isinstance(t, torch.Tensor):
        raise SyftError(f"{name} takes a tensor, not a {type(t).__name__}.")
    if t.dim() != 2:
        raise SyftError(f"{name} takes a matrix, and this has {t.dim()} dimensions.")
    if isinstance(_link(t), AdditiveSharingTensor):
        raise SyftError(f"{name} takes encoded numbers: share x.fix_precision(), not whole numbers.")
    if not t.is_floating_point() and not t.is_complex():
        raise SyftError(f"{name} takes a matrix of floats, not of {t.dtype}: convert it first with .float().")


def _link(t: torch.Tensor) -> Any:
    return t.__dict__.get("child") if isinstance(t, SyftTensor) else None


def _is_shared(t: torch.Tensor) -> bool:
    link = _link(t)
    return isinstance(link, FixedPrecisionTensor) and link.is_shared


def _values_here(t: torch.Tensor) -> torch.Tensor | None:
    """Return the values of a matrix that is here, whether it is encoded or not; None if it is elsewhere or shared."""
    link = _link(t)
    if link is None:
        plain: torch.Tensor = t.detach()
        return plain
    if isinstance(link, FixedPrecisionTensor) and isinstance(link.child, torch.Tensor):
        return link.child.double() / link.scale
    return None


def _unit_of(t: torch.Tensor) -> float:
    link = _link(t)
    return 1 / link.scale if isinstance(link, FixedPrecisionTensor) else 0.0


def _check_symmetric(values: torch.Tensor, unit: float) -> None:
    """Raise if a matrix that is here is not symmetric, up to rounding, or has no inverse that means something."""
    if not values.numel():
        return
    if not bool(torch.isfinite(values).all()):
        raise SyftError("This matrix has elements that are not finite, so it has no inverse.")
    size = float(values.abs().max())
    if float((values - values.mH).abs().max()) > TOLERANCE * size + 2 * unit:
        raise SyftError("inv_sym takes a symmetric matrix, and this one is not. For others use torch.linalg.inv.")
    # Eigenvalues of a symmetric matrix are its singular values, up to signs.
    sizes = torch.linalg.eigvalsh(values).abs()
    smallest = float(sizes.min()) if size else 0.0
    if smallest <= values.shape[0] * torch.finfo(values.dtype).eps * float(sizes.max()):
        raise SyftError("This matrix is singular, so it has no inverse.")


def _lower_mirrored(t: torch.Tensor) -> torch.Tensor:
    """Return what is on and below the diagonal, and its mirror image above."""
    return t.tril() + t.tril(-1).mH
