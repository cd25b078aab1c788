"""PlanTranslator: base of translators; makes examples and checks that the results are those of the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import torch

from syft.core.references import TensorMeta
from syft.core.trees import map_tensors
from syft.exceptions import PlanTranslationError
from syft.messaging.plan.arguments import example_of
from syft.messaging.plan.executor import Compiled
from syft.messaging.plan.interpreter import Specs, specs_of, with_other_sizes
from syft.messaging.plan.translation.module import Functions, PlanModule, module_of, signature

if TYPE_CHECKING:
    from syft.messaging.plan.plan import Plan

SEED = 7


class PlanTranslator:
    """Translate a built plan.

    Args:
        plan: the plan.
        *examples: tensors like its inputs; needed only for a plan that was not built here. Only
            their shapes and dtypes are used.
    """

    kind: ClassVar[str] = ""
    functions: ClassVar[Functions] = {}

    def __init__(self, plan: Plan, *examples: object) -> None:
        self.plan = plan
        self.specs: Specs = specs_of(examples) or plan._input_specs
        self.signature = signature(plan.program)
        if len(self.specs) != len(plan.program.inputs):
            raise PlanTranslationError(
                f"The plan {plan.name!r} was not built here. To translate it, pass an example of each of its "
                f"{len(plan.program.inputs)} tensors: plan.add_translation({self.kind!r}, *examples)."
            )

    def translate(self) -> Any:
        """Return the translation, as torch's own type for it."""
        return self.read(self.to_bytes())

    def to_bytes(self) -> bytes:
        """Return the translation as the bytes of a file, after a check that its results are those of the plan."""
        module = module_of(self.plan.program, self.functions).eval()
        others = with_other_sizes(self.plan.program, self.specs)
        failure: PlanTranslationError | None = None
        # Examples with other sizes than the plan was built with keep more sizes dynamic.
        for specs in dict.fromkeys([*others[-1:], *others[:1], self.specs]):
            try:
                data = self._translated(module, specs)
                self._check(data, self.specs, must_run=True)
            except PlanTranslationError as error:
                failure = error
                continue
            for other in others[-1:]:
                self._check(data, other, must_run=False)
            return data
        raise failure or PlanTranslationError(f"The plan {self.plan.name!r} can't be translated to {self.kind}.")

    def _translated(self, module: PlanModule, specs: Specs) -> bytes:
        try:
            return self.write(module, *self.arguments(specs))
        except Exception as error:
            raise self._failure(error) from error

    def _failure(self, error: Exception) -> PlanTranslationError:
        # Some errors of torch show the values of tensors.
        reason = str(error).strip().split("\n")[0].split("tensor(")[0][:300]
        return PlanTranslationError(f"The plan {self.plan.name!r} can't be translated to {self.kind}: {reason}")

    def write(self, module: PlanModule, positional: dict[str, Any], named: dict[str, Any]) -> bytes:
        """Translate a module and return the bytes of a file."""
        raise NotImplementedError(f"{type(self).__name__} must implement write()")

    @staticmethod
    def read(data: bytes) -> Any:
        """Load a translation: runs code of its author."""
        raise NotImplementedError("a translator must implement read()")

    @classmethod
    def load(cls, data: bytes) -> Any:
        """Load a translation as a callable: runs code of its author."""
        return cls.read(data)

    # --- examples -------------------------------------------------------------------------------------------

    def inputs(self, specs: Specs) -> list[torch.Tensor]:
        """Return generated inputs: random numbers, and zeros for integers, which are often indices."""
        generator = torch.Generator().manual_seed(SEED)
        return [_generated(spec, generator) for spec in specs]

    def arguments(self, specs: Specs) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return generated arguments: positional ones, and named ones."""
        inputs = iter(self.inputs(specs))
        named: dict[bool, dict[str, Any]] = {False: {}, True: {}}
        for name, parameter in self.signature.items():
            named[parameter.by_name][name] = map_tensors(lambda _: next(inputs), parameter.pattern)
        return named[False], named[True]

    def _expected(self, specs: Specs) -> Any:
        """Run the plan itself on copies of its state."""
        program = self.plan.program
        state = [example_of(placeholder.child) for placeholder in program.state]
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(SEED)
            return Compiled(program).run(self.inputs(specs), state, ())

    def _check(self, data: bytes, specs: Specs, must_run: bool) -> None:
        """Compare a translation with the plan; one for other sizes may raise, but not differ."""
        expected = self._expected(specs)
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(SEED)
            try:
                positional, named = self.arguments(specs)
                found = self.load(data)(*positional.values(), **named)
            except Exception as error:
                if must_run:
                    raise self._failure(error) from error
                return
        if not _same(found, expected):
            raise PlanTranslationError(
                f"The plan {self.plan.name!r}, translated to {self.kind}, has other results than the plan. "
                "Try another kind of translation."
            )


def _generated(spec: TensorMeta, generator: torch.Generator) -> torch.Tensor:
    if spec.dtype.is_floating_point or spec.dtype.is_complex:
        values = torch.rand(spec.shape, generator=generator).to(spec.dtype)
        return values.requires_grad_(spec.requires_grad)
    return torch.zeros(spec.shape, dtype=spec.dtype)


def _same(found: Any, expected: Any) -> bool:
    """Say whether results are the same; a size among them may have become a tensor."""
    if isinstance(expected, tuple | list):
        return len(found) == len(expected) and all(map(_same, found, expected))
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(_same(found[key], expected[key]) for key in expected)
    if not isinstance(expected, torch.Tensor):
        return bool(found == expected)
    return (
        isinstance(found, torch.Tensor)
        and found.shape == expected.shape
        and found.dtype is expected.dtype
        and torch.allclose(found, expected, rtol=1e-5, atol=1e-6, equal_nan=True)
    )
