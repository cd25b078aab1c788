"""Recording an encrypted model as a program, with a shared tensor that has a shape and no values."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from syft.core.id_provider import ObjectId
from syft.core.trees import iter_tensors
from syft.exceptions import SyftError, UnsupportedOperationError
from syft.hook import modules
from syft.messaging.plan import Plan
from syft.mpc.program.compile import Assembled, Part
from syft.mpc.program.inputs import link_of, sharing_of
from syft.mpc.runtime import client
from syft.mpc.runtime.recording import ShareRecording, Value, outline, value_of
from syft.mpc.serving.server import ModelParts
from syft.mpc.serving.tensor_encoding import Encodings, Shape, TensorEncoding, write_rows
from syft.pointers.object_pointer import ObjectPointer
from syft.tensors.additive_shared import AdditiveSharingTensor
from syft.tensors.precision import FixedPrecisionTensor

Model = torch.nn.Module | Plan
InputShape = Sequence[int] | Sequence[Sequence[int]]
# Computes the result that clients get from the model's output, on shares as well.
Answer = Callable[[Any], Any]


@dataclasses.dataclass(frozen=True, slots=True)
class RecordedModel:
    """A model as a program, with the values that stand for the inputs, and a shared tensor of its parties."""

    shared: AdditiveSharingTensor
    part: Part
    values: list[Value]
    inputs: Encodings
    outputs: Encodings

    def parts_of(
        self,
        party: ObjectId,
        resolve: Callable[[ObjectPointer], object],
        provider: ObjectId,
        version: str,
        keys: tuple[str, ...] = (),
        max_requests_per_user: int | None = None,
    ) -> ModelParts:
        """Return the part of a party; `resolve` returns the field for a pointer to one of the party's shares."""
        given = [self._given_at(party, item) for item in self.part.args]
        resolved = tuple([resolve(item) if isinstance(item, ObjectPointer) else item for item in given])
        options, encodings = self.part.options, (write_rows(self.inputs), write_rows(self.outputs))
        program = options["steps"], options["outputs"], resolved, tuple(self.shared.child), provider
        return ModelParts(*program, *encodings, version, keys, max_requests_per_user)

    def _given_at(self, party: ObjectId, item: object) -> object:
        """Return a first value of the program at a party: the index of an input, a pointer, or a plain tensor."""
        if type(item) is not Value or item.shares is None:
            return item
        stands_for = value_of(item.shares)
        return item.shares[party] if stands_for is None else self.values.index(stands_for)


def record_model(model: Model, in_shape: InputShape, answer: Answer | None = None) -> RecordedModel:
    """Record the program that the parties of an encrypted model run; arguments as `serve`. Nothing is sent."""
    template = _shared_parameter(model)
    shapes = _shapes_of(in_shape)
    inputs = tuple([TensorEncoding(shape, template.scale, template.field) for shape in shapes])
    values = [Value(torch.Size(shape)) for shape in shapes]
    with _evaluating(model), ShareRecording() as recording, torch.no_grad():
        result = model(*[template.like(outline(value, template.child)).wrap() for value in values])
        links = [link_of(leaf) for leaf in iter_tensors(result if answer is None else answer(result))]
        sharings = [sharing_of(link) for link in links]
        if not links or None in sharings:
            raise SyftError("A served model returns a shared tensor, or a tuple of them.")
        # Fresh shares reveal nothing but the result to the client that adds them up.
        outputs = [recording.value(client.run("refresh", sharing)) for sharing in sharings]
    if recording.writes:
        raise SyftError("This model changes its own tensors when it runs, so it can't be served.")
    part, *others = Assembled(recording, outputs).parts
    if others:
        raise UnsupportedOperationError("serve", "parties that need a helper", "Share with protocol='beaver' or 'fss'.")
    return RecordedModel(template.child, part, values, inputs, tuple(map(_encoding_of, links)))


def _shared_parameter(model: Model) -> FixedPrecisionTensor:
    """Return a shared parameter of a model: it has the model's encoding and parties."""
    if not isinstance(model, torch.nn.Module | Plan):
        raise SyftError(f"serve() takes an encrypted module or plan, not a {type(model).__name__}.")
    for tensor in modules.tensors_of(model) if isinstance(model, torch.nn.Module) else model.state.tensors():
        link = link_of(tensor)
        if isinstance(link, FixedPrecisionTensor) and link.is_shared:
            return link
    raise SyftError(
        "Only encrypted models are served. Encrypt it first: "
        "model.fix_precision().share(alice, bob, crypto_provider=carol)."
    )


def _shapes_of(in_shape: InputShape) -> list[Shape]:
    several = isinstance(in_shape, list) and in_shape and isinstance(in_shape[0], tuple | list)
    rows: Any = in_shape if several else [in_shape]
    shapes: list[Shape] = [tuple(shape) for shape in rows]
    if not all(type(size) is int and size >= 0 for shape in shapes for size in shape):
        raise SyftError(f"in_shape must be the shape of one request, as (1, 64), or a list of shapes, got {in_shape}.")
    return shapes


@contextmanager
def _evaluating(model: Model) -> Iterator[None]:
    """Put a module in evaluation mode, and restore the mode of each submodule afterwards; a plan has none."""
    before = [(part, part.training) for part in model.modules()] if isinstance(model, torch.nn.Module) else []
    for part, _ in before:
        part.training = False
    try:
        yield
    finally:
        for part, training in before:
            part.training = training


def _encoding_of(link: Any) -> TensorEncoding:
    if isinstance(link, FixedPrecisionTensor):
        dtype = str(link.decodes_to).removeprefix("torch.")
        return TensorEncoding(tuple(link.shape), link.scale, link.field, dtype=dtype)
    return TensorEncoding(tuple(link.shape), 1, 2**62, is_integer=True)
