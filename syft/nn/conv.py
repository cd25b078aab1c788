"""Convolution of images."""

from __future__ import annotations

from typing import Literal

import torch

__all__ = ["Conv2d"]


class Conv2d(torch.nn.Conv2d):
    """torch.nn.Conv2d with bias=False by default.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size: size of the window, a number or (height, width).
        stride: the distance between windows.
        padding: added at each edge; a number, (height, width), "same" or "valid".
        dilation: the distance between elements of a window.
        groups: the number of groups of channels.
        bias: whether to add a bias to each channel.
        padding_mode: "zeros", "reflect", "replicate" or "circular".
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int],
        stride: int | tuple[int, int] = 1,
        padding: int | tuple[int, int] | str = 0,
        dilation: int | tuple[int, int] = 1,
        groups: int = 1,
        bias: bool = False,
        padding_mode: Literal["zeros", "reflect", "replicate", "circular"] = "zeros",
    ) -> None:
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode)

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        """Convolve images [N, C, H, W], or one image [C, H, W]."""
        return super().forward(data)
