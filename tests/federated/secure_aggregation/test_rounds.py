"""Secure aggregation: the server gets the sum of the answers or an error, and no other information."""

from __future__ import annotations

import itertools
import random

import pytest
import torch

from syft.core.generator import Generator
from syft.exceptions import FederatedError, TrainingError
from syft.federated.client.secure_aggregation import key_agreement, participant
from syft.federated.client.secure_aggregation.participants import Participants
from syft.federated.client.secure_aggregation.shamir import ShamirReconstructor
from syft.federated.secure_aggregation import SecureAggregation
from syft.federated.strategies import FedAvg, FedMedian, Krum, TrimmedMean
from tests.helpers.federated.secure_rounds import RUN, STEPS, Inputs, World, inputs


def check_round(count, gone, **settings):
    """A round with drop-outs gives the very sum of the encodings of those who answered, or an error if they are few."""
    world = World(inputs(count, seed=count), gone, **settings)
    there = [i for i in range(count) if gone.get(i) != "secure.keys"]
    needed = world.collector.settings.threshold_of(len(there))
    alive = [[i for i in there if gone.get(i) not in STEPS[: step + 1]] for step in range(len(STEPS))]
    if len(there) < 3 or any(len(some) < needed for some in alive):
        with pytest.raises(FederatedError, match="secure aggregation"):
            world.round()
        assert world.collector.metrics == {}
        return
    total = world.round()
    answered, packing = alive[2], world.collector._packing
    exact = sum(world.packed(i, packing) for i in answered)
    sums = packing.unpack(exact)
    samples = sum(world.given[i].samples for i in answered)
    assert torch.equal(total.update, sums.update / samples)
    assert (total.count, total.weight, total.extras) == (len(answered), float(samples), {})
    assert world.collector.metrics == {"loss": sums.loss, "samples": samples}
    assert (total.update - world.mean(answered)).abs().max() <= packing.bound(len(answered), samples) + 1e-12


def test_every_pattern_of_drop_outs_of_three_clients():
    for pattern in itertools.product((None, *STEPS[1:3], STEPS[4]), repeat=3):
        check_round(3, {i: step for i, step in enumerate(pattern) if step}, threshold=2)


@pytest.mark.parametrize("count", range(3, 11))
def test_drop_outs_at_each_step_up_to_the_threshold_and_beyond(count):
    chance = random.Random(count)
    spare = count - SecureAggregation().threshold_of(count)
    for step in STEPS:
        check_round(count, dict.fromkeys(chance.sample(range(count), spare), step))
        check_round(count, dict.fromkeys(chance.sample(range(count), spare + 1), step))


@pytest.mark.parametrize("count", range(4, 11))
def test_drop_outs_at_several_steps(count):
    chance = random.Random(count)
    for _ in range(2):
        lost = chance.sample(range(count), chance.randint(1, count // 2))
        check_round(count, {i: chance.choice(STEPS) for i in lost}, threshold=0.51)


def test_all_but_a_bare_majority_can_be_lost():
    check_round(9, dict.fromkeys((0, 3, 5, 8), "train"), threshold=5)
    check_round(9, dict.fromkeys((0, 3, 5, 8), "secure.agree"), threshold=5)
    check_round(9, {0: "secure.shares", 3: "train", 5: "secure.agree", 8: "secure.unmask"}, threshold=5)


def test_clients_have_equal_weight_if_the_strategy_is_unweighted():
    world = World(inputs(4), strategy=FedAvg(weighted=False))
    total = world.round()
    assert (total.weight, total.count) == (4.0, 4)
    assert (total.update - world.mean([0, 1, 2, 3])).abs().max() <= world.collector._packing.bound(4, 4.0)
    assert world.collector.metrics["samples"] == sum(one.samples for one in world.given)


def test_rounds_follow_each_other_with_fresh_keys_and_masks():
    world = World(inputs(4))
    first, second = world.round(1), world.round(2)
    assert torch.equal(first.update, second.update)
    sent = [entry[2] for entry in world.log]
    by_step = {step: [e[2] for e in world.log if e[1] == step] for step in STEPS}
    assert len({answer["keys"] for answer in by_step["secure.keys"]}) == 8
    assert len({answer["update"].numpy().tobytes() for answer in by_step["train"]}) == 8
    assert len(sent) == 4 * 5 * 2
    assert all("secure" not in client.session.memory for client in world.clients.values())


def test_a_round_can_be_repeated_after_it_failed():
    world = World(inputs(4), {0: "train", 1: "train"})
    with pytest.raises(FederatedError, match="2 of 4 clients sent a masked result.* needs 3"):
        world.round(1)
    for client in world.clients.values():
        client.gone_at, client._is_gone = None, False
    assert world.round(1).count == 4


@pytest.mark.parametrize("least", [4, 5])
def test_a_sum_of_fewer_clients_than_asked_for_is_not_unmasked(least):
    """Those who are left are enough to unmask, so only the number that the run asks for keeps their sum masked."""
    world = World(inputs(5), {3: "train", 4: "train"}, threshold=3)
    world.train(world.begin())
    with pytest.raises(FederatedError, match=f"3 clients can be counted, but at least {least} are needed"):
        world.collector.finish(least)
    assert {call for _, call, _ in world.log} == {"secure.keys", "secure.shares", "train"}, "nobody gave a share"
    with pytest.raises(FederatedError, match="No round has started"):
        world.collector.finish()


def test_a_sum_of_as_many_clients_as_asked_for_is_unmasked():
    world = World(inputs(5), {4: "train"}, threshold=3)
    world.train(world.begin())
    total = world.collector.finish(4)
    assert total.count == 4 and (total.update - world.mean([0, 1, 2, 3])).abs().max() < 1e-6


def test_clients_with_another_request_do_not_count_towards_min_clients():
    world = World(inputs(5), threshold=3)
    for name in ("c0", "c1"):
        world.clients[name].change = lambda call, a: {**a, "context": bytes(32)} if call == "train" else a
    world.train(world.begin())
    with pytest.raises(
        FederatedError, match="3 clients can be counted, but at least 4 are needed.*different training request"
    ):
        world.collector.finish(4)
    assert not any(call in ("secure.agree", "secure.unmask") for _, call, _ in world.log)


def test_late_results_are_ignored_and_unexpected_ones_refused():
    world = World(inputs(5), {4: "secure.agree"})
    modifiers = world.begin()
    late = modifiers.pop("c3")
    answers = world.train(modifiers)
    for name, result, text in (
        ("c0", answers["c0"], "'c0' is not expected"),  # twice
        ("nobody", answers["c0"], "'nobody' is not expected"),
        ("c3", {}, "one masked vector"),
        ("c3", None, "one masked vector"),
        ("c3", {"update": answers["c0"]["update"][:-1], "context": answers["c0"]["context"]}, "one masked vector"),
        ("c3", {"update": answers["c0"]["update"].double(), "context": answers["c0"]["context"]}, "one masked vector"),
        ("c3", {"update": answers["c0"]["update"], "context": b"short"}, "no context"),
        ("c3", {"update": answers["c0"]["update"], "context": bytes(32)}, "different training request"),
    ):
        with pytest.raises(FederatedError, match=text):
            world.collector.add(name, result)
    masked = world.clients["c3"].call(RUN, "train", world.payload(1, late))
    with pytest.raises(FederatedError, match="3 of 5 clients agreed on the survivors.* needs 4.*c4"):
        world.collector.finish()
    world = World(inputs(4))
    modifiers = world.begin()
    late = modifiers.pop("c3")
    world.train(modifiers)
    masked = world.clients["c3"].call(RUN, "train", world.payload(1, late))

    def meanwhile(name, answer):
        world.collector.add("c3", masked)  # comes in when the others are being asked who answered
        return answer

    world.clients["c0"].change = meanwhile
    total = world.collector.finish()
    world.collector.add("c3", masked)
    assert total.count == 3 and world.collector._answered == ["c0", "c1", "c2"] and not world.collector._heaps
    assert (total.update - world.mean([0, 1, 2])).abs().max() < 1e-6


@pytest.mark.parametrize("strays", [("c0",), ("c4",), ("c0", "c2"), ("c0", "c1", "c2")])
def test_the_most_common_request_counts_and_not_the_first(strays):
    world = World(inputs(5), threshold=3)
    for name in strays:
        other = name.encode() * 16
        world.clients[name].change = lambda call, a, other=other: {**a, "context": other} if call == "train" else a
    try:
        world.train(world.begin())
    except FederatedError as error:
        assert strays == ("c4",) and "different training request" in str(error)  # most have answered already
    if len(strays) > 2:
        with pytest.raises(FederatedError, match="2 of 5 clients sent a masked result.*different training request"):
            world.collector.finish()
        return
    total = world.collector.finish()
    who = [i for i in range(5) if f"c{i}" not in strays]
    assert total.count == len(who) and (total.update - world.mean(who)).abs().max() < 1e-6
    assert set(world.collector.refused) == set(strays) - {"c4"}


def test_clients_with_invalid_responses_drop_out():
    for step, broken in (
        ("secure.keys", {"keys": b"short"}),
        ("secure.shares", {"sealed": [b""], "commitment": bytes(32)}),
        ("secure.agree", {"vows": None}),
        ("secure.unmask", {"shares": [1, 2, 3, 4, 5]}),
    ):
        world = World(inputs(5), threshold=3)
        world.clients["c1"].change = lambda name, answer, step=step, broken=broken: broken if name == step else answer
        total = world.round()
        assert "c1" in world.collector.left_out
        who = [0, 2, 3, 4] if step in STEPS[:2] else [0, 1, 2, 3, 4]
        assert (total.update - world.mean(who)).abs().max() < 1e-6


def test_a_wrong_share_of_one_client_does_not_spoil_the_sum():
    def lie(name, answer):
        if name != "secure.unmask":
            return answer
        return {"shares": [bytes(32) + bytes([part[-1]]) if part else b"" for part in answer["shares"]]}

    world = World(inputs(5), {2: "train"}, threshold=3)
    world.clients["c1"].change = lie
    assert (world.round().update - world.mean([0, 1, 3, 4])).abs().max() < 1e-6
    world = World(inputs(4), {2: "train"})  # nobody to take its index
    world.clients["c1"].change = lie
    with pytest.raises(FederatedError, match="are inconsistent"):
        world.round()


def test_a_client_that_masks_in_another_way_is_noticed():
    world = World(inputs(3))
    world.clients["c1"].change = lambda name, a: {**a, "update": a["update"] + 1} if name == "train" else a
    with pytest.raises(FederatedError, match="do not add up"):
        world.round()


@pytest.mark.parametrize("strategy", [FedMedian(), TrimmedMean(0.2), Krum(1)], ids=lambda s: type(s).__name__)
def test_strategies_that_look_at_each_update_are_refused(strategy):
    with pytest.raises(TrainingError, match="only their sum"):
        World(inputs(4), strategy=strategy).begin()


@pytest.mark.parametrize(
    "settings",
    [
        {"threshold": 1}, {"threshold": 0.5}, {"threshold": 1.5}, {"threshold": True}, {"threshold": "3"},
        {"min_clients": 2}, {"min_clients": 3.0}, {"timeout": 0}, {"timeout": float("inf")}, {"timeout": None},
        {"max_update": 0.0}, {"max_update": float("nan")}, {"max_update": "1"}, {"max_samples": 0},
        {"max_samples": 1.5},
    ],
    ids=str,
)  # fmt: skip
def test_unsafe_or_invalid_settings_are_refused(settings):
    with pytest.raises(TrainingError, match=next(iter(settings))):
        SecureAggregation(**settings)


def test_unsafe_rounds_are_refused():
    for count, settings, text in (
        (2, {}, "2 clients are available.* needs 3"),
        (4, {"min_clients": 5}, "4 clients are available.* needs 5"),
        (6, {"threshold": 3}, "more than half of them: 4 to 6"),
        (4, {"threshold": 5}, "more than half of them: 3 to 4"),
    ):
        with pytest.raises(FederatedError, match=text):
            World(inputs(count), **settings).round()


def test_default_thresholds_are_more_than_two_thirds():
    for count in range(3, 200):
        threshold = SecureAggregation().threshold_of(count)
        assert threshold <= count and 3 * threshold > 2 * count and 3 * (threshold - 1) <= 2 * count


# --- what the server sees ---------------------------------------------------------------------------------------------


def visible(log):
    """All that clients sent, as bytes, in the order in which it came."""
    found = []
    for client, call, answer in log:
        for name in sorted(answer):
            value = answer[name]
            parts = value if isinstance(value, list) else [value]
            assert all(type(part) in (bytes, torch.Tensor) for part in parts), (call, name)
            raw = [part if isinstance(part, bytes) else part.numpy().tobytes() for part in parts]
            found.append((client, call, name, raw))
    return found


def fixed_draws(monkeypatch, key):
    """Make all that clients draw the same each time: each world has its own beginning."""
    generator = Generator(key)
    monkeypatch.setattr(key_agreement, "draw", generator.bytes)


def watched_round(monkeypatch, given, gone, shift=None, key=b"k" * 16):
    """Do a round with fixed draws; masks of pairs with client 0 are shifted. Returns all that the server saw and got."""
    fixed_draws(monkeypatch, key)
    world = World(given, gone, threshold=3)
    true_mask = participant.key_agreement.mask

    def mask(secret, salt, size, *info):
        words = true_mask(secret, salt, size, *info)
        if info[0] == b"pair" and info[1] == 0 and info[2] in (shift or {}):
            words = words + shift[info[2]]
        return words

    with monkeypatch.context() as patch:
        patch.setattr(key_agreement, "mask", mask)
        total = world.round()
    return world, visible(world.log), total


@pytest.mark.parametrize("gone", [{}, {3: "train"}, {3: "secure.shares"}, {3: "secure.agree"}], ids=str)
def test_the_same_view_fits_other_inputs_with_the_same_sum(monkeypatch, gone):
    """Whatever the server sees, it would see with the same chance if clients had each other's data.

    All draws are fixed. The second world has other data at the clients, with the same sum. For each choice of the masks
    between client 0 and the others there is one in the second world, moved by a constant, that gives the very same
    messages. Masks are uniform, so moved ones are just as likely: the view has the same distribution in both worlds.
    """
    mine = inputs(5, size=8)
    answering = [i for i in range(5) if gone.get(i) not in STEPS[:3]]
    turned = answering[1:] + answering[:1]
    theirs = list(mine)
    for index, other in zip(answering, turned, strict=True):
        theirs[index] = mine[other]
    world, seen, total = watched_round(monkeypatch, mine, gone)
    packing = world.collector._packing
    packed = {i: world.packed(i, packing) for i in answering}
    other_world, other_seen, _ = watched_round(monkeypatch, theirs, gone)
    assert seen != other_seen  # same draws, other data
    moved = {i: other_world.packed(i, packing) - packed[i] for i in answering if i}
    assert all(shift.any() for shift in moved.values())
    _, other_seen, other_total = watched_round(monkeypatch, theirs, gone, moved)
    assert seen == other_seen
    assert torch.equal(total.update, other_total.update)


def chi_square(words):
    counts = torch.bincount(words.contiguous().view(torch.uint8).long(), minlength=256).double()
    expected = counts.sum() / 256
    return float(((counts - expected) ** 2 / expected).sum())


def test_masked_vectors_are_uniform_even_without_their_own_masks(monkeypatch):
    """The server can take off a client's own mask at the end. The rest is uniform, and so is every part of the sum."""
    fixed_draws(monkeypatch, b"k" * 16)  # chance is the same each time
    size = 6000
    given = [Inputs(torch.full((size,), float(i)), 1 + i) for i in range(4)]  # far from uniform
    world = World(given)
    modifiers = world.begin()
    answers = world.train(modifiers)
    entries = [e[2]["keys"] for e in world.log if e[1] == "secure.keys"]
    participants = Participants(RUN, 1, 3, entries)
    masked = [answers[f"c{i}"]["update"] for i in range(4)]
    world.collector.finish()
    shares = [e[2]["shares"] for e in world.log if e[1] == "secure.unmask"]
    seeds = [ShamirReconstructor([1, 2, 3, 4]).join([given[i] for given in shares]) for i in range(4)]
    left = [masked[i] - participant.self_mask(participants, i, seeds[i], len(masked[i])) for i in range(4)]
    packing = world.collector._packing
    assert torch.equal(sum(left), sum(world.packed(i, packing) for i in range(4)))
    for some in (masked, left):
        for number in range(1, 4):
            for which in itertools.combinations(some, number):
                # 255 degrees of freedom: beyond 400 once in a hundred million times.
                assert chi_square(sum(which)) < 400
                # A word is above the middle as often as below, whatever was encoded.
                assert abs(int((sum(which) > 0).sum()) - packing.words / 2) < 6 * packing.words**0.5 / 2
    assert chi_square(sum(left)) > 10_000  # the sum itself is not hidden
    assert chi_square(world.packed(1, packing)) > 10_000


def test_nothing_of_a_client_is_in_the_transcript():
    world = World(inputs(5, size=40), {1: "train", 4: "secure.agree"}, threshold=3)
    world.round()
    seen = b"".join(part for *_, parts in visible(world.log) for part in parts)
    assert {call: sorted(answer) for _, call, answer in world.log} == {
        "secure.keys": ["keys"],
        "secure.shares": ["commitment", "sealed"],
        "train": ["context", "update"],
        "secure.agree": ["vows"],
        "secure.unmask": ["shares"],
    }
    packing = world.collector._packing
    secrets = set()
    for index in range(5):
        answer = world.plain(index)
        update, loss = answer["update"], torch.tensor([answer["metrics"]["loss"]], dtype=torch.float64)
        singles, doubles = (update, update * answer["samples"]), (update.double(), loss, loss * answer["samples"])
        secrets.update(vector[i : i + 2].numpy().tobytes() for vector in singles for i in range(39))
        secrets.update(word.numpy().tobytes() for vector in doubles for word in vector.split(1))
        # The last word is the 1 of each client; the others are its update, loss and samples.
        secrets.update(word.numpy().tobytes() for word in world.packed(index, packing)[:-1].split(1))
    assert len(secrets) > 500 and all(len(secret) == 8 for secret in secrets)
    assert not any(secret in seen for secret in secrets)


def test_reprs_and_errors_show_no_secret():
    world = World(inputs(3))
    world.begin()
    state = world.clients["c0"].session.memory["secure"]
    for shown in (repr(world.clients["c0"].session), repr(world.collector), repr(world.collector._participants)):
        assert not any(value.hex() in shown or repr(value) in shown for value in state.values() if type(value) is bytes)
