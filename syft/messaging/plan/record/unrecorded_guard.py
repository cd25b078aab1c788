"""UnrecordedGuard and optimizer_steps: detect computations that the function mode of a recording does not see."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from torch.utils._python_dispatch import TorchDispatchMode

from syft.core.trees import iter_tensors, map_tensors
from syft.messaging.plan.record.recording_state import current

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch

    from syft.messaging.plan.record.recording import Recorder


class UnrecordedGuard(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Refuse computations on recorded tensors that the function mode does not see."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.recorder = recorder

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Refuse a computation on recorded tensors."""
        if not self.recorder.running and any(map(self.recorder.is_traced, iter_tensors((args, kwargs or {})))):
            raise self.recorder._refuse(
                f"{func}, called without one of torch's Python functions,", "Use a torch call for it."
            )
        return func(*args, **(kwargs or {}))


@contextmanager
def optimizer_steps(recorder: Recorder) -> Iterator[None]:
    """Record each step of a torch optimizer as one operation: its Python code depends on its state."""
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    def before(optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if current() is recorder:
            if any(callable(arg) for arg in (*args, *kwargs.values()) if arg is not optimizer):
                raise recorder._refuse("A step with a closure", "Write forward and backward before optimizer.step().")
            recorder._require_settings()
            recorder.running += 1
            recorder.snapshot.save_optimizer(optimizer)
            for group in optimizer.param_groups:
                map_tensors(recorder._placeholder_of, group["params"])

    def after(optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if current() is recorder:
            recorder.running -= 1
            recorder.step(optimizer)
            if optimizer.state and optimizer not in recorder.stateful:
                recorder.stateful.append(optimizer)

    hooks = [register_optimizer_step_pre_hook(before), register_optimizer_step_post_hook(after)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
