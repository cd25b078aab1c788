"""Encrypted learning: predictions, training and functions, against CrypTen in the same run where it is installed.

Models and data are both private. The step of training is one of SGD on the cross entropy, with private classes.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
from collections.abc import Iterator
from typing import Any

import torch

from benchmarks import mpc
from benchmarks.learn_rows import WORK, Lesson, inputs, model_of
from benchmarks.measure import Row
from benchmarks.mpc import Line, Site, measure, sites
from benchmarks.rival import crypten

# Those of the suite `mpc`, with the error beside what is sent, and one rival more.
COLUMNS = (*mpc.COLUMNS[:6], "error", *mpc.COLUMNS[6:-1], "elsewhere\n(SPU, TFE)")
FORM = {"base": 2, "precision_fractional": 16}


class Class(Site):
    """A site where models are shared too."""

    def share(self, work: Lesson) -> None:  # type: ignore[override]
        """Share the model and the data of a row, in place of the last ones."""
        model: Any = model_of(work)
        if model is not None:
            model.fix_precision(**FORM).share(self.alice, self.bob, crypto_provider=self.dealer)
        self.secrets = [
            *([] if model is None else [model]),
            *(
                plain.fix_prec(**FORM).share(self.alice, self.bob, crypto_provider=self.dealer)  # type: ignore[attr-defined]
                for plain in inputs(work)
            ),
        ]
        self.wait()

    def run(self, work: Lesson) -> float:  # type: ignore[override]
        """Run a row once; return the seconds."""
        with contextlib.nullcontext() if work.trains else torch.no_grad():
            return super().run(work)

    def check(self, work: Lesson) -> float:  # type: ignore[override]
        """Run a row once and compare its result with float64: how far it is off, for values up to one or of its size."""
        model = model_of(work)
        plain = [*([] if model is None else [copy.deepcopy(model).double()]), *(x.double() for x in inputs(work))]
        with contextlib.nullcontext() if work.trains else torch.no_grad():
            found = work.function(*self.secrets).get().float_prec().double()
            expected = work.function(*plain).detach()
        if found.shape != expected.shape:
            raise AssertionError(f"{work.name}: a wrong shape")
        return float(((found - expected).abs() / expected.abs().clamp(min=1)).max())


@dataclasses.dataclass(frozen=True)
class LessonLine(Line):
    """The measurements of one row."""

    @property
    def verdicts(self) -> list[Row]:
        """Everything that has a limit: rounds and time as in the suite `mpc`, and the error."""
        work: Any = self.work
        return [*super().verdicts, Row(f"{work.name}, error", self.error, work.error, "", "")]

    @property
    def cells(self) -> tuple[str, ...]:
        """The line of the table."""
        work: Any = self.work
        *first, times, ahead, ok, _ = super().cells
        others = ", ".join("-" if figure is None else f"{figure:g}" for figure in (work.spu, work.tfe))
        return *first, f"{self.error:.0e}", times, ahead, ok, f"{work.crypten:g} ({others})"


def rows() -> Iterator[Line]:
    """Every row."""
    with sites(Class) as ours, crypten() as rival:
        for work in WORK:
            yield measure(work, ours, rival, LessonLine)
