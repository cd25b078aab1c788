"""Types of the operands of rules."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from syft.mpc.values.ring_ops import Operation, Term, Value
from syft.tensors.additive_shared import AdditiveSharingTensor
from syft.tensors.precision import FixedPrecisionTensor

__all__ = ["AnyTensor", "Dims", "Link", "Number", "Operand", "Operation", "Sizes", "Term", "Value"]

Link = FixedPrecisionTensor | AdditiveSharingTensor
# A tensor in a call on encrypted tensors: private (a link) or public.
AnyTensor = Link | torch.Tensor
Number = int | float
# An operand: a tensor, or a public number.
Operand = AnyTensor | Number
# Dimensions as users pass them: one, several, or all (None).
Dims = int | Sequence[int] | None
# Sizes, strides and the like: one integer for each dimension, or one for all of them.
Sizes = Sequence[int]
