"""Mechanisms: release of values with a stated privacy loss, one class per file. Noise is exact and cryptographic."""

from syft.dp.mechanisms.exponential import Exponential
from syft.dp.mechanisms.gaussian import Gaussian
from syft.dp.mechanisms.laplace import Laplace
from syft.dp.mechanisms.mechanism import Mechanism
from syft.dp.mechanisms.noisy_max import ReportNoisyMax

__all__ = ["Exponential", "Gaussian", "Laplace", "Mechanism", "ReportNoisyMax"]
