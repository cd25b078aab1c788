"""State: the tensors of a plan, such as the parameters of a model."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch

from syft.core.labels import printable
from syft.core.object import Bufferizable
from syft.exceptions import MalformedPlanError, SyftError
from syft.hook.guards import is_quantized
from syft.hook.syft_tensor import SyftTensor
from syft.messaging.plan.in_place import become, converted
from syft.tensors.placeholder import PlaceHolder

if TYPE_CHECKING:
    from syft.messaging.plan.record.module_binding import ModuleBinding
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
        # Where modules hold these tensors; set when the plan is built.
        self.binding: ModuleBinding | None = None
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

    def _convert(self, chosen: list[PlaceHolder], method: str, *args: object, **kwargs: object) -> None:
        """Let tensors become the results of one of their methods, in place: all of them, or none."""
        made = [(p, converted(p.child, method, args, kwargs)) for p in chosen]
        become(made, self.binding)

    def fix_precision_(self, *args: object, **options: object) -> None:
        """Encode the tensors in fixed precision, in place; the arguments are those of the tensor method."""
        self._convert([p for p in self.state_placeholders if not _is_counter(p)], "fix_precision", *args, **options)

    def float_precision_(self) -> None:
        """Decode the encoded tensors, in place."""
        encoded = [p for p in self.state_placeholders if isinstance(p.child, SyftTensor)]
        if self.state_placeholders and not encoded:
            raise SyftError("The state of this plan is not encoded, so there is nothing to decode.")
        self._convert(encoded, "float_precision")
        self._follow_again(encoded)

    def share_(self, *workers: object, **options: object) -> None:
        """Share the tensors among workers, in place; autograd records them only with `requires_grad=True`."""
        chosen = [p for p in self.state_placeholders if not _is_counter(p)]
        self._convert(chosen, "share", *workers, **options)
        if options.get("requires_grad"):
            return
        for placeholder in chosen:
            tensor: Any = placeholder.child
            if isinstance(tensor, SyftTensor) and tensor.requires_grad:
                tensor.requires_grad_(False)
                placeholder.tags = placeholder.tags | {FOLLOWED}

    def get_(self) -> None:
        """Fetch the remote tensors, in place."""
        for placeholder in [p for p in self.state_placeholders if isinstance(p.child, SyftTensor)]:
            # One by one: what is fetched is gone from its workers.
            self._convert([placeholder], "get")
            self._follow_again([placeholder])

    @staticmethod
    def _follow_again(placeholders: list[PlaceHolder]) -> None:
        """Let the tensors require gradients that did so before they were shared."""
        for placeholder in placeholders:
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
        return _Identity(tensor), _Identity(tensor.__dict__.get("child"))
    # Version counters would be faster, but writes through .data do not change them.
    flat = tensor.detach().cpu().contiguous().flatten().view(torch.uint8)
    content = (ctypes.c_char * flat.numel()).from_address(flat.data_ptr()) if flat.numel() else b""
    digest = hashlib.blake2b(content, digest_size=16).digest()
    return tensor.dtype, tuple(tensor.shape), tensor.requires_grad, digest


class _Identity:
    """Compares as an object does by `is`; holds it, because the id() of a deleted object is used again."""

    def __init__(self, held: object) -> None:
        self.held = held

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and self.held is other.held

    def __hash__(self) -> int:
        return id(self.held)


def _is_counter(placeholder: PlaceHolder) -> bool:
    """Say whether a tensor is a buffer of integers, such as the number of batches that a layer has seen."""
    tensor: Any = placeholder.child
    return "#buffer" in placeholder.tags and not isinstance(tensor, SyftTensor) and not tensor.is_floating_point()


def _entry(row: Any) -> PlaceHolder:
    name, kinds, tensor = row
    if not isinstance(tensor, torch.Tensor) or tensor.device.type == "meta":
        raise MalformedPlanError(f"The state of a plan must be tensors, got a {type(tensor).__name__}.")
    if is_quantized(tensor):
        raise MalformedPlanError("The state of a plan can't be quantized. Use x.dequantize().")
    if not (name is None or type(name) is str) or type(kinds) is not tuple or not KINDS.issuperset(kinds):
        raise MalformedPlanError("A tensor in the state of a plan has a name and kinds.")
    return PlaceHolder(tags={STATE, *kinds}, description=name, child=tensor)
