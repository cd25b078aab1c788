"""Cost of function secret sharing: keys come from the dealer, and parties open masked values only."""

from __future__ import annotations

import pytest
import torch

import syft as sy
from syft.mpc.dealer import deals
from syft.mpc.dealer.deals import Broadcasts
from syft.mpc.protocols import fss
from syft.mpc.ring import fss_keys
from syft.mpc.runtime import dealer_service
from syft.workers.process.worker import ProcessWorker
from tests.helpers.mpc.protocols import cast_of
from tests.helpers.mpc.socket_parties import soon

COUNT = 3000
CALLS = {
    "gt": (lambda x, y: x > y, 1, 8),
    "le": (lambda x, y: x <= y, 1, 8),
    "eq": (lambda x, y: x == y, 1, 8),
    "with a number": (lambda x, y: x > 5, 1, 8),
    "relu": (lambda x, y: x.relu(), 2, 24),
}


@pytest.fixture(scope="module")
def cast():
    yield from cast_of("fss-cost", 2)


@pytest.fixture
def numbers():
    return torch.randint(-(2**40), 2**40, (COUNT,)), torch.randint(-(2**40), 2**40, (COUNT,))


@pytest.mark.parametrize("name", CALLS)
def test_a_comparison_sends_masked_values_only(name, cast, numbers):
    call, rounds, size = CALLS[name]
    parties, dealer = cast
    x, y = (each.share(*parties, crypto_provider=dealer, protocol="fss") for each in numbers)
    with sy.mpc.count() as tally:
        made = call(x, y)
    assert torch.equal(made.get(), call(*numbers).long())
    assert tally.rounds == rounds
    assert tally.bytes == size * COUNT
    words = fss.EQUAL_ROWS if name == "eq" else fss.SIGN_ROWS
    assert tally.dealt >= 2 * 8 * words * COUNT  # to both parties
    del x, y, made


def test_costs_in_processes_are_those_of_one_process(hook, numbers):
    made = [ProcessWorker(hook, id=f"fss-cost-{name}") for name in ("alice", "bob", "carol")]
    *parties, dealer = made
    try:
        x, y = (each.share(*parties, crypto_provider=dealer, protocol="fss") for each in numbers)
        for _ in range(3):  # asked for, then dealt ahead
            with sy.mpc.count() as tally:
                assert torch.equal((x > y).get(), (numbers[0] > numbers[1]).long())
            assert (tally.rounds, tally.bytes) == (1, 8 * COUNT)
            assert tally.dealt == (2 * fss.SIGN_ROWS + 1) * 8 * COUNT
        with sy.mpc.profile() as profile:
            (x > y).get()
        assert f"{8 * COUNT / 1000:.0f}" in str(profile)
    finally:
        for worker in made:
            worker.stop()


def test_keys_are_dealt_ahead_to_both_parties_and_made_once(make_world, monkeypatch):
    asked, made, sent = [], [], []
    ask, sign_words, send = dealer_service.DealQueue._answer, fss_keys.sign_words, dealer_service.DealQueue._send
    monkeypatch.setattr(
        dealer_service.DealQueue, "_answer", lambda self, *args: asked.append(self._last) or ask(self, *args)
    )
    monkeypatch.setattr(fss_keys, "sign_words", lambda *args: made.append(args[0].numel()) or sign_words(*args))
    monkeypatch.setattr(
        dealer_service.DealQueue, "_send", lambda self, *args: sent.append(self._last) or send(self, *args)
    )
    world = make_world("a", "b", "dealer")
    runs = 6
    for number in range(runs):
        x = torch.randint(-(2**40), 2**40, (200,))
        mask = torch.randint(-(2**60), 2**60, (200,))
        results, errors = world.run("ab", fss.negative, [x - mask, mask])
        assert not errors
        assert torch.equal(results[0] + results[1], (x < 0).long())
        assert soon(lambda number=number: sent.count(True) > number and sent.count(False) > number)
    assert sorted(asked) == [False, True]  # in the first run only
    assert world.cost("a").bytes == world.cost("b").bytes == runs * 8 * 200
    assert world.cost("a").rounds == runs
    # Each key was made once for both parties: when it was asked for, or to be sent ahead.
    assert soon(lambda: sent.count(True) == sent.count(False) and len(made) == 1 + len(sent) / 2)


def test_the_first_party_gets_no_corrections(make_world):
    """A party that is not the last gets words that are common to all, and nothing for other deals."""
    world = make_world("a", "b", "dealer")
    desk = dealer_service.DealQueue(dealer_service.ServedGroup.fresh(2), 0, None, Broadcasts())
    last = dealer_service.DealQueue(desk._group, 1, None, desk._common)
    assert desk._compute(b"k" * 16, 1, 0, "square", ((3,),)) == []
    assert sum(map(len, last._compute(b"k" * 16, 1, 0, "square", ((3,),)))) == 24
    ours = desk._compute(b"k" * 16, 1, 0, "fss_compare", (3,))
    theirs = last._compute(b"k" * 16, 1, 0, "fss_compare", (3,))
    assert [bytes(part) for part in ours] == [bytes(part) for part in theirs if len(part) > 24]
    assert not desk._common._stored
    del world


def test_words_that_wait_for_another_party_are_bounded(monkeypatch):
    monkeypatch.setattr(deals, "COMMON_BYTES", 100)
    words, made = Broadcasts(), []

    def make(number):
        return lambda: made.append(number) or torch.full((5,), number)

    for number in range(4):
        words.get((1, b"label", number), 1, make(number))
    assert words._bytes == 80 and len(words._stored) == 2
    for number in (3, 0):
        assert words.get((1, b"label", number), 1, make(number)).tolist() == [number] * 5
    assert made == [0, 1, 2, 3, 0]
    words.forget(1)
    assert words._bytes == 0 and not words._stored


def test_words_for_three_parties_are_made_once():
    words, made = Broadcasts(), []
    for _ in range(3):
        words.get((1, b"label", 0), 2, lambda: made.append(1) or torch.ones(2))
    assert made == [1] and not words._stored and words._bytes == 0


def test_a_failure_leaves_the_words_to_the_next_party():
    words = Broadcasts()

    def fail():
        raise MemoryError

    with pytest.raises(MemoryError):
        words.get((1, b"label", 0), 1, fail)
    assert words.get((1, b"label", 0), 1, lambda: torch.ones(2)).tolist() == [1, 1]
