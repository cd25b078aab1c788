"""PrivacyEngine: DP-SGD for a local module, with the API of Opacus and cryptographic randomness.

Opacus computes and clips per-sample gradients. Noise and batches always come from the cryptographic generator: they
would hide nothing from an attacker who can guess a seed.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader

from syft._suggestions import did_you_mean
from syft.display.facts import FactList, Shown
from syft.dp.accounting.accountant import Accountant, noise_for
from syft.dp.accounting.events import GaussianNoise, NonPrivate, PoissonSampled
from syft.dp.accounting.neighbours import Neighbours
from syft.dp.opacus_import import opacus
from syft.dp.training.group_norm import mixing_norms, without_batch_norm
from syft.exceptions import TrainingError

_KINDS = ("prv", "rdp")
_MODES = ("hooks", "functorch", "ew", "ghost")
# Unsupported options of Opacus -> their only value here, and why.
_FIXED: dict[str, tuple[Any, str]] = {
    "poisson_sampling": (True, "The privacy proof needs Poisson batches."),
    "rand_on_empty": (False, "A synthetic sample in an empty batch would double the sensitivity."),
    "noise_generator": (None, "Noise needs the cryptographic generator: torch's is repeatable."),
}
_DELTA = 1e-5
_MIXES = "batch norm ({}) makes the output for a sample depend on the others of its batch"
_ELSEWHERE = (
    " For differentially private training at workers, use sy.federated.run(..., "
    "local_privacy=sy.dp.SamplePrivacy(...)), or sy.TrainConfig(..., privacy=sy.dp.SamplePrivacy(...)) for one worker."
)
_EXPECTED = "Full backward hook is firing when gradients are computed with respect to module outputs"


class PrivacyEngine(Shown):
    """Makes a module, its optimizer and its data loader private, and tracks the privacy loss.

    Epsilon is for replacing one sample, as everywhere in this library; Opacus itself uses add/remove.

    Args:
        accountant: "prv" for the tightest bound, or "rdp", which is faster.
        secure_mode: accepted for compatibility with Opacus; it is always on.

    Example:
        >>> import torch, syft as sy
        >>> model = torch.nn.Linear(4, 2)
        >>> data = torch.utils.data.TensorDataset(torch.rand(64, 4), torch.randint(0, 2, (64,)))
        >>> loader = torch.utils.data.DataLoader(data, batch_size=16)
        >>> engine = sy.dp.PrivacyEngine(accountant="rdp")
        >>> model, optimizer, loader = engine.make_private(
        ...     module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), data_loader=loader,
        ...     noise_multiplier=1.0, max_grad_norm=1.0)
        >>> for samples, targets in loader:
        ...     optimizer.zero_grad()
        ...     torch.nn.functional.cross_entropy(model(samples), targets).backward()
        ...     optimizer.step()
        >>> engine.get_epsilon(delta=1e-3) < 8
        True
    """

    def __init__(self, *, accountant: str = "prv", secure_mode: bool = True) -> None:
        if accountant not in _KINDS:
            raise TrainingError(
                f"accountant must be 'prv' or 'rdp', got {accountant!r:.20}: others give an estimate, not a bound."
            )
        self._kind = accountant
        self._engine = opacus("syft.dp.training.opacus_secure").SecretEngine(accountant)
        self._delta = _DELTA
        self._last_epsilon = (0, 0.0)  # the last result of get_epsilon, and its number of steps

    def make_private(
        self,
        *,
        module: nn.Module,
        optimizer: object,
        data_loader: object,
        noise_multiplier: float,
        max_grad_norm: float | list[float],
        clipping: str = "flat",
        grad_sample_mode: str = "hooks",
        **options: object,
    ) -> tuple[Any, ...]:
        """Return the module, the optimizer and the data loader to train with instead of the given ones.

        Args:
            module: the module, in training mode; `fix` replaces layers that mix samples.
            optimizer: the optimizer of its parameters.
            data_loader: the data; batches are drawn at random, with the same size on average.
            noise_multiplier: the noise, in units of `max_grad_norm`.
            max_grad_norm: the clipping norm of a sample's gradient; a list for `clipping="per_layer"`.
            clipping: "flat", over all parameters together, or "per_layer".
            grad_sample_mode: the method for per-sample gradients: "hooks", "functorch", "ew" or "ghost". With "ghost" a
                criterion is returned too, before the data loader, which replaces the loss.
            **options: `batch_first`, `loss_reduction`, `criterion`, `wrap_model`, as in Opacus.
        """
        _check_local(module, data_loader)
        _check_options(clipping, grad_sample_mode, options)
        self.validate(module)
        noise = _number("noise_multiplier", noise_multiplier, 0.0)
        for norm in max_grad_norm if isinstance(max_grad_norm, list | tuple) else [max_grad_norm]:
            _number("max_grad_norm", norm, 1e-12)
        # Opacus registers hooks on the gradients of a module's outputs on purpose: the warning of torch is expected.
        warnings.filterwarnings("ignore", message=_EXPECTED, category=UserWarning)
        made: tuple[Any, ...] = self._engine.make_private(
            module=module,
            optimizer=optimizer,
            data_loader=data_loader,
            noise_multiplier=noise,
            max_grad_norm=max_grad_norm,
            clipping=clipping,
            grad_sample_mode=grad_sample_mode,
            **options,
        )
        return made

    def make_private_with_epsilon(
        self, *, target_epsilon: float, target_delta: float, epochs: int, data_loader: Any, **options: Any
    ) -> tuple[Any, ...]:
        """Find the noise with which the epochs cost at most `target_epsilon`, then call `make_private`.

        Args:
            target_epsilon: the epsilon after training.
            target_delta: its delta, well below one over the number of samples.
            epochs: number of planned epochs.
            data_loader: the data.
            **options: the other arguments of `make_private`.
        """
        if self.steps:
            raise TrainingError(
                "This engine has already spent privacy, which the noise would have to compensate. Make a new one, "
                "or use make_private(noise_multiplier=...)."
            )
        if type(epochs) is not int or epochs < 1:
            raise TrainingError(f"epochs must be an integer of at least 1, got {epochs!r:.20}.")
        _check_local(options.get("module"), data_loader)
        if not len(data_loader):
            raise TrainingError("The data loader has no batches to train on.")
        try:
            noise = _noise(self._kind, target_epsilon, target_delta, len(data_loader), epochs)
        except ValueError as error:
            raise TrainingError(str(error)) from None
        self._delta = float(target_delta)
        return self.make_private(data_loader=data_loader, noise_multiplier=noise, **options)

    # --- what it costs ----------------------------------------------------------------------------------------

    def get_epsilon(self, delta: float) -> float:
        """Return the privacy loss so far, for replacing one sample.

        Args:
            delta: the delta of that epsilon.
        """
        epsilon = self._spent(self._kind).epsilon(delta)
        self._delta, self._last_epsilon = float(delta), (self.steps, epsilon)
        return epsilon

    @property
    def steps(self) -> int:
        """The number of steps so far."""
        return sum(int(steps) for _, _, steps in self._engine.accountant.history)

    def _spent(self, kind: str) -> Accountant:
        spent = Accountant(kind)
        for noise, rate, steps in self._engine.accountant.history:
            if not noise:
                return Accountant("rdp").compose(NonPrivate())
            spent.compose(PoissonSampled(min(1.0, float(rate)), GaussianNoise(float(noise))), int(steps))
        return spent

    def state_dict(self) -> dict[str, Any]:
        """Return the privacy loss so far as plain values, for a checkpoint."""
        return {"accountant": self._kind, "history": [list(row) for row in self._engine.accountant.history]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the result of `state_dict`."""
        rows: Any = state.get("history")
        if not isinstance(rows, list) or any(not isinstance(row, list | tuple) or len(row) != 3 for row in rows):
            raise TrainingError("The state of a PrivacyEngine must be the result of state_dict().")
        try:
            history = [(float(noise), float(rate), int(steps)) for noise, rate, steps in rows]
            for noise, rate, steps in history:
                Accountant().compose(PoissonSampled(rate, GaussianNoise(noise)), steps)
        except (TypeError, ValueError) as error:
            raise TrainingError(f"The state of a PrivacyEngine is invalid: {error}") from None
        self._engine.accountant.history = history

    def _facts(self) -> FactList:
        return (("accountant", self._kind), ("steps", self.steps), ("spent", repr(self).rpartition("steps, ")[2][:-1]))

    def __repr__(self) -> str:
        steps, epsilon = self._last_epsilon
        if steps != self.steps:  # a quick bound, as a repr must be fast
            epsilon = self._spent("rdp").epsilon(self._delta)
        spent = f"epsilon <= {epsilon:.4g} at delta={self._delta:g} ({Neighbours.REPLACE_ROW})"
        return f"<PrivacyEngine, {self._kind}, {self.steps} steps, {spent}>"

    # --- modules ----------------------------------------------------------------------------------------------

    @staticmethod
    def validate(module: nn.Module, *, strict: bool = True) -> list[Exception]:
        """Raise if a module can't be trained sample by sample.

        Args:
            module: the module.
            strict: whether to raise; otherwise the reasons are returned.
        """
        validators = opacus("opacus.validators")
        norms = mixing_norms(module)
        errors: list[Exception] = [TrainingError(_MIXES.format(name or "the module itself")) for name in norms]
        # Opacus reports batch norm too, but not those without parameters.
        others = validators.ModuleValidator.validate(module, strict=False)
        errors += [error for error in others if not norms or "BatchNorm" not in str(error)]
        if strict and errors:
            reasons = "; ".join(str(error) for error in errors[:5])
            raise TrainingError(
                f"This module can't be trained with differential privacy: {reasons.rstrip('.')}. "
                "sy.dp.PrivacyEngine.fix(module) replaces unsupported layers where possible."
            )
        return errors

    @classmethod
    def is_compatible(cls, module: nn.Module) -> bool:
        """Return whether a module can be trained sample by sample."""
        return not cls.validate(module, strict=False)

    @classmethod
    def fix(cls, module: nn.Module) -> nn.Module:
        """Return a copy of a module in which layers that mix samples are replaced: batch norm by group norm.

        A group has several channels, so that it can normalise even with one value per channel. A batch norm of one or
        two features can't be replaced, and raises an error.

        Args:
            module: the module, which is not changed.
        """
        fixed: nn.Module = opacus("opacus.validators").ModuleValidator.fix(without_batch_norm(module))
        cls.validate(fixed)
        return fixed

    get_compatible_module = fix


def _noise(kind: str, target: float, delta: float, batches: int, epochs: int) -> float:
    """Return noise with which all epochs cost at most the target; at most half a percent above the minimum."""
    rate, steps = 1 / batches, epochs * batches
    enough = noise_for(target, delta, rate, steps)
    if kind == "rdp":
        return enough
    low, high = 0.5 * enough, enough
    while high - low > 0.005 * low:  # starts from the quick bound: a tight one is slow
        middle = 0.5 * (low + high) if low > 0.5 * enough else 0.9 * high
        cost = Accountant(kind).compose(PoissonSampled(rate, GaussianNoise(middle)), steps).epsilon(delta)
        low, high = (low, middle) if cost <= target else (middle, high)
    return high


def _check_options(clipping: str, mode: str, options: dict[str, Any]) -> None:
    """Reject options without a privacy proof, or that use another generator."""
    for name, (value, why) in _FIXED.items():
        if options.get(name, value) is not value:
            raise TrainingError(f"make_private does not support {name}={options[name]!r:.30}. {why}")
        options.pop(name, None)
    if clipping == "adaptive":
        raise TrainingError(
            "make_private does not support clipping='adaptive': it divides by the size of the drawn batch, which "
            "is a secret. Use 'flat' or 'per_layer'."
        )
    if mode not in _MODES:
        hint = did_you_mean(mode, _MODES)
        raise TrainingError(f"grad_sample_mode must be one of {', '.join(_MODES)}, got {mode!r:.30}.{hint}")


def _check_local(module: object, data_loader: object) -> None:
    """Reject remote modules and data, and say how to train them."""
    if not isinstance(module, nn.Module) or isinstance(module, torch.jit.ScriptModule):
        raise TrainingError(f"make_private needs a torch module, got a {type(module).__name__}.{_ELSEWHERE}")
    inside = (tensor.__dict__.get("child") for tensor in (*module.parameters(), *module.buffers()))
    wrapped = next((child for child in inside if child is not None), None)
    if wrapped is not None:
        raise TrainingError(
            f"The parameters of this module are remote: it holds a {type(wrapped).__name__}. PrivacyEngine trains "
            f"local modules; fetch it with model.get() first.{_ELSEWHERE}"
        )
    if not isinstance(data_loader, DataLoader):
        raise TrainingError(
            "make_private needs a torch.utils.data.DataLoader of local data, got a "
            f"{type(data_loader).__name__}.{_ELSEWHERE}"
        )


def _number(name: str, value: object, least: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= 1e6:
        raise TrainingError(f"{name} must be a number from {least:g} to 1e6, got {value!r:.30}.")
    return float(value)
