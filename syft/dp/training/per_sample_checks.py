"""Checks with synthetic samples that a model can be trained sample by sample, before real data is read.

Privacy does not depend on it: gradients are per sample by construction. But a model that mixes the rows of a batch
would behave differently with batches of one, so it is refused.
"""

from __future__ import annotations

from typing import Any

import torch

from syft.dp.mechanisms.noise import add_gaussian
from syft.dp.training.pacing import Clock, duration
from syft.dp.training.per_sample import PerSample
from syft.exceptions import TrainingError
from syft.federated.client.training_loop import loss_caller, one_number, output_of
from syft.messaging.plan.interpreter import fake_tensors

_ROWS = 4
_NOT_MEAN = (
    "The loss of a batch is neither the mean nor the sum of the losses of its samples, so the model can't be trained "
    "sample by sample. Use a loss with reduction='mean'."
)
_WRITES = (
    "The {what} changes its own tensors while it runs, as batch norm does in training mode. These changes are not "
    "private: use GroupNorm or LayerNorm instead (sy.dp.PrivacyEngine.fix(model) does that), or record "
    "the plan in eval mode."
)
_MIXES = (
    "The output for one sample depends on the others of its batch, as with batch norm. Private training needs a model "
    "with independent rows: use GroupNorm or LayerNorm instead (sy.dp.PrivacyEngine.fix(model) does that)."
)


def check_rows(samples: PerSample, data: torch.Tensor, target: torch.Tensor) -> bool:
    """Raise if a model can't be trained sample by sample, and choose the fastest way: `is_vectorised` is set.

    Only the shapes and dtypes of the data are used. Returns whether the loss of a batch is the mean of the losses of
    its samples; otherwise it is their sum.
    """
    made, goals = synthetic(data), torch.zeros((_ROWS, *target.shape[1:]), dtype=target.dtype, device=target.device)
    try:
        output = _run_model(samples, made)
        is_mean = _is_mean(samples, output.detach(), goals)
    except TrainingError:
        raise
    except Exception as error:
        raise TrainingError(f"The model rejects the samples: {_text(error)}") from error
    samples.is_vectorised = not samples.apart and _runs_at_once(samples, made, goals)
    if not samples.is_vectorised:
        _check_alone(samples, made, goals)
    if samples.apart:
        check_fixed_sizes(samples, data, target)
    return is_mean


def step_duration(samples: PerSample, data: torch.Tensor, target: torch.Tensor, clock: Clock) -> tuple[float, float]:
    """Return the seconds of one sample, and of the rest of a step; measured with synthetic samples.

    Only the shapes and dtypes of the data are used.
    """
    made, goals = synthetic(data), torch.zeros((_ROWS, *target.shape[1:]), dtype=target.dtype, device=target.device)
    blank = torch.zeros(samples.size, dtype=torch.float64)

    def run(number: int) -> None:
        row = slice(number % _ROWS, number % _ROWS + 1)
        samples.clipped_sum(made[row], goals[row], 1.0)

    return duration(run, 5, clock), duration(lambda number: add_gaussian(blank, 1.0), 3, clock)


def synthetic(data: torch.Tensor) -> torch.Tensor:
    """Return synthetic samples of the same shape and dtype, with values that are valid nearly everywhere."""
    shape = (_ROWS, *data.shape[1:])
    if data.dtype.is_floating_point:
        generator = torch.Generator().manual_seed(0)
        return torch.rand(shape, generator=generator).to(data.dtype).to(data.device)
    return torch.zeros(shape, dtype=data.dtype, device=data.device)


def _run_model(samples: PerSample, made: torch.Tensor) -> torch.Tensor:
    """Run the model on synthetic samples; raises if it changes its tensors, or mixes rows."""
    model, state, given = samples.model, samples.model.copies(), samples.model.copies()
    tracked = made.clone().requires_grad_() if made.dtype.is_floating_point else made
    with torch.enable_grad():
        output = output_of(model(state, tracked))
    _check_unchanged("model", state, given)
    if len(output) != len(made):
        raise TrainingError(f"A model must return a row for each sample, got {len(output)} for {len(made)}.")
    if tracked.requires_grad and output.requires_grad:
        _check_apart(output, tracked)
    elif not tracked.requires_grad:
        _check_changes(samples, made)
    return output


def _check_apart(output: torch.Tensor, made: torch.Tensor) -> None:
    """Raise if a row of the output depends on another row of the samples, by its derivative."""
    weights = torch.rand(output.shape, generator=torch.Generator().manual_seed(1)).to(output)
    for number in range(len(made)):
        value = (output[number] * weights[number]).sum()
        gradients: Any = torch.autograd.grad(value, made, retain_graph=True, allow_unused=True)
        if gradients[0] is None:
            continue
        found = torch.nan_to_num(gradients[0])
        found[number] = 0
        if bool(found.any()):
            raise TrainingError(_MIXES)


def _check_changes(samples: PerSample, made: torch.Tensor) -> None:
    """Raise if rows of the output change when another row of integers does."""
    other = made.clone()
    other[0] = 1
    model = samples.model
    try:
        with torch.no_grad():
            # A model that draws random numbers changes each time, so the check is skipped.
            first, again, changed = (output_of(model(model.copies(), rows)) for rows in (made, made, other))
    except Exception:  # 1 may be invalid here, such as an index
        return
    if torch.equal(first, again) and not torch.allclose(first[1:], changed[1:], equal_nan=True):
        raise TrainingError(_MIXES)


def _is_mean(samples: PerSample, output: torch.Tensor, goals: torch.Tensor) -> bool:
    """Return whether the loss of a batch is the mean of those of its samples (else the sum); raises if neither."""
    loss, state, given = samples.loss, samples.loss.copies(), samples.loss.copies()
    call = loss_caller(loss.plan, lambda *args: loss(state, *args))
    with torch.no_grad():
        whole = one_number(call(output, goals))
        parts = torch.stack([one_number(call(output[i : i + 1], goals[i : i + 1])) for i in range(len(output))])
    _check_unchanged("loss", state, given)
    if not whole.dtype.is_floating_point or not bool(torch.isfinite(whole) and torch.isfinite(parts).all()):
        return True
    if torch.allclose(whole, parts.mean(), rtol=1e-3, atol=1e-5):
        return True
    if torch.allclose(whole, parts.sum(), rtol=1e-3, atol=1e-5):
        return False
    raise TrainingError(_NOT_MEAN)


def _check_unchanged(what: str, state: list[torch.Tensor], given: list[torch.Tensor]) -> None:
    for after, before in zip(state, given, strict=True):
        if not torch.equal(after, before) and not torch.allclose(after, before, equal_nan=True):
            raise TrainingError(_WRITES.format(what=what))


def _runs_at_once(samples: PerSample, made: torch.Tensor, goals: torch.Tensor) -> bool:
    try:
        samples.at_once(made, goals)
    except Exception:
        return False
    return True


def _check_alone(samples: PerSample, made: torch.Tensor, goals: torch.Tensor) -> None:
    """Raise if the model can't be run on a single synthetic sample."""
    try:
        samples.alone(made[0], goals[0])
    except TrainingError:
        raise
    except Exception as error:
        raise TrainingError(
            f"The model or its loss rejects a batch of one sample, which private training needs: {_text(error)}"
        ) from error


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error)[:300]}"


def check_fixed_sizes(samples: PerSample, data: torch.Tensor, target: torch.Tensor) -> None:
    """Raise TrainingError unless all sizes in one sample's gradient follow from its shape and dtype.

    A size that depends on values changes the duration and memory of a plan, which a client can observe: with
    `ones.repeat_interleave((x > 41).long() * 10**7)` the duration of a round reveals whether a row exists, despite the
    noise of the result. So the plans are run once on fake tensors, which have no values; plans for which that fails are
    refused.
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
