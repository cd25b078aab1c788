"""Bad input gives one clear error, and the parties continue."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch

from syft.core.id_provider import ID_PROVIDER
from syft.core.references import Ref
from syft.exceptions import (
    GetNotPermittedError,
    ObjectNotFoundError,
    ProtocolError,
    SpentPointerError,
    SyftError,
    TensorsNotCollocatedError,
    UnsupportedOperationError,
)
from syft.messaging.message import RunMessage
from syft.mpc.runtime import client, rendezvous
from syft.workers.access.policy import DenyAll

X = torch.tensor([1.5, -2.0, 3.25])


@pytest.fixture
def trio(make_worker: Any, kind: str) -> list[Any]:
    """Two parties and a dealer, reached in each of the three ways."""
    return [make_worker(name, kind) for name in ("alice", "bob", "dealer")]


def shared(workers: list[Any], x: torch.Tensor = X, **options: Any) -> Any:
    alice, bob, dealer = workers
    return x.fix_precision().share(alice, bob, crypto_provider=dealer, **options)


def still_works(workers: list[Any]) -> None:
    x = shared(workers)
    assert torch.allclose((x * x).get().float_precision(), X * X, atol=2e-3)


def test_a_lone_party(trio: list[Any]) -> None:
    with pytest.raises(SyftError, match="two"):
        X.fix_precision().share(trio[0], crypto_provider=trio[2])
    with pytest.raises(SyftError, match="two parties or more"):
        X.fix_precision().share()
    still_works(trio)


def test_the_same_worker_twice(trio: list[Any]) -> None:
    with pytest.raises(SyftError, match="twice|different"):
        X.fix_precision().share(trio[0], trio[0], crypto_provider=trio[2])
    still_works(trio)


def test_a_dealer_among_the_parties(trio: list[Any]) -> None:
    with pytest.raises(SyftError, match="insecure"):
        X.fix_precision().share(trio[0], trio[1], crypto_provider=trio[1])
    still_works(trio)


def test_an_insecure_operand_does_not_make_others_insecure(trio: list[Any]) -> None:
    alice, bob, dealer = trio
    open_book = X.fix_precision().share(alice, bob, crypto_provider=alice, insecure=True)
    secret = shared(trio)
    for product in (open_book * secret, secret * open_book):
        assert product.child.child.crypto_provider is dealer
        assert not product.child.child.insecure
    assert torch.allclose((open_book * open_book).get().float_precision(), X * X, atol=2e-3)
    smuggled = shared(trio)
    smuggled.child.child.crypto_provider = alice
    with pytest.raises(ProtocolError, match="one of the parties"):
        smuggled * smuggled


def test_different_dealers(trio: list[Any], make_worker: Any, kind: str) -> None:
    other = X.fix_precision().share(trio[0], trio[1], crypto_provider=make_worker("other", kind))
    with pytest.raises(ProtocolError, match="different crypto providers"):
        shared(trio) * other
    still_works(trio)


def test_no_dealer(trio: list[Any]) -> None:
    x = X.fix_precision().share(trio[0], trio[1])
    assert torch.equal((x + x).get().float_precision(), 2 * X)
    with pytest.raises(ProtocolError, match="crypto_provider"):
        x * x


def test_different_parties(trio: list[Any], make_worker: Any, kind: str) -> None:
    other = X.fix_precision().share(trio[0], make_worker("carl", kind), crypto_provider=trio[2])
    with pytest.raises(TensorsNotCollocatedError, match="shared among"):
        shared(trio) + other
    still_works(trio)


@pytest.mark.parametrize("call", [lambda a, b: a + b, lambda a, b: a * b, lambda a, b: a @ b, lambda a, b: a > b])
def test_shapes_that_do_not_match(trio: list[Any], call: Any) -> None:
    a, b = shared(trio, torch.ones(2, 3)), shared(trio, torch.ones(2, 4))
    with pytest.raises((RuntimeError, ValueError)) as told:
        call(a, b)
    assert "3" in str(told.value)
    assert "4" in str(told.value)
    still_works(trio)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_values_that_can_not_be_encoded(value: float) -> None:
    with pytest.raises(SyftError) as told:
        torch.tensor([1.0, value]).fix_precision()
    assert "1e+16" not in str(told.value)


def test_numbers_that_are_not_encoded(trio: list[Any]) -> None:
    with pytest.raises(SyftError, match="fix_precision"):
        X.share(trio[0], trio[1], crypto_provider=trio[2])


def _run(workers: list[Any], hook: Any, name: str, refs: list[Any], **options: Any) -> None:
    """Ask two workers for a run, as a client that does not care would."""
    me = hook.local_worker
    message = [(ref,) if not isinstance(ref, tuple) else ref for ref in refs]
    run_id = ID_PROVIDER.pop()
    for worker, contents in zip(workers[:2], message, strict=True):
        ids = tuple(party.id for party in workers[:2])
        me.stream_to(worker).post(RunMessage(contents, run_id, name, ids, workers[2].id, options, 4242))
    for worker in workers[:2]:
        me.stream_to(worker).synchronize()


def test_a_share_of_the_wrong_size(trio: list[Any], hook: Any) -> None:
    alice, bob, _ = trio
    a, b = torch.arange(3).send(alice), torch.arange(4).send(bob)
    with pytest.raises(ProtocolError, match="different shapes|another party failed"):
        _run(trio, hook, "negative", [a.child.ref(), b.child.ref()])
    _settle(trio, hook)
    still_works(trio)


def _settle(workers: list[Any], hook: Any) -> None:
    """Hear of every error that is still on its way."""
    for worker in workers:
        try:
            worker.synchronize()
        except SyftError:
            continue


def test_a_share_that_is_not_there(trio: list[Any], hook: Any) -> None:
    x = shared(trio)
    x.child.child.child[trio[1].id].delete()
    with pytest.raises(SpentPointerError, match="deleted"):
        (x * x).get()
    _settle(trio, hook)
    still_works(trio)
    with pytest.raises(ObjectNotFoundError):
        x.child.child.child[trio[1].id].get()


@pytest.mark.parametrize(
    ("contents", "options", "told"),
    [
        ((Ref(5, "grad"),), {}, "shares as a whole"),
        ((Ref(5),), {"scale": Ref(5)}, "shares as a whole"),
        (({},), {}, "not a dict"),
        ((slice(1),), {}, "not a slice"),
    ],
)
def test_arguments_that_are_no_arguments(trio: list[Any], hook: Any, contents: Any, options: Any, told: str) -> None:
    with pytest.raises(ProtocolError, match=told):
        _run(trio, hook, "negative", [contents, contents], **options)
    _settle(trio, hook)
    still_works(trio)


def test_pointers_are_not_followed(make_worker: Any, hook: Any) -> None:
    workers = [make_worker(name) for name in ("alice", "bob", "dealer")]
    elsewhere = torch.arange(3).send(workers[2])
    with pytest.raises(ProtocolError, match="PointerTensor"):
        _run(workers, hook, "product_public", [(elsewhere.child, 2), (elsewhere.child, 2)])
    assert len(workers[2]._objects) == 1


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("nonsense", {}), ("truncate", {"divisor": 0}), ("truncate", {"divisor": 2**70}), ("truncate", {"divisor": True}),
        ("local", {"call": "exp.default"}), ("local", {"call": "os.system"}), ("negative", {"nonsense": 1}),
        ("add_public", {"y": 1, "alpha": 1.5}),
        ("local", {"call": "sum.default", "dtype": None, "dim": 7}),
        ("local", {"call": "unfold_backward.default", "input_sizes": [40], "dim": 0, "size": 20, "step": 1}),
    ],
)  # fmt: skip
def test_options_that_make_no_sense(make_worker: Any, hook: Any, name: str, options: dict[str, Any]) -> None:
    workers = [make_worker(party) for party in ("alice", "bob", "dealer")]
    a, b = torch.arange(6).send(workers[0]), torch.arange(6).send(workers[1])
    with pytest.raises((ProtocolError, UnsupportedOperationError)) as told:
        _run(workers, hook, name, [a.child.ref(), b.child.ref()], **options)
    assert "tensor(" not in str(told.value)
    still_works(workers)


def test_error_texts_hold_no_shares(make_worker: Any, hook: Any) -> None:
    workers = [make_worker(party) for party in ("alice", "bob", "dealer")]
    a, b = torch.tensor([987654321]).send(workers[0]), torch.tensor([987654321]).send(workers[1])
    contents = [([a.child.ref(), "odd"],), ([b.child.ref(), "odd"],)]
    with pytest.raises(ProtocolError) as told:
        _run(workers, hook, "local", contents, call="cat.default")
    assert "987654321" not in str(told.value) + str(told.value.__cause__)


def test_a_policy_is_checked(trio: list[Any], hook: Any) -> None:
    alice, bob, _ = trio
    a, b = torch.arange(3).send(alice), torch.arange(3).send(bob)
    alice.policy = DenyAll()
    for name in ("open", "add", "negative"):
        contents = [(a.child.ref(),) * (2 if name == "add" else 1), (b.child.ref(),) * (2 if name == "add" else 1)]
        with pytest.raises(GetNotPermittedError, match=f"run {name}"):
            _run(trio, hook, name, contents)
        _settle(trio, hook)
    assert len(bob._objects) == 1


def test_a_run_without_participants_is_dropped(make_worker: Any, hook: Any) -> None:
    alice, bob, _ = workers = [make_worker(party) for party in ("alice", "bob", "dealer")]
    a = torch.arange(3).send(alice)
    for number in range(rendezvous.MAX_OPEN + 50):
        message = RunMessage((a.child.ref(),), ID_PROVIDER.pop(), "open", (alice.id, bob.id), None, {}, 10**6 + number)
        hook.local_worker.stream_to(alice).post(message)
    assert len(rendezvous._open) <= rendezvous.MAX_OPEN
    rendezvous._open.clear()
    still_works(workers)


def test_a_second_message_about_a_run_is_refused(make_worker: Any, hook: Any) -> None:
    alice, bob, _ = workers = [make_worker(party) for party in ("alice", "bob", "dealer")]
    a = torch.arange(3).send(alice)
    message = RunMessage((a.child.ref(),), ID_PROVIDER.pop(), "open", (alice.id, bob.id), None, {}, 10**6)
    stream = hook.local_worker.stream_to(alice)
    stream.post(message)
    with pytest.raises(ProtocolError, match="two messages about the same run"):
        stream.post(message)
    still_works(workers)


@pytest.mark.parametrize("parties", [("alice",), ("alice", "alice"), ("x", "y"), tuple(map(str, range(65))), (1, {})])
def test_invalid_parties(make_worker: Any, hook: Any, parties: tuple[Any, ...]) -> None:
    alice = make_worker("alice")
    named = tuple(alice.id if party == "alice" else party for party in parties)
    with pytest.raises(ProtocolError, match="different parties|is not one of the parties"):
        hook.local_worker.stream_to(alice).post(RunMessage((), 5, "open", named, None, {}, 10**6))


def test_workers_that_answer_in_different_ways_compute_together(make_worker: Any) -> None:
    kinds = ("inline", "thread", "bytes")
    parties = [make_worker(f"party-{kind}", kind) for kind in kinds]
    dealer = make_worker("dealer", "thread")
    x = X.fix_precision().share(*parties, crypto_provider=dealer)
    for _ in range(5):
        y = torch.relu(x * x - 3)
        assert torch.allclose(y.get().float_precision(), torch.relu(X * X - 3), atol=3e-3)


def test_several_threads_compute_at_once(trio: list[Any]) -> None:
    wrong = []

    def work(number: int) -> None:
        x = shared(trio, X + number)
        for _ in range(10):
            if not torch.allclose((x * x).get().float_precision(), (X + number) ** 2, atol=5e-3):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong


def test_a_run_needs_a_shared_tensor() -> None:
    with pytest.raises(ProtocolError, match="Share one first"):
        client.run("negative", torch.arange(3))
    with pytest.raises(UnsupportedOperationError, match="nonsense"):
        client.run("nonsense", torch.arange(3))
