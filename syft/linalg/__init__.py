"""Linear algebra and linear regression on encrypted data: inverse, QR, least squares, association scans.

The protocols are in `syft.mpc.protocols`.
"""

from syft.linalg.lr import DASH, EncryptedLinearRegression
from syft.linalg.operations import inv_sym, qr

__all__ = ["DASH", "EncryptedLinearRegression", "inv_sym", "qr"]
