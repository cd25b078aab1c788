"""Result: the model and the history of a run."""

from __future__ import annotations

import dataclasses
from typing import Any

from syft.display.facts import FactList, Shown
from syft.federated.history.page import RunView, save_page
from syft.federated.history.records import History
from syft.federated.history.round_outcome import shortened
from syft.federated.live.run_page import RunPage

# Maximum length of the reason of an early end in a repr.
_SHOWN = 160


@dataclasses.dataclass(frozen=True, slots=True)
class Result(Shown):
    """The result of a run.

    Attributes:
        model: the trained model, a module or a plan like the one given.
        history: the records of the rounds.
        rounds: number of completed rounds.
        epsilon: the privacy loss of the run: for clients with `privacy`, for rows with `local_privacy` alone;
            None with neither.
        ending: why the run ended before its last round; None if it was completed.
        epsilons: the same by neighbouring relation: "add/remove one client", "replace-one row". They do not add up.
        page: the live page of a run with `watch=True`, which has a `url`; None otherwise.
    """

    model: Any
    history: History
    rounds: int
    epsilon: float | None = None
    ending: str | None = None
    epsilons: dict[str, float] = dataclasses.field(default_factory=dict)
    page: RunPage | None = dataclasses.field(default=None, repr=False, compare=False)
    _view: RunView | None = dataclasses.field(default=None, repr=False, compare=False)

    def save_page(self, path: Any) -> None:
        """Write the page of the run to one .html file, which shows without a network or JavaScript."""
        save_page(path, self.history, self._view or RunView(ending=self.ending, epsilons=self.epsilons))

    def close(self) -> None:
        """Stop serving the live page, if there is one."""
        if self.page is not None:
            self.page.close()

    def __enter__(self) -> Result:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _title(self) -> str:
        return f"Result of {self.rounds} round{'s'[: self.rounds != 1]}"

    def _facts(self) -> FactList:
        yield "model", type(self.model).__name__
        yield from ((f"epsilon ({unit})", spent) for unit, spent in self.epsilons.items())
        yield "ended early", self.ending
        yield "live page", None if self.page is None else self.page.url

    def _repr_html_(self) -> str:
        return f"<div>{Shown._repr_html_(self)}{self.history._repr_html_()}</div>"

    def __repr__(self) -> str:
        spent = "".join(f", epsilon {spent:.3g} ({unit})" for unit, spent in self.epsilons.items())
        early = "" if self.ending is None else f" ({shortened(self.ending, _SHOWN)})"
        return f"<Result of {self.rounds} round{'s'[: self.rounds != 1]}{early}{spent}: {self.history!r}>"
