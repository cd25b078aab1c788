"""Inverse and QR decomposition of plain, remote and encrypted matrices.

Encrypted matrices are processed by whole columns, with 30 bits behind the point in every format, after scaling to norm
one by a private power of two. The encoding of a matrix A adds an error of up to |A^-1|^2 / 2 units to its inverse, in
addition to the errors below.

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
# The maximum asymmetry of a symmetric matrix, relative to its largest element.
TOLERANCE = 1e-5


def inv_sym(t: torch.Tensor) -> torch.Tensor:
    """Invert a symmetric matrix.

    Works for any symmetric matrix that has an inverse, definite or not. On shares only the lower triangle is used, so
    the result is always symmetric.

    On shares: 74 rounds for every size. The error is below 2^-22 |A^-1| plus 5 units in the last place, for condition
    numbers up to 2,000 (Frobenius norm over smallest absolute eigenvalue). Matrices that are nearer to singular can't
    be detected on shares; their results are meaningless. The Frobenius norm must stay below 2^31 units (32,000 with 16
    bits, 2 million with three decimals).

    Args:
        t: a matrix: plain, remote (a pointer), encoded in fixed precision, or shared.

    Returns:
        The inverse, of the same kind, at the same worker.

    Raises:
        SyftError: if it is not square; if it is local and not symmetric, or singular.
    """
    _check_matrix(t, "inv_sym")
    if t.shape[0] != t.shape[1]:
        raise SyftError(f"inv_sym() requires a square matrix, got shape {tuple(t.shape)}.")
    values = _values_here(t)
    if values is not None:
        _check_symmetric(values, _unit_of(t))
    t = _lower_mirrored(t) if _is_shared(t) else t
    return _lower_mirrored(torch.linalg.inv(t))


def qr(
    t: torch.Tensor, mode: str = "reduced", norm_factor: float | None = None
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Write a matrix as a product Q R: Q has orthogonal columns of norm one, and R is upper triangular.

    By Householder reflections, with the signs of numpy and torch. On shares: 12 rounds, and 36 for each column (32 with
    mode "r"), less one column if the matrix is square. The error is below 4 units in the last place plus 2^-24 (in R:
    of the norm of the matrix) for each column, times the condition number. Q is orthogonal even if columns are linearly
    dependent. The Frobenius norm must stay below 2^31 units.

    Args:
        t: a matrix: plain, remote (a pointer), encoded in fixed precision, or shared.
        mode: "reduced" (Q is as wide as t), "complete" (Q is square), or "r" (no Q).
        norm_factor: ignored; accepted for compatibility. The norm is computed privately.

    Returns:
        Q and R; R alone with mode "r".
    """
    if mode not in MODES:
        raise SyftError(f"qr() has the modes {', '.join(map(repr, MODES))}, got {str(mode)[:20]!r}.")
    if norm_factor is not None and not 0 < norm_factor < math.inf:
        raise SyftError(f"norm_factor must be positive and finite, got {norm_factor}. Leave it out.")
    _check_matrix(t, "qr")
    q, r = torch.linalg.qr(t, mode)
    return r if mode == "r" else (q, r)


def _check_matrix(t: object, name: str) -> None:
    if not isinstance(t, torch.Tensor):
        raise SyftError(f"{name}() takes a tensor, got {type(t).__name__}.")
    if t.dim() != 2:
        raise SyftError(f"{name}() takes a matrix, got a tensor with {t.dim()} dimensions.")
    if isinstance(_link(t), AdditiveSharingTensor):
        raise SyftError(
            f"{name}() takes encoded numbers, got whole numbers. Encode first: x.fix_precision().share(...)."
        )
    if not t.is_floating_point() and not t.is_complex():
        raise SyftError(f"{name}() takes a matrix of floats, got {t.dtype}. Convert it first with .float().")


def _link(t: torch.Tensor) -> Any:
    return t.__dict__.get("child") if isinstance(t, SyftTensor) else None


def _is_shared(t: torch.Tensor) -> bool:
    link = _link(t)
    return isinstance(link, FixedPrecisionTensor) and link.is_shared


def _values_here(t: torch.Tensor) -> torch.Tensor | None:
    """Return the values of a local matrix, plain or encoded; None if it is remote or shared."""
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
    """Raise if a local matrix is not symmetric, up to rounding, or is numerically singular."""
    if not values.numel():
        return
    if not bool(torch.isfinite(values).all()):
        raise SyftError("inv_sym() got a matrix with elements that are not finite.")
    size = float(values.abs().max())
    if float((values - values.mH).abs().max()) > TOLERANCE * size + 2 * unit:
        raise SyftError("inv_sym() requires a symmetric matrix. For other matrices use torch.linalg.inv.")
    # Singular values of a symmetric matrix are the absolute eigenvalues.
    sizes = torch.linalg.eigvalsh(values).abs()
    smallest = float(sizes.min()) if size else 0.0
    if smallest <= values.shape[0] * torch.finfo(values.dtype).eps * float(sizes.max()):
        raise SyftError("inv_sym() got a matrix that is singular, so it has no inverse.")


def _lower_mirrored(t: torch.Tensor) -> torch.Tensor:
    """Return the lower triangle, mirrored to the upper one."""
    return t.tril() + t.tril(-1).mH
