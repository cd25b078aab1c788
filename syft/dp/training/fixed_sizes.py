"""Checks that all sizes inside a model and its loss follow from the shapes of a sample, not from its values.

A size that depends on values changes the duration and memory of a plan, which a client can observe: with
`ones.repeat_interleave((x > 41).long() * 10**7)` the duration of a round reveals whether a row exists, despite the
noise of the result. So the plans are run once on fake tensors, which have no values; plans for which that fails are
refused.
"""

from __future__ import annotations

from typing import Any

import torch

from syft.dp.training.per_sample import PerSample
from syft.exceptions import TrainingError
from syft.messaging.plan.dry_run import fake_tensors


def check_fixed_sizes(samples: PerSample, data: torch.Tensor, target: torch.Tensor) -> None:
    """Raise TrainingError unless the sizes in one sample's gradient follow from its shape and dtype.

    Only the shapes and dtypes of the data are used.
    """
    given = [parameter.detach() for parameter in samples.parameters]
    states = [[tensor.detach() for tensor in part.state] for part in (samples.model, samples.loss)]
    try:
        with fake_tensors() as mode:
            leaves = [mode.from_tensor(tensor).requires_grad_() for tensor in given]
            rest = tuple([mode.from_tensor(tensor) for tensor in state] for state in states)
            loss = samples.loss_of(leaves, rest, _fake(data), _fake(target))
            found: Any = torch.autograd.grad(loss, leaves, allow_unused=True) if loss.requires_grad else ()
            for gradient in found:
                if gradient is not None:
                    tuple(map(int, gradient.shape))
    except Exception as error:
        text = (str(error).splitlines() or [""])[0][:200]
        raise TrainingError(
            f"The model or its loss has a size that depends on values ({type(error).__name__}: {text}), so its "
            "running time would reveal data. Private training needs plans whose sizes follow from shapes: use "
            "torch.where and multiplication by a mask instead of boolean indexing, nonzero, unique, masked_select, "
            "item(), or repeat_interleave by a tensor."
        ) from None


def _fake(rows: torch.Tensor) -> torch.Tensor:
    """Return one fake row; call it within the fake tensor mode."""
    return torch.empty(rows.shape[1:], dtype=rows.dtype)
