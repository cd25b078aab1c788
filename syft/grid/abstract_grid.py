"""AbstractGrid: search many workers, host models at some of them, and query the models."""

from __future__ import annotations

import abc
import logging
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from syft.core.callsite import warn_user
from syft.display import Found, FoundByWorker
from syft.exceptions import ModelError, ModelNotFoundError, SyftError, WorkerLostError
from syft.grid.parallel import TIMEOUT, ask_all
from syft.hosting import client
from syft.hosting.server import Facts
from syft.messaging.hosting import check_name
from syft.mpc.runtime.client import location_kind
from syft.mpc.serving.client import EncryptedDraft, ask_encrypted
from syft.mpc.serving.request_limits import DEFAULT_REQUESTS, check_limit

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

logger = logging.getLogger("syft.grid")
# Errors of unreachable workers.
UNREACHABLE_ERRORS = (WorkerLostError, OSError, TimeoutError)
# Two parties and a dealer.
MIN_PARTIES = 3
_choose = random.SystemRandom()
Hosts = list[tuple[Any, Facts]]
Failures = list[tuple[Any, Exception]]


class AbstractGrid(abc.ABC):
    """A grid of workers, which subclasses provide.

    An encrypted model takes SMPC_HOST_CHUNK workers, or three if there are no more: the last is the dealer, the others
    hold shares. Four workers are a dealer and three parties, any two of which together learn nothing.

    An unreachable worker is skipped with a warning, after at most `timeout` seconds.
    """

    SMPC_HOST_CHUNK = 4

    def __init__(self) -> None:
        self.timeout = TIMEOUT
        self._outstanding: Counter[Any] = Counter()
        self._asked: Counter[Any] = Counter()
        self._counting = threading.Lock()

    # --- provided by subclasses -----------------------------------------------------------------------------

    @abc.abstractmethod
    def search(self, *query: str) -> dict[Any, list[Any]]:
        """Return the matching objects of all workers: {worker id: pointers}, without workers that have none."""

    @abc.abstractmethod
    def _candidates(self, id: str, count: int, mpc: bool) -> list[Any]:
        """Return workers that could host a model, at least the wanted number if possible."""

    @abc.abstractmethod
    def _known_hosts(self, id: str, mpc: bool) -> list[Any]:
        """Return workers that may host a model: all its hosts, and possibly others."""

    @abc.abstractmethod
    def _worker(self, worker_id: object) -> Any:
        """Return a worker by its id, or raise."""

    # --- hosting --------------------------------------------------------------------------------------------

    def serve_model(
        self,
        model: object,
        id: str,
        mpc: bool = False,
        allow_remote_inference: bool = False,
        allow_download: bool = False,
        n_replica: int = 1,
        args_shape: Any = None,
        max_requests_per_user: int | None = DEFAULT_REQUESTS,
    ) -> None:
        """Host a model at random workers; an earlier one of this name is replaced.

        Args:
            model: a built plan, or a module.
            id: its name.
            mpc: encrypt it over several workers, none of which can read it.
            allow_remote_inference: whether others may run it.
            allow_download: whether others may download it; not with `mpc`.
            n_replica: the number of hosts; with `mpc`, the number of groups of workers.
            args_shape: the shapes of its inputs, for a module: [(1, 64)].
            max_requests_per_user: with `mpc`, the number of requests that each party answers to one user in a day;
                None: no limit.
        """
        id = check_name(str(id))
        if type(n_replica) is not int or n_replica < 1:
            raise ModelError(f"n_replica must be a whole number of at least 1, got {n_replica!r}.")
        if mpc and allow_download:
            raise ModelError("An encrypted model can't be downloaded: no worker has it. Pass allow_download=False.")
        if mpc:
            groups = self._groups(self._candidates(id, n_replica * self.SMPC_HOST_CHUNK, mpc), n_replica)
            check_limit(max_requests_per_user)
            self._remove(id)
            for group in groups:
                self._host_encrypted(group, model, id, allow_remote_inference, args_shape, max_requests_per_user)
            return
        candidates = self._candidates(id, n_replica, mpc)
        if n_replica > len(candidates):
            raise ModelError(f"{n_replica} replicas need {n_replica} workers; {len(candidates)} are available.")
        chosen = _choose.sample(candidates, n_replica)
        self._remove(id, keep=chosen)
        allowed = {"allow_download": allow_download, "allow_remote_inference": allow_remote_inference}
        self._host(chosen, id, lambda worker: client.host(worker, model, id, **allowed, args_shape=args_shape))

    def _groups(self, candidates: list[Any], count: int) -> list[list[Any]]:
        kinds: dict[str, list[Any]] = {}
        for worker in candidates:  # only workers of one kind can compute together
            kinds.setdefault(location_kind(worker), []).append(worker)
        candidates = max(kinds.values(), key=len, default=[])
        size = min(self.SMPC_HOST_CHUNK, len(candidates) // count)
        if size < MIN_PARTIES:
            raise ModelError(
                f"An encrypted model needs at least {MIN_PARTIES} workers of one kind, two that hold shares and a "
                f"dealer; got {len(candidates)} workers for {count} replicas."
            )
        mixed = _choose.sample(candidates, size * count)
        return [mixed[start : start + size] for start in range(0, len(mixed), size)]

    def _remove(self, id: str, keep: Sequence[Any] = ()) -> None:
        """Delete a model at its previous hosts, so that no old version is served."""
        before = [worker for mpc in (False, True) for worker, _ in self._found(id, mpc)[0]]
        _, failed = ask_all([w for w in before if w not in keep], lambda w: client.delete(w, id), self.timeout)
        if failed:
            worker, error = failed[0]
            raise ModelError(f"The model {id!r} at {worker.id!r} can't be replaced: {shorten(error)}") from error

    def _host(self, hosts: Sequence[Any], id: str, question: Callable[[Any], None]) -> None:
        """Host a model at all of these workers, or at none."""
        done, failed = ask_all(hosts, question, self.timeout)
        if failed:
            ask_all([worker for worker, _ in done], lambda worker: client.delete(worker, id), self.timeout)
            worker, error = failed[0]
            raise ModelError(f"The model {id!r} could not be hosted at {worker.id!r}: {shorten(error)}") from error

    def _host_encrypted(
        self, hosts: Sequence[Any], model: object, id: str, allowed: bool, args_shape: Any, limit: int | None
    ) -> None:
        """Host an encrypted model: the last worker is the dealer, the others hold shares."""
        draft = EncryptedDraft(model, id, hosts[:-1], hosts[-1], allowed, args_shape, limit)
        self._host(draft.holders, id, draft.host)

    # --- search ---------------------------------------------------------------------------------------------

    def query_model_hosts(self, id: str, mpc: bool = False, owner: str | None = None) -> Any:
        """Return the worker that hosts a model, or a tuple: its replicas, or its parties and the dealer.

        Args:
            id: the name of the model.
            mpc: look for an encrypted model.
            owner: the user who hosted it, if several users host a model with this name.
        """
        hosts = self._hosts(str(id), mpc, owner)
        if not mpc:
            return hosts[0][0] if len(hosts) == 1 else tuple(worker for worker, _ in hosts)
        group = complete_groups(hosts)[0]
        return (*[worker for worker, _ in group], self._worker(group[0][1]["provider"]))

    def _hosts(self, id: str, mpc: bool, owner: str | None = None) -> Hosts:
        """Return the hosts of a model with their descriptions of it; raise if there are none."""
        hosts, asked, failed = self._found(check_name(id), mpc)
        hosts = [(worker, facts) for worker, facts in hosts if owner is None or facts.get("owner") == owner]
        owners = sorted({str(facts["owner"]) for _, facts in hosts if facts.get("owner") is not None})
        if len(owners) > 1:  # one user may impersonate another
            raise ModelError(f"Several users host a model {id!r}. Pass owner=, one of {owners}.")
        if mpc and hosts and not complete_groups(hosts):
            raise ModelError(f"Some workers that hold shares of the model {id!r} are not available.")
        if hosts:
            return hosts
        self._report(failed, () if len(failed) == len(asked) else asked, "asked")
        kind = "encrypted model" if mpc else "model"
        raise ModelNotFoundError(f"No worker of this grid hosts the {kind} {id!r} for you: grid.serve_model(...).")

    def _found(self, id: str, mpc: bool) -> tuple[Hosts, list[Any], Failures]:
        """Query workers for a model; returns its hosts, the queried workers, and the failures."""
        asked = self._known_hosts(id, mpc)
        done, failed = ask_all(asked, lambda worker: _facts_at(worker, id), self.timeout)
        return [(w, facts) for w, facts in done if facts is not None and facts["mpc"] is mpc], asked, failed

    def _search(self, workers: Iterable[Any], query: tuple[Any, ...]) -> FoundByWorker:
        found, failed = ask_all(workers, lambda worker: worker.search(list(query)), self.timeout)
        self._report(failed, found, "searched")
        return found_by_worker(found, query)

    def _report(self, failed: Failures, done: Sequence[Any], what: str) -> None:
        """Warn of skipped workers; raise if none is left."""
        if failed and not done:
            worker, error = failed[0]
            reason = f"{worker.id!r}: {shorten(error)}"
            raise SyftError(f"None of {len(failed)} workers could be {what}. {reason}") from error
        for worker, error in failed:
            warn_user(f"Worker {worker.id!r} could not be {what}: {shorten(error)}")

    # --- inference ------------------------------------------------------------------------------------------

    def run_remote_inference(self, id: str, data: object, mpc: bool = False, owner: str | None = None) -> Any:
        """Run a hosted model, and return its result.

        Requests go to the replica with the fewest outstanding requests of this grid; an unreachable one is skipped.

        Args:
            id: the name of the model.
            data: a tensor, or a tuple of them.
            mpc: run an encrypted model: no worker learns the input or the result.
            owner: the user who hosted it, if several users host a model with this name.
        """
        hosts = self._hosts(str(id), mpc, owner)
        if not mpc:
            return self._ask_first(id, [worker for worker, _ in hosts], lambda w: client.query(w, str(id), data))
        groups = {group[0][0].id: group for group in complete_groups(hosts)}

        def ask(leader: BaseWorker) -> Any:
            group = groups[leader.id]
            provider = self._worker(group[0][1]["provider"])
            return ask_encrypted([w for w, _ in group], provider, [facts for _, facts in group], data)

        return self._ask_first(id, [group[0][0] for group in groups.values()], ask)

    def _ask_first(self, id: str, hosts: Sequence[Any], question: Callable[[Any], Any]) -> Any:
        """Send a request to the least busy of several workers; on a failure to the next, each at most once."""
        missing: Failures = []
        for worker in self._by_load(hosts):
            with self._counting:
                self._outstanding[worker.id] += 1
                self._asked[worker.id] += 1
            try:
                return question(worker)
            except (*UNREACHABLE_ERRORS, ModelNotFoundError) as error:
                logger.info("Replica %r of model %r was skipped: %s", worker.id, id, type(error).__name__)
                missing.append((worker, error))
            finally:
                with self._counting:
                    self._outstanding[worker.id] -= 1
        reasons = "; ".join(f"{worker.id!r}: {shorten(error)}" for worker, error in missing)
        raise ModelError(f"No host of the model {id!r} answers. {reasons}")

    def _by_load(self, hosts: Sequence[Any]) -> list[Any]:
        """Return workers by outstanding requests, then by total requests, the least first."""
        with self._counting:
            return sorted(hosts, key=lambda worker: (self._outstanding[worker.id], self._asked[worker.id]))


def _facts_at(worker: BaseWorker, id: str) -> Facts | None:
    try:
        return client.facts_at(worker, id)[0]
    except ModelNotFoundError:
        return None


def complete_groups(hosts: Hosts) -> list[Hosts]:
    """Return the groups of workers that hold all shares of a model, each in party order."""
    by_version: dict[Any, dict[Any, tuple[Any, Facts]]] = {}
    for worker, facts in hosts:
        by_version.setdefault(facts.get("version"), {})[worker.id] = (worker, facts)
    groups = []
    for found in by_version.values():
        parties = next(iter(found.values()))[1].get("parties")
        if type(parties) is tuple and all(party in found for party in parties):
            groups.append([found[party] for party in parties])
    return groups


def shorten(error: Exception) -> str:
    """Return the first line of an error."""
    return (str(error) or type(error).__name__).splitlines()[0][:500]


def found_by_worker(done: Iterable[tuple[Any, list[Any]]], query: tuple[Any, ...]) -> FoundByWorker:
    """Return the matches of several workers by the id of the worker, and their suggestions if there is no match."""
    searched = list(done)
    hits = {worker.id: pointers for worker, pointers in searched if pointers}
    hints = dict.fromkeys(pointers.hint for _, pointers in searched if isinstance(pointers, Found))
    return FoundByWorker(hits, query, "" if hits else " ".join(filter(None, hints)))
