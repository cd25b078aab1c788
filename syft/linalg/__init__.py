"""Linear algebra and linear regression on data that stays private."""

from syft.linalg.lr import DASH, EncryptedLinearRegression
from syft.linalg.operations import inv_sym, qr

__all__ = ["DASH", "EncryptedLinearRegression", "inv_sym", "qr"]
