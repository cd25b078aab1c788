"""Linear algebra and linear regression on encrypted data: inverse, QR, least squares, association scans.

The protocols are in `syft.mpc.protocols`.
"""

from typing import TYPE_CHECKING

from syft._lazy import missing_name as _missing_name
from syft.linalg.lr import DASH, EncryptedLinearRegression
from syft.linalg.operations import inv_sym, qr

__all__ = ["DASH", "EncryptedLinearRegression", "inv_sym", "qr"]

if not TYPE_CHECKING:  # a type checker would accept any name
    __getattr__ = _missing_name(__name__)
