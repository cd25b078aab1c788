"""Rules for the inverse and the QR decomposition of encrypted matrices (torch.linalg.inv, torch.linalg.qr)."""

from __future__ import annotations

from typing import Any

import torch

from syft.exceptions import SyftError, UnsupportedOperationError
from syft.mpc.rules.approximations import encoded
from syft.mpc.rules.operands import FixedPointFormat, aten, content, rule
from syft.mpc.rules.types import Link
from syft.mpc.runtime import client
from syft.mpc.values import ring_ops
from syft.mpc.values.encoding import encode_plain


def _encode(tensor: torch.Tensor, fmt: FixedPointFormat) -> Link:
    return fmt.link(encode_plain(tensor, fmt.scale, fmt.field))


@rule(aten.linalg_inv_ex.default, in_place=False)
def inverse(x: Link, check_errors: bool = False) -> tuple[Any, torch.Tensor]:
    """Invert a square matrix, or each of a batch (see the protocol `inverse` for its domain and error).

    A shared matrix that is singular raises no error, because no party can detect it.
    """
    fmt = encoded(x, "The inverse")
    if len(x.shape) < 2 or x.shape[-2] != x.shape[-1]:
        raise SyftError(f"inverse() requires a square matrix, got shape {tuple(x.shape)}.")
    value = content(x)
    if ring_ops.is_shared(value):
        nothing = torch.zeros(x.shape[:-2], dtype=torch.int32)
        return fmt.link(ring_ops.run("inverse", value, scale=fmt.scale)), nothing
    found, info = torch.linalg.inv_ex(value.double() / fmt.scale, check_errors=check_errors)
    if bool((info != 0).any()):
        raise SyftError("inverse() got a matrix that is singular, so it has no inverse.")
    return _encode(found, fmt), info


@rule(aten.linalg_qr.default, in_place=False)
def qr(x: Link, mode: str = "reduced") -> tuple[Any, Any]:
    """Write a matrix as Q R (see the protocol `qr` for its domain and error); with mode "r" Q is empty, as in torch."""
    fmt = encoded(x, "QR")
    if len(x.shape) != 2:
        raise UnsupportedOperationError(
            "qr of anything but one matrix", "encrypted tensors", "Decompose matrices one by one."
        )
    value = content(x)
    if not ring_ops.is_shared(value):
        q, r = torch.linalg.qr(value.double() / fmt.scale, mode)
        return _encode(q, fmt), _encode(r, fmt)
    made = client.run("qr", value, scale=fmt.scale, mode=mode)
    if mode == "r":
        return fmt.link(torch.zeros(0, dtype=torch.int64)), fmt.link(made)
    return fmt.link(made[0]), fmt.link(made[1])
