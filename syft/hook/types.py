"""Type aliases of the tensors that the hook handles."""

from __future__ import annotations

from typing import TypeAlias

import torch

from syft.core.tensor import AbstractTensor

FrameworkTensorType: TypeAlias = torch.Tensor | AbstractTensor
FrameworkShapeType: TypeAlias = torch.Size
FrameworkLayerModule: TypeAlias = torch.nn.Module
FrameworkTensor = (torch.Tensor, torch.nn.Parameter)
FrameworkShape = torch.Size
