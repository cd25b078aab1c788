"""State: the tensors of a plan, such as the parameters of a model."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch

from syft.core.labels import printable
from syft.core.object import Bufferizable
from syft.exceptions import MalformedPlanError
from syft.hook.syft_tensor import SyftTensor
from syft.tensors.placeholder import PlaceHolder

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

STATE = "#state"
CAPTURED = "#captured"  # found while the plan was built, not declared by the user
FOLLOWED = "#followed"  # required a gradient before it was shared
NOT_PARAMETERS = frozenset({"#buffer", "#constant"})
KINDS = frozenset({STATE, CAPTURED, "#buffer", "#constant", "#parameter"})


class State(Bufferizable):
    """The tensors of a plan.

    Args:
        owner: the plan, or the worker that holds it.
        state_placeholders: placeholders, each with its tensor inside.
    """

    def __init__(
        self, owner: BaseWorker | None = None, state_placeholders: Iterable[PlaceHolder] | None = None
    ) -> None:
        self.owner = owner
        self.state_placeholders: list[PlaceHolder] = list(state_placeholders or ())

    def add(self, tensor: torch.Tensor, name: str | None = None, kind: str = STATE) -> None:
        """Add a tensor, unless it is there already."""
        if not any(placeholder.child is tensor for placeholder in self.state_placeholders):
            placeholder = PlaceHolder(tags={STATE, kind}, description=name, child=tensor)
            self.state_placeholders.append(placeholder)

    def remove(self, name: str) -> None:
        """Remove the tensors of an attribute."""
        self.state_placeholders = [
            p
            for p in self.state_placeholders
            if p.description != name and not (p.description or "").startswith(f"{name}.")
        ]

    def tensors(self) -> list[Any]:
        """Return all tensors."""
        return [placeholder.child for placeholder in self.state_placeholders]

    def parameters(self) -> list[Any]:
        """Return the tensors that training changes: no buffers, no constants found in the function."""
        return [p.child for p in self.state_placeholders if not p.tags & NOT_PARAMETERS]

    def state_dict(self) -> dict[str, Any]:
        """Return the tensors by their names; `state_<n>` where there is none."""
        return {p.description or f"state_{n}": p.child.detach() for n, p in enumerate(self.state_placeholders)}

    def fingerprint(self) -> tuple[Any, ...]:
        """Return a value that differs whenever a value of the state differs."""
        return tuple(fingerprint_of(tensor) for tensor in self.tensors())

    def copy(self) -> State:
        """Return a state with the same tensors in new placeholders."""
        return State(self.owner, [placeholder.copy() for placeholder in self.state_placeholders])

    def read(self) -> list[Any]:
        """Return the tensors, for use inside the function of the plan."""
        return [p.child for p in self.state_placeholders if CAPTURED not in p.tags]

    @staticmethod
    def create_grad_if_missing(tensor: torch.Tensor) -> None:
        """Give a parameter a gradient of zeros if it has none."""
        if isinstance(tensor, torch.nn.Parameter) and tensor.grad is None:
            tensor.grad = torch.zeros_like(tensor)

    def _replace(self, method: str, *args: object, **kwargs: object) -> None:
        """Replace each tensor by the result of a method of it: all of them, or none."""
        replaced = [getattr(tensor, method)(*args, **kwargs) for tensor in self.tensors()]
        for placeholder, tensor in zip(self.state_placeholders, replaced, strict=True):
            placeholder.child = tensor

    def fix_precision_(self, *args: object, **options: object) -> None:
        """Encode the tensors in fixed precision; the arguments are those of the tensor method."""
        self._replace("fix_precision", *args, **options)

    def float_precision_(self) -> None:
        """Decode the tensors."""
        self._replace("float_precision")

    def share_(self, *workers: object, **options: object) -> None:
        """Share the tensors among workers; autograd records them only with `requires_grad=True`."""
        self._replace("share", *workers, **options)
        if options.get("requires_grad"):
            return
        for placeholder in self.state_placeholders:
            tensor: Any = placeholder.child
            if isinstance(tensor, SyftTensor) and tensor.requires_grad:
                tensor.requires_grad_(False)
                placeholder.tags = placeholder.tags | {FOLLOWED}

    def get_(self) -> None:
        """Fetch the remote tensors."""
        for placeholder in self.state_placeholders:
            tensor: Any = placeholder.child
            if isinstance(tensor, SyftTensor):
                placeholder.child = tensor.get()  # type: ignore[attr-defined]
                if FOLLOWED in placeholder.tags:
                    placeholder.tags = placeholder.tags - {FOLLOWED}
                    placeholder.child.requires_grad_()

    def __repr__(self) -> str:
        rows = [
            f"\n  {printable(p.description or '')} {tuple(p.child.shape)} {p.child.dtype}".rstrip()
            for p in self.state_placeholders
        ]
        return f"State({len(rows)} tensors)" + "".join(rows)

    @staticmethod
    def simplify(worker: BaseWorker | None, state: State) -> tuple[Any, ...]:
        """Return, for each tensor, its name, its kinds and itself."""
        return tuple((p.description, tuple(sorted(p.tags & KINDS)), p.child) for p in state.state_placeholders)

    @staticmethod
    def detail(worker: BaseWorker | None, state_tuple: tuple[Any, ...]) -> State:
        """Rebuild a state."""
        return State(worker, [_entry(row) for row in state_tuple])


def fingerprint_of(tensor: torch.Tensor | None) -> tuple[Any, ...]:
    """Return a value that differs whenever a value of the tensor differs."""
    if not isinstance(tensor, torch.Tensor):
        return (tensor,)
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.layout is not torch.strided:
        return id(tensor), id(tensor.__dict__.get("child"))
    # Version counters would be faster, but writes through .data do not change them.
    flat = tensor.detach().cpu().contiguous().flatten().view(torch.uint8)
    content = (ctypes.c_char * flat.numel()).from_address(flat.data_ptr()) if flat.numel() else b""
    digest = hashlib.blake2b(content, digest_size=16).digest()
    return tensor.dtype, tuple(tensor.shape), tensor.requires_grad, digest


def _entry(row: Any) -> PlaceHolder:
    name, kinds, tensor = row
    if not isinstance(tensor, torch.Tensor) or tensor.device.type == "meta":
        raise MalformedPlanError(f"The state of a plan must be tensors, got a {type(tensor).__name__}.")
    if not (name is None or type(name) is str) or type(kinds) is not tuple or not KINDS.issuperset(kinds):
        raise MalformedPlanError("A tensor in the state of a plan has a name and kinds.")
    return PlaceHolder(tags={STATE, *kinds}, description=name, child=tensor)
