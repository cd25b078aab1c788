"""Engine: runs the rounds of a federated run. A round counts as a whole or not at all."""

from __future__ import annotations

import copy
import dataclasses
import logging
import os
import random
import time
from collections.abc import Sequence
from typing import Any

import torch

from syft.exceptions import FederatedError, SyftError
from syft.federated.history.records import History, RoundRecord
from syft.federated.history.round_outcome import MAX_REASON, RoundFailedError, RoundOutcome, error_text, shortened
from syft.federated.history.round_report import RoundReport, Stop, report_of
from syft.federated.server.aggregation import Aggregation
from syft.federated.server.checkpoint import Checkpoint, check_same, client_seed, run_identity
from syft.federated.server.client_sampling import ClientSampler
from syft.federated.server.dispatch import Dispatcher, Job
from syft.federated.server.local_privacy_tracker import LocalPrivacyTracker
from syft.federated.server.model import SharedModel
from syft.federated.server.observers import RunObservers
from syft.federated.server.settings import RunSettings
from syft.federated.server.traffic import Traffic
from syft.federated.strategies.strategy import Round, Strategy, Total
from syft.federated.validation import check_state

LOGGER = logging.getLogger(__name__)


class Engine:
    """The state of one run; see `run` for its arguments.

    Args:
        model: the shared model.
        clients: the clients by index.
        strategy: combines the results of the clients.
        settings: the settings of the run.
        aggregation: a function of the run's id that returns the aggregation.
        dispatcher: makes the calls.
        privacy: differential privacy for each client.
        local_privacy: differential privacy for each sample, applied by the clients.
        evaluate: a function of the model, or a local data set.
        checkpoint: stores the run.
        is_secure: whether the aggregation hides single results. A resumed run must use the same value.
    """

    def __init__(
        self,
        model: SharedModel,
        clients: Sequence[Any],
        strategy: Strategy,
        settings: RunSettings,
        aggregation: Any,
        dispatcher: Dispatcher,
        privacy: Any = None,
        local_privacy: Any = None,
        evaluate: Any = None,
        checkpoint: Checkpoint | None = None,
        is_secure: bool = False,
    ) -> None:
        # Copies: the objects may be used by other runs, which count separately.
        strategy, privacy, local_privacy = (copy.copy(part) for part in (strategy, privacy, local_privacy))
        self.model, self.clients, self.strategy, self.settings = model, clients, strategy, settings
        self.privacy, self.local_privacy, self.checkpoint = privacy, LocalPrivacyTracker(local_privacy), checkpoint
        self.dispatcher, self._evaluate, self._training = dispatcher, evaluate, settings.payload()
        self.history, self._traffic = History(), Traffic()
        self._sampler = ClientSampler(clients, settings, dispatcher, privacy)
        self._was_noise = False
        self._budget_errors: dict[str, str] = {}  # client -> its error text about a spent privacy budget
        self.ending: str | None = None
        self.run = os.urandom(16).hex()
        # Without a seed, a random one decides the order and choice of clients.
        self.seed = settings.seed if settings.seed is not None else int.from_bytes(os.urandom(7), "little")
        self.done = 0
        self._stop: Stop | None = None
        self._observers = RunObservers(False, False, (), None)
        strategy.load_state({})
        if privacy is not None:
            privacy.check(strategy)
            privacy.check_layout(model.layout)
            privacy.begin(len(clients), settings.rounds, settings.count(len(clients)) / len(clients))
        if local_privacy is not None:
            local_privacy.begin()
        self._is_secure = is_secure
        self._resume()
        self._complete = self.done, model.state  # the last complete round, and the model after it
        self.aggregation: Aggregation = aggregation(self.run)
        if privacy is not None and privacy.expected < self.aggregation.least > 1:
            raise FederatedError(
                f"A round has {privacy.expected:g} clients on average, drawn at random, but secure aggregation needs "
                f"{self.aggregation.least}. Use a larger clients_per_round, or a higher rate in UserPrivacy."
            )
        if privacy is not None:
            privacy.require(self.aggregation.least, self.aggregation.left)

    # --- the loop ---------------------------------------------------------------------------------------------

    def go(self, observers: RunObservers) -> None:
        """Run the remaining rounds. After an error of any kind, the state is that of the last complete round."""
        self._observers = observers
        try:
            while self.done < self.settings.rounds:
                self.ending = None if self.privacy is None else self.privacy.ending()
                report = self._complete_round(self.done + 1) if self.ending is None else None
                if report is None:
                    LOGGER.warning("The run ends after round %d: %s", self.done, self.ending)
                    break
                stop = observers.complete_round(report, self._budget_errors) or self._stop
                if stop is not None and report.may_stop:
                    self.ending = str(stop)
                    break
        except BaseException as error:
            self._restore()
            self.ending = str(error) if isinstance(error, FederatedError) else error_text(error)
            raise
        finally:
            observers.stop_progress()
            self.local_privacy.collect_reports(self.clients, self.run, self.dispatcher)

    def _restore(self) -> None:
        """Return to the state after the last complete round, wherever an interruption came."""
        self.done, state = self._complete
        if self.model.state is not state:
            self.model.load(state)
        self.history = self.history[: self.done]

    def _complete_round(self, number: int) -> RoundReport | None:
        """Run a round, with retries. A failed round changes nothing. Returns None if `ending` is set."""
        attempt = 0
        while True:
            attempt += 1
            try:
                return self._round(number, attempt)
            except RoundFailedError as error:
                self._record_budgets(error.answers)
                if self.local_privacy.privacy is not None:
                    self._save()  # the clients' privacy loss counts even if the round fails
                if attempt < self.settings.attempts and self._may_succeed(error):
                    LOGGER.warning("Round %d failed, attempt %d: %s", number, attempt, error)
                    continue
                self.ending = self._budget_ending()
                if self.ending is not None:
                    return None
                if self._counts_as_noise(error):
                    LOGGER.warning(
                        "All drawn clients were lost, so the round consists of noise: round %d, %s", number, error
                    )
                    return self._round(number, attempt, error.answers)
                times = "" if attempt == 1 else f" {attempt} times"
                kept = f" error.result has the model after round {self.done}." if self.done else ""
                again = "" if self.checkpoint is None else f" Run again to continue after round {self.done}."
                raise FederatedError(f"Round {number} failed{times}. {error}{kept}{again}") from None

    def _may_succeed(self, error: RoundFailedError) -> bool:
        """Return whether another attempt could succeed: clients were lost or late, or others would be chosen."""
        answers = error.answers
        asks_others = self.privacy is None and self.settings.count(len(self.clients)) < len(self.clients)
        return (
            answers is None or asks_others or self._sampler.is_short or bool(answers.lost or self.aggregation.left_out)
        )

    def _budget_ending(self) -> str | None:
        """Return why the run ends early, if too many privacy budgets are spent for a round to count."""
        left = len(self.clients) - len(self._budget_errors)
        if not self.done or not self._budget_errors or left >= max(self.settings.min_clients, self.aggregation.least):
            return None
        name, why = next(iter(self._budget_errors.items()))
        others = f" (and {len(self._budget_errors) - 1} more)" if len(self._budget_errors) > 1 else ""
        return f"the privacy budget is spent at client {name!r}{others}: {shortened(why, MAX_REASON)}"

    def _record_budgets(self, answers: RoundOutcome | None) -> None:
        if answers is not None:
            for name in answers.counted:
                self._budget_errors.pop(name, None)
            self._budget_errors.update(answers.budget_errors)

    def _counts_as_noise(self, error: RoundFailedError) -> bool:
        """Return whether a round counts as noise because all drawn clients were lost.

        The draw was random, so the round counts. Two such rounds in a row, or one with all clients, indicate another
        problem.
        """
        lost = error.answers
        return not (self.privacy is None or lost is None or lost.asked == len(self.clients) or self._was_noise)

    def _round(self, number: int, attempt: int, lost: RoundOutcome | None = None) -> RoundReport:
        """Run a round. With `lost`, the results of its last attempt, the round consists of noise."""
        began = time.monotonic()
        round = Round(number, len(self.clients), self.model.layout)
        if lost is None:
            self._traffic.begin()
            members = self._sampler.choose(number, attempt, self.seed, self.aggregation.least)
            answers = RoundOutcome(members)
            self._observers.begin_round(number, attempt, answers)
            total = self._collect(round, attempt, members, answers)
        else:
            answers, total = lost, self._released(None, lost)
            answers.refuse(dict.fromkeys(list(answers.counted), "too few others answered"))
        self._apply(total, round)
        self.strategy.counted(answers.counted, round)
        self._record_budgets(answers)
        self.done, self._sampler.drawn, self._was_noise = number, None, lost is not None
        record = self._record(number, answers, time.monotonic() - began)
        self.history.append(record)
        self._complete = number, self.model.state
        self._save()
        if self._evaluate is not None:  # user code: the round counts even if it fails
            try:
                record = dataclasses.replace(record, metrics=self.model.evaluate(self._evaluate))
            except Stop as stop:
                self._stop = stop
            self.history.replace_last(record)
            self._save()
        return report_of(record, self.settings.rounds, answers, self.epsilons)

    def _apply(self, total: Total, round: Round) -> None:
        """Compute the next model; nothing changes if it is invalid."""
        if not bool(torch.isfinite(total.update).all()):
            raise RoundFailedError("The sum of the clients' updates is not finite. Try a smaller learning rate.")
        before = copy.deepcopy(self.strategy.state())
        try:
            found: Any = self.strategy.apply(self.model.state, total, round)
            check_state(f"{self.strategy.name or type(self.strategy).__name__}.apply", found, self.model.state)
            self.model.load(found)
        except FederatedError as error:
            self.strategy.load_state(before)
            raise RoundFailedError(str(error)) from None

    def _collect(self, round: Round, attempt: int, members: dict[str, Any], answers: RoundOutcome) -> Total:
        """Call the clients and return the sum of their results."""
        if not members and self.privacy is not None:
            return self._released(None, answers if self._sampler.is_short else None)
        if not members:
            raise RoundFailedError("All clients are still busy with an earlier round.")
        try:
            added = self.aggregation.begin(round, members, self.strategy)
        except FederatedError as error:
            answers.leave_out(members, (), self.aggregation.left_out)
            raise RoundFailedError(str(error), answers) from None
        answers.leave_out(members, added, self.aggregation.left_out)
        self._train(round, attempt, {name: members[name] for name in added}, added, answers)
        if len(answers.counted) < self.settings.min_clients:
            needed = self.settings.min_clients
            raise RoundFailedError(
                f"{len(answers.counted)} of {len(members)} clients answered, but {needed} "
                f"{'is' if needed == 1 else 'are'} needed. {answers.first_reason()}", answers,
            )  # fmt: skip
        try:
            total = self.aggregation.finish(self.settings.min_clients)
        except FederatedError as error:
            # The error has the reasons of clients that the aggregation left out itself.
            reason = answers.first_reason(without=self.aggregation.left_out)
            raise RoundFailedError(f"{error} {reason}".rstrip(), answers) from None
        answers.refuse(self.aggregation.refused)
        return total if self.privacy is None else self._released(total, answers)

    def _released(self, total: Total | None, answers: RoundOutcome | None) -> Total:
        """Add noise to a sum; `answers` is None if the draw was too small to call any client."""
        drawn = 0 if self._sampler.drawn is None or answers is None else len(self._sampler.drawn[1])
        lost = 0.0 if answers is None or not drawn else 1 - len(answers.counted) / drawn
        found: Total = self.privacy.release(total, self.model.layout.size, lost)
        return found

    def _train(
        self,
        round: Round,
        attempt: int,
        members: dict[str, Any],
        added: dict[str, dict[str, Any]],
        answers: RoundOutcome,
    ) -> None:
        """Call the clients to train and collect their results. A client that lost its state is called once more."""
        waiting = list(members)
        self.local_privacy.expect_reports(members)
        if self.privacy is not None or self.local_privacy.privacy is not None:
            self._save()  # the drawn clients, in case the process dies here
        end = None if self.settings.round_timeout is None else time.monotonic() + self.settings.round_timeout
        for is_last in (False, True):
            jobs = [self._job(round, attempt, members[name], added[name]) for name in waiting]
            if end is not None:  # without shuffling, the same clients would always be late
                random.Random(f"{self.seed}:{round.number}:order").shuffle(jobs)  # noqa: S311  (hides nothing)
            again: list[str] = []
            pending = set(waiting)
            left = None if end is None else max(0.0, end - time.monotonic())
            for name, outcome in self._traffic.follow(jobs, self.dispatcher.run(jobs, left)):
                pending.discard(name)
                if isinstance(outcome, Exception) and not is_last and self.strategy.failed(name, outcome, round):
                    again.append(name)
                else:
                    self._receive(name, outcome, answers)
            for name in pending:
                self._drop(name, "it was too late", answers)
            waiting = again
            if not waiting:
                return

    def _job(self, round: Round, attempt: int, client: Any, added: dict[str, Any]) -> Job:
        modifiers = {**self.strategy.modifiers(round, client.name), **added}
        if self.privacy is not None:
            modifiers.update(self.privacy.modifiers())
        if self.local_privacy.privacy is not None:
            modifiers.update(self.local_privacy.privacy.modifiers(self.settings.rounds))
        payload = {
            "plan": self.model.plan,
            "loss": self.model.loss,
            "round": round.number,
            # A new one for each attempt: sums of two attempts with different clients must not share updates.
            "seed": client_seed(self.seed, round.number, attempt, client.name),
            "modifiers": modifiers,
            **self._training,
        }
        return Job(client, self.run, "train", payload)

    def _receive(self, name: str, outcome: Any, answers: RoundOutcome) -> None:
        if isinstance(outcome, Exception):
            self._drop(name, error_text(outcome), answers, outcome)
            return
        try:
            if self.privacy is not None:
                outcome = self.privacy.bound(outcome)
            self.local_privacy.record(name, outcome)
            self.aggregation.add(name, outcome)
            answers.count(name, outcome)
        except Exception as error:  # a result is untrusted
            self._drop(name, str(error) if isinstance(error, SyftError) else error_text(error), answers)

    def _drop(self, name: str, reason: str, answers: RoundOutcome, error: Exception | None = None) -> None:
        self.aggregation.drop(name)
        answers.fail(name, reason, error)

    # --- records and checkpoints ------------------------------------------------------------------------------

    def _record(self, number: int, answers: RoundOutcome, seconds: float) -> RoundRecord:
        ours, theirs = self._traffic, self.aggregation.traffic
        return RoundRecord(
            number=number,
            loss=self.aggregation.metrics.get("loss", answers.loss()),
            asked=answers.asked,
            answered=len(answers.counted),
            failed=len(answers.failed),
            reasons=list(answers.failed.items()),
            bytes_out=ours.out + theirs.out,
            bytes_in=ours.back + theirs.back,
            seconds=seconds,
            epsilon=next(iter(self.epsilons.values()), None),
            neighbours=next(iter(self.epsilons), None),
        )

    @property
    def epsilons(self) -> dict[str, float]:
        """The privacy loss of the run by neighbouring relation: clients first, then rows. They do not add up."""
        return {str(p.neighbours): p.epsilon for p in (self.privacy, self.local_privacy.privacy) if p is not None}

    def _identity(self) -> dict[str, Any]:
        privacies = {"privacy": self.privacy, "local_privacy": self.local_privacy.privacy}
        return run_identity(self.model, self.strategy, self.settings, self._is_secure, privacies)

    def _save(self) -> None:
        if self.checkpoint is None:
            return
        self.checkpoint.save(
            {
                "identity": self._identity(),
                "run": self.run,
                "seed": self.seed,
                "round": self.done,
                "state": self.model.state,
                "strategy": self.strategy.state(),
                "history": self.history.to_dict(),
                "privacy": None if self.privacy is None else self.privacy.state(),
                "local_privacy": self.local_privacy.state(),
                "drawn": self._sampler.drawn,
            }
        )

    def _resume(self) -> None:
        saved = None if self.checkpoint is None else self.checkpoint.load()
        if saved is None:
            return
        folder = self.checkpoint.folder if self.checkpoint else ""
        check_same(folder, self._identity(), saved["identity"])
        if self.settings.seed not in (None, saved["seed"]):
            raise FederatedError(
                f"The checkpoint in {folder} belongs to a run with another seed. "
                "Omit seed to continue it, or choose another folder."
            )
        self.run, self.seed, self.done = saved["run"], saved["seed"], saved["round"]
        self._sampler.drawn = None if saved["drawn"] is None else (saved["drawn"][0], list(saved["drawn"][1]))
        self.history = History.from_dict(saved["history"])
        self.model.load(saved["state"])
        self.strategy.load_state(saved["strategy"])
        if saved["privacy"] is not None:
            self.privacy.load_state(saved["privacy"])
        self.local_privacy.load_state(saved["local_privacy"])
