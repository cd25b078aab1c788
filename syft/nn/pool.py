"""Pooling of images."""

from __future__ import annotations

import torch

__all__ = ["AvgPool2d"]


class AvgPool2d(torch.nn.AvgPool2d):
    """torch.nn.AvgPool2d.

    Args:
        kernel_size: size of the window, a number or (height, width).
        stride: the distance between windows; the size of a window by default.
        padding: the number of zeros added at each edge.
        ceil_mode: whether windows may exceed the edge.
        count_include_pad: whether added zeros count in the mean.
        divisor_override: the divisor of sums, instead of the size of the window.
    """

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        """Pool images [N, C, H, W], or one image [C, H, W]."""
        return super().forward(data)
