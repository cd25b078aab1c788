"""Translations stored in a plan: opaque bytes, loaded only by their author or a trusting worker."""

from __future__ import annotations

import dataclasses
from typing import Any

from syft._suggestions import one_of
from syft.exceptions import MalformedPlanError, SerdeError
from syft.messaging.plan.translation.export import PlanTranslatorExport
from syft.messaging.plan.translation.torchscript import PlanTranslatorTorchscript
from syft.messaging.plan.translation.translator import PlanTranslator, TranslationTarget

KINDS: dict[str, type[PlanTranslator]] = {cls.kind: cls for cls in (PlanTranslatorTorchscript, PlanTranslatorExport)}


def _translator_of(kind: object) -> Any:
    """Return a translator by its class, the name of its kind, or a member of TranslationTarget."""
    name = kind.value if isinstance(kind, TranslationTarget) else getattr(kind, "kind", kind)
    if type(name) is not str or name not in KINDS:
        raise ValueError(f"There is no translation {str(name)[:60]!r}. {one_of(name, KINDS)}")
    return KINDS[name]


@dataclasses.dataclass(slots=True)
class Translations:
    """Translations by kind, with a fingerprint of the state that they contain.

    A translation holds copies of the tensors of the state. It is stale once the state changes: its results would differ
    from those of the plan, and if the state was encoded or shared since, it would reveal the values. So a stale
    translation is neither returned nor sent.
    """

    data: dict[str, bytes] = dataclasses.field(default_factory=dict)  # the bytes of each
    own: set[str] = dataclasses.field(default_factory=set)  # the kinds that were made here, not received
    made_of: tuple[Any, ...] = ()  # a fingerprint of the tensors of the state

    def is_fresh(self, state: Any) -> bool:
        """Say whether the state has not changed since the translations were made."""
        return bool(self.made_of == state.fingerprint())

    def bind(self, state: Any) -> None:
        """Record the state that the translations contain."""
        self.made_of = state.fingerprint()

    def to_rows(self, state: object) -> tuple[tuple[str, bytes], ...]:
        """Return the translations that may be sent."""
        return tuple(self.data.items()) if self.data and self.is_fresh(state) else ()

    def copied(self, state: object) -> Translations:
        """Return the same translations for a plan whose state is a copy."""
        copied = Translations(dict(self.data), set(self.own))
        copied.bind(state)
        return copied


def from_rows(rows: object, state: object) -> Translations:
    """Read untrusted translations, without loading them."""
    if type(rows) is not tuple or len(rows) > len(KINDS):
        raise MalformedPlanError("The translations of a plan are a tuple, one of each kind.")
    found = Translations()
    for row in rows:
        if type(row) is not tuple or len(row) != 2 or type(row[0]) is not str or type(row[1]) is not bytes:
            raise MalformedPlanError("A translation of a plan is its kind and bytes.")
        if row[0] not in KINDS or row[0] in found.data:
            raise MalformedPlanError("A plan holds a translation of an unknown kind, or two of one kind.")
        found.data[row[0]] = row[1]
    if rows:
        found.bind(state)
    return found


class Translatable:
    """The methods of plans for translations."""

    state: Any
    name: str
    owner: Any
    pointers: dict[Any, Any]
    _translations: Translations

    @property
    def translations(self) -> dict[str, bytes]:
        """The translations by kind, as the bytes of a file; empty once the state has changed."""
        return dict(self._translations.to_rows(self.state))

    @property
    def torchscript(self) -> Any:
        """The translation to TorchScript, loaded; None without one: `plan.add_translation("torchscript")`."""
        kind = PlanTranslatorTorchscript.kind
        return self.get_translation(kind) if kind in self.translations else None

    def add_translation(self, kind: object, *examples: object) -> Any:
        """Translate the plan for workers without this library; returns the plan.

        The result is in `plan.translations`, is sent with the plan, and is discarded when its program or its state
        changes. It holds copies of the current state.

            >>> plan.add_translation("torchscript")                                          # doctest: +SKIP
            >>> pathlib.Path("plan.pt").write_bytes(plan.translations["torchscript"])        # doctest: +SKIP

        Plain torch then runs it with `torch.jit.load("plan.pt")(x)`, and one of kind "torch.export" with
        `torch.export.load("plan.pt2").module()(x)`. Arguments are the tensors of the plan's arguments, in order or
        by name; other arguments are part of the plan.

        Args:
            kind: "torchscript" or "torch.export", or the class of a translator.
            *examples: tensors to translate with; needed only for a plan that was not built here.
        """
        translator = _translator_of(kind)(self, *examples)
        data = translator.to_bytes()
        if not self._translations.is_fresh(self.state):
            self.__dict__["_translations"] = Translations()
        self._translations.data[translator.kind] = data
        self._translations.own.add(translator.kind)
        self._translations.bind(self.state)
        self.pointers = {}  # plans sent before lack it
        return self

    def remove_translation(self, kind: object = None) -> Any:
        """Remove a translation, or all of them; returns the plan.

        Args:
            kind: "torchscript" or "torch.export", or the class of a translator.
        """
        for name in list(KINDS) if kind is None else [_translator_of(kind).kind]:
            self._translations.data.pop(name, None)
            self._translations.own.discard(name)
        self.pointers = {}
        return self

    def get_translation(self, kind: object) -> Any:
        """Load a translation and return it: a callable with the results of the plan.

        Loading runs code of the author of the bytes: torch.jit.load reads a program with its own interpreter, and
        torch.export.load rebuilds Python objects of a graph and compiles it. So a received translation is loaded only
        at a worker that trusts all of its clients.

        Args:
            kind: "torchscript" or "torch.export", or the class of a translator.
        """
        translator = _translator_of(kind)
        name, stored = translator.kind, self._translations
        if name not in stored.data:
            raise KeyError(
                f"The plan {self.name!r} has no translation {name!r}. Make it: plan.add_translation({name!r})."
            )
        if not stored.is_fresh(self.state):
            raise KeyError(
                f"The state of the plan {self.name!r} has changed since it was translated. Translate it again: "
                f"plan.add_translation({name!r})."
            )
        if name not in stored.own and getattr(self.owner, "trusts_translations", False) is not True:
            raise SerdeError(
                f"The translation {name!r} of the plan {self.name!r} is code of its sender, which this worker does not "
                "accept. Set worker.trusts_translations = True if you trust everyone who can reach it, or make "
                f"your own translation: plan.add_translation({name!r}, *examples)."
            )
        return translator.load(stored.data[name])
