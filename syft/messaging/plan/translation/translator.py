"""What translators share: what is translated, with which examples, and the proof that the numbers are the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import torch

from syft.core.trees import map_tensors
from syft.exceptions import PlanTranslationError
from syft.messaging.plan.dry_run import ValueSpec, forms_of, with_other_sizes
from syft.messaging.plan.executor import Compiled
from syft.messaging.plan.translation.module import Functions, PlanModule, module_of, signature

if TYPE_CHECKING:
    from syft.messaging.plan.plan import Plan

SEED = 7


class PlanTranslator:
    """Translate a built plan.

    Args:
        plan: the plan.
        *examples: tensors like its inputs; needed only for a plan that was not built here. Of them, as of the
            examples that a plan is built with, only shapes and dtypes are used.
    """

    kind: ClassVar[str] = ""
    functions: ClassVar[Functions] = {}

    def __init__(self, plan: Plan, *examples: object) -> None:
        self.plan = plan
        self.forms: tuple[ValueSpec, ...] = forms_of(examples) or plan._forms
        self.signature = signature(plan.program)
        if len(self.forms) != len(plan.program.inputs):
            raise PlanTranslationError(
                f"To translate the plan {plan.name!r}, which was not built here, takes an example of each of its "
                f"{len(plan.program.inputs)} tensors: plan.add_translation({self.kind!r}, *examples)."
            )

    def translate(self) -> Any:
        """Return the translation, as torch's own type for it."""
        return self.read(self.to_bytes())

    def to_bytes(self) -> bytes:
        """Return the translation as the bytes of a file, after a check that it gives the plan's numbers."""
        module = module_of(self.plan.program, self.functions).eval()
        others = with_other_sizes(self.plan.program, self.forms)
        failure: PlanTranslationError | None = None
        # The more sizes an example has that the plan was not built with, the more of them stay open.
        for forms in dict.fromkeys([*others[-1:], *others[:1], self.forms]):
            try:
                data = self._translated(module, forms)
                self._check(data, self.forms, must_run=True)
            except PlanTranslationError as error:
                failure = error
                continue
            for other in others[-1:]:
                self._check(data, other, must_run=False)
            return data
        raise failure or PlanTranslationError(f"The plan {self.plan.name!r} can't be translated to {self.kind}.")

    def _translated(self, module: PlanModule, forms: tuple[ValueSpec, ...]) -> bytes:
        try:
            return self.write(module, *self.arguments(forms))
        except Exception as error:
            raise self._failure(error) from error

    def _failure(self, error: Exception) -> PlanTranslationError:
        # Some errors of torch show the values of tensors.
        reason = str(error).strip().split("\n")[0].split("tensor(")[0][:300]
        return PlanTranslationError(f"The plan {self.plan.name!r} can't be translated to {self.kind}: {reason}")

    def write(self, module: PlanModule, places: dict[str, Any], names: dict[str, Any]) -> bytes:
        """Translate a module and return the bytes of a file.

        Args:
            module: the module.
            places: arguments to give by position, with their names.
            names: arguments to give by name.
        """
        raise NotImplementedError(f"{type(self).__name__} must say how it writes a translation")

    @staticmethod
    def read(data: bytes) -> Any:
        """Load a translation: runs code of whoever made it."""
        raise NotImplementedError("a translator must say how its translation is read")

    @classmethod
    def load(cls, data: bytes) -> Any:
        """Load a translation as something to call: runs code of whoever made it."""
        return cls.read(data)

    # --- examples -------------------------------------------------------------------------------------------

    def inputs(self, forms: tuple[ValueSpec, ...]) -> list[torch.Tensor]:
        """Return made-up inputs: random numbers, and zeros for integers, which are often indices."""
        generator = torch.Generator().manual_seed(SEED)
        return [_made_up(form, generator) for form in forms]

    def arguments(self, forms: tuple[ValueSpec, ...]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return made-up arguments: those given by position, and those given by name."""
        inputs = iter(self.inputs(forms))
        named: dict[bool, dict[str, Any]] = {False: {}, True: {}}
        for name, parameter in self.signature.items():
            named[parameter.by_name][name] = map_tensors(lambda _: next(inputs), parameter.pattern)
        return named[False], named[True]

    def _expected(self, forms: tuple[ValueSpec, ...]) -> Any:
        """Run the plan itself, with each check it has, on copies of its state."""
        program = self.plan.program
        state = [_proxy(placeholder.child) for placeholder in program.state]
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(SEED)
            return Compiled(program).run(self.inputs(forms), state, ())

    def _check(self, data: bytes, forms: tuple[ValueSpec, ...], must_run: bool) -> None:
        """Compare a translation with the plan; one for other sizes may raise, but not give other numbers."""
        expected = self._expected(forms)
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(SEED)
            try:
                places, names = self.arguments(forms)
                found = self.load(data)(*places.values(), **names)
            except Exception as error:
                if must_run:
                    raise self._failure(error) from error
                return
        if not _same(found, expected):
            raise PlanTranslationError(
                f"The plan {self.plan.name!r}, translated to {self.kind}, gives other numbers than before. "
                "Try another kind of translation."
            )


def _made_up(form: ValueSpec, generator: torch.Generator) -> torch.Tensor:
    if form.dtype.is_floating_point or form.dtype.is_complex:
        values = torch.rand(form.shape, generator=generator).to(form.dtype)
        return values.requires_grad_(form.requires_grad)
    return torch.zeros(form.shape, dtype=form.dtype)


def _proxy(tensor: torch.Tensor) -> Any:
    proxy = tensor.detach().clone()
    return torch.nn.Parameter(proxy, tensor.requires_grad) if isinstance(tensor, torch.nn.Parameter) else proxy


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
