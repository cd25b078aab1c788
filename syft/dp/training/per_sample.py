"""Per-sample gradients for a model and a loss that are untrusted plans.

The gradient of a sample is that of the loss of a batch of one: model and loss run on this sample alone. So for any
plans it depends on no other sample, and clipping it bounds the influence of a sample.

Many such batches can run at once (`torch.func.vmap`), which is faster. But then rounding depends on their number, and
a plan can amplify rounding errors. So for untrusted plans they run one after the other, always in the same way; also
where torch can't vectorize them.

A sample whose run fails, or whose gradient is not finite, counts as zero: an error or a NaN would reveal it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import torch

from syft.core.generator import local
from syft.exceptions import TrainingError
from syft.federated.client.training_loop import loss_caller, one_number, output_of
from syft.messaging.plan.arguments import match
from syft.messaging.plan.checks import check
from syft.messaging.plan.executor import Compiled
from syft.messaging.plan.plan import Plan
from syft.messaging.plan.state import NOT_PARAMETERS

# Number of gradient values computed at once.
_AT_ONCE = 1 << 23
_MOST_ROWS = 1024
# Keeps a clipped gradient below its bound despite rounding.
_MARGIN = 1.0 - 2.0**-30

# torch warns for each operation that it runs row by row under vmap, which users can't act on.
_functorch: Any = torch._C._functorch
_functorch._set_vmap_fallback_warning_enabled(False)


class PureFunction:
    """A plan as a pure function of its arguments and its state."""

    def __init__(self, plan: Plan) -> None:
        program = plan.program
        if plan.optimizers:
            raise TrainingError(f"The plan {plan.name!r} has an optimizer. Private training needs a plan without one.")
        check(program)
        self.plan, self._arguments = plan, program.arguments
        self._run = Compiled(program).run
        self.state: list[torch.Tensor] = [_plain(p.child) for p in program.state]
        self.trained = [
            number
            for number, p in enumerate(program.state)
            if not p.tags & NOT_PARAMETERS and self.state[number].requires_grad
        ]

    def copies(self) -> list[torch.Tensor]:
        """Return copies of the state, which a run may change."""
        return [tensor.detach().clone() for tensor in self.state]

    def __call__(self, state: Sequence[torch.Tensor], *args: object) -> Any:
        """Run the plan with a state."""
        return self._run(match(self.plan.name, self._arguments, args, {}), list(state), [])


class PerSample:
    """Computes the gradients of single samples.

    Args:
        model: the model, a plan.
        loss_fn: its loss, a plan.
        apart: whether each sample is run by itself, so that not even rounding depends on the others.

    Attributes:
        parameters: the trained parameters, in the order of the gradients.
        is_vectorised: whether gradients of many samples are computed at once.
    """

    def __init__(self, model: Plan, loss_fn: Plan, apart: bool = False) -> None:
        self.model, self.loss = PureFunction(model), PureFunction(loss_fn)
        self.apart = apart
        self._ordered = loss_caller(loss_fn, lambda *args: args)  # output and target in the order of the loss
        self.parameters = [self.model.state[number] for number in self.model.trained]
        if not self.parameters:
            raise TrainingError("The model has no trainable parameters.")
        self.is_vectorised = not apart
        self.size = sum(parameter.numel() for parameter in self.parameters)
        self._rows = max(1, min(_MOST_ROWS, _AT_ONCE // max(1, self.size)))

    def loss_of(self, parameters: Sequence[torch.Tensor], rest: Any, data: torch.Tensor, target: Any) -> torch.Tensor:
        """Return the loss of one sample with given parameters.

        Args:
            parameters: the parameters.
            rest: copies of the state of the model and of the loss; trained parameters in them are not used.
            data: the sample.
            target: its target.
        """
        state = list(rest[0])
        for number, parameter in zip(self.model.trained, parameters, strict=True):
            state[number] = parameter
        output = output_of(self.model(state, data.unsqueeze(0)))
        return one_number(self.loss(rest[1], *self._ordered(output, target.unsqueeze(0))))

    def gradients(self, data: torch.Tensor, target: torch.Tensor) -> list[torch.Tensor]:
        """Return the gradients of some samples: for each parameter a tensor with a row for each sample."""
        if self.is_vectorised:
            # On any error, the samples that caused it are found one by one.
            with contextlib.suppress(Exception):
                return self.at_once(data, target)
        rows = [self._or_nothing(some, goal) for some, goal in zip(data, target, strict=True)]
        return [torch.stack(column) for column in zip(*rows, strict=True)]

    def at_once(self, data: torch.Tensor, target: torch.Tensor) -> list[torch.Tensor]:
        """Return the gradients of some samples, computed together."""
        reseed()
        rest = (self.model.copies(), self.loss.copies())
        one = torch.func.grad(lambda parameters, some, goal: self.loss_of(parameters, rest, some, goal))
        many = torch.func.vmap(one, in_dims=(None, 0, 0), randomness="different")
        # Copies: after a failure, the samples are run again one by one from the same state.
        given = [p.detach().clone() for p in self.parameters]
        found: list[torch.Tensor] = many(given, data.clone(), target.clone())
        return found

    def alone(self, data: torch.Tensor, target: torch.Tensor) -> list[torch.Tensor]:
        """Return the gradient of one sample."""
        reseed()
        rest = (self.model.copies(), self.loss.copies())
        leaves = [p.detach().clone().requires_grad_() for p in self.parameters]
        with torch.enable_grad():
            loss = self.loss_of(leaves, rest, data.clone(), target.clone())
            if not loss.requires_grad:
                return [torch.zeros_like(leaf) for leaf in leaves]
            found: Any = torch.autograd.grad(loss, leaves, allow_unused=True)
        return [torch.zeros_like(p) if g is None else g for p, g in zip(leaves, found, strict=True)]

    def _or_nothing(self, data: torch.Tensor, target: torch.Tensor) -> list[torch.Tensor]:
        try:
            return self.alone(data, target)
        except Exception:  # hidden, as it would reveal this sample
            return [torch.zeros_like(parameter) for parameter in self.parameters]

    def clipped_sum(self, data: torch.Tensor, target: torch.Tensor, bound: float) -> torch.Tensor:
        """Return the sum of the gradients of some samples, each clipped to the norm `bound`: flat, in float64."""
        total = torch.zeros(self.size, dtype=torch.float64)
        pieces = zip(torch.split(data, self._rows), torch.split(target, self._rows), strict=True)
        for some, goals in pieces:
            if len(some):
                total += clipped(self.gradients(some, goals), bound).sum(0).cpu()
        return total


def clipped(gradients: Sequence[torch.Tensor], bound: float) -> torch.Tensor:
    """Return gradients as one row for each sample, in float64, each clipped to the norm `bound`."""
    flat = torch.cat([g.detach().reshape(len(g), -1).to(torch.float64) for g in gradients], dim=1)
    norms = flat.norm(dim=1, keepdim=True)
    is_bad = ~torch.isfinite(norms)
    factors = (bound * _MARGIN / norms.clamp(min=torch.finfo(torch.float64).tiny)).clamp(max=1.0)
    return torch.where(is_bad, 0.0, flat * factors)


def reseed() -> None:
    """Set a secret seed of torch's generator, which dropout uses.

    The number of draws for one sample may depend on the sample; the draws for the next one must not.
    """
    torch.default_generator.manual_seed(int(local().words(1)[0]) & (2**63 - 1))


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        raise TrainingError(f"Private training needs plans that hold plain tensors, got a {type(tensor).__name__}.")
    found: torch.Tensor = tensor
    return found
