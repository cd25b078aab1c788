"""Attacks of a server in a round of secure aggregation: each client refuses, and nothing is revealed.

A server that lies is played by hand: `Server` does what an honest one does, and each test sends something else.
"""

from __future__ import annotations

import hashlib

import pytest
import torch

import syft as sy
from syft.exceptions import TrainingError
from syft.federated.client.secure_aggregation import key_agreement
from syft.federated.client.secure_aggregation.client_policy import ClientPolicy, Identity, require_secure
from syft.federated.client.secure_aggregation.packing import Packing
from syft.federated.client.secure_aggregation.participant import add_pair_mask, self_mask, survivors_text
from syft.federated.client.secure_aggregation.participants import Participants
from syft.federated.client.secure_aggregation.shamir import ShamirReconstructor
from syft.federated.client.session import CALLS, ClientCall, ClientSession
from syft.workers.access.policy import ALLOW_ALL
from tests.helpers.federated.secure_rounds import ROUND, RUN, Server


def flipped(part, at=0):
    return part[:at] + bytes([part[at] ^ 1]) + part[at + 1 :]


def test_the_honest_server_gets_one_share_of_each_client():
    server = Server().keys().shares().train().agree([0, 1, 3, 4])
    shares = [server.ask_unmask(index) for index in server.survivors]
    assert all(len(part) == 33 for given in shares for part in given)
    server.is_over(0)


# --- lists of keys ----------------------------------------------------------------------------------------------------


def roster_with(change):
    def attack(server):
        entries = list(server.entries)
        return {"entries": change(entries)}

    return attack


LISTS = {
    "a key twice": roster_with(lambda e: [*e[:4], e[3]]),
    "another's masking key as one's own": roster_with(lambda e: [*e[:4], e[4][:32] + e[3][32:]]),
    "one key for both": roster_with(lambda e: [*e[:4], e[4][:32] * 2]),
    "without oneself": roster_with(lambda e: [key_agreement.public_of(bytes(31) + b"1") + e[4][32:], *e[1:]]),
    "with another masking key for oneself": roster_with(lambda e: [e[0][:32] + bytes(32), *e[1:]]),
    "too few clients": lambda s: {"entries": s.entries[:2], "threshold": 2},
    "nobody": roster_with(lambda e: []),
    "no list": roster_with(lambda e: b"".join(e)),
    "short keys": roster_with(lambda e: [*e[:4], e[4][:-1]]),
    "no bytes": roster_with(lambda e: [*e[:4], "x" * 64]),
    "far too many": roster_with(lambda e: [*e, *(i.to_bytes(64, "big") for i in range(10_001))]),
    "a key that gives no secret": roster_with(lambda e: [*e[:4], bytes(32) + e[4][32:]]),
    "half are enough": lambda s: {"entries": [*s.entries, bytes(range(64))], "threshold": 3},
    "one is enough": lambda s: {"threshold": 1},
    "no threshold": lambda s: {"threshold": "4"},
    "more than all": lambda s: {"threshold": 6},
    "another round": lambda s: {"number": 2},
    "no round": lambda s: {"number": True},
}


@pytest.mark.parametrize("attack", LISTS.values(), ids=LISTS)
def test_a_list_that_is_not_right_is_refused(attack):
    server = Server().keys()
    with pytest.raises(TrainingError):
        server.ask_shares(0, **attack(server))
    server.is_over(0)


def test_shares_are_given_once():
    server = Server().keys()
    server.ask_shares(0)
    with pytest.raises(TrainingError, match="not at this step"):
        server.ask_shares(0)
    server.is_over(0)


def test_a_masking_key_that_gives_no_secret_is_refused():
    server, secret = Server().keys(), bytes(31) + b"1"
    server.entries[4] = key_agreement.public_of(secret) + bytes(32)  # a client that works with the server
    server.sealed = [server.ask_shares(index) for index in range(4)]
    participants = Participants(RUN, ROUND, 4, server.entries)
    root = key_agreement.derive(
        key_agreement.PairwiseSecret(secret).agree(participants.sealing_key(0)), participants.digest, b"root", 0, 4
    )
    server.sealed.append([key_agreement.seal(root, participants.digest, 4, 0, bytes(66)), b"", b"", b"", b""])
    with pytest.raises(TrainingError, match="valid X25519 public key"):
        server.ask_train(0)
    server.is_over(0)


@pytest.mark.parametrize("difference", ["a client less", "another order", "another threshold", "another run"])
def test_clients_that_were_shown_different_lists_do_not_give_anything(difference):
    server = Server().keys()
    if difference == "another run":
        server.sessions[0].run = "run-2"
    entries = {"a client less": server.entries[:4], "another order": server.entries[::-1]}.get(difference)
    first = server.ask_shares(0, entries, 5 if difference == "another threshold" else None)
    server.sealed = [[*first, b""][:5], *(server.ask_shares(index) for index in range(1, 5))]
    given = server.delivery(0)[: 4 if difference == "a client less" else 5]
    with pytest.raises(TrainingError):
        server.ask_train(0, given)
    server.is_over(0)
    with pytest.raises(TrainingError, match="can't be decrypted"):
        server.ask_train(1)
    server.is_over(1)


# --- sealed shares ----------------------------------------------------------------------------------------------------


SEALED = {
    "changed in transit": lambda s: [b"", flipped(s.delivery(0)[1]), *s.delivery(0)[2:]],
    "changed at its end": lambda s: [b"", flipped(s.delivery(0)[1], -1 + 82), *s.delivery(0)[2:]],
    "as if by another": lambda s: [b"", s.delivery(0)[2], s.delivery(0)[1], *s.delivery(0)[3:]],
    "meant for another": lambda s: [b"", s.sealed[1][2], *s.delivery(0)[2:]],
    "sent back": lambda s: [b"", s.sealed[0][1], *s.delivery(0)[2:]],
    "as if by oneself": lambda s: [s.sealed[1][0], *s.delivery(0)[1:]],
    "of too few": lambda s: [b"", b"", b"", *s.delivery(0)[3:]],
    "of nobody": lambda s: [b""] * 5,
    "cut": lambda s: [b"", s.delivery(0)[1][:-1], *s.delivery(0)[2:]],
    "one more": lambda s: [*s.delivery(0), b""],
    "no list": lambda s: b"".join(s.delivery(0)),
    "no bytes": lambda s: [b"", 1, *s.delivery(0)[2:]],
}


@pytest.mark.parametrize("attack", SEALED.values(), ids=SEALED)
def test_shares_that_do_not_open_are_refused_before_training(attack):
    server = Server().keys().shares()
    with pytest.raises(TrainingError):
        server.ask_train(0, attack(server))
    server.is_over(0)


def test_messages_of_an_earlier_round_are_of_no_use():
    server = Server().keys().shares().train().agree()
    old_entries, old_sealed, old_vows = server.entries, server.sealed, server.confirmations
    shares = server.ask_unmask(0)
    server.keys()
    with pytest.raises(TrainingError, match="not in the list"):
        server.ask_shares(0, old_entries)
    server.keys().shares()
    with pytest.raises(TrainingError, match="can't be decrypted"):
        server.ask_train(0, [b"", *(old_sealed[other][0] for other in range(1, 5))])
    with pytest.raises(TrainingError, match="another round"):
        server.ask_train(1, number=2)
    server.keys().shares().train().agree()
    with pytest.raises(TrainingError, match="different list"):
        server.ask_unmask(0, [b"", *(old_vows[other][0] for other in range(1, 5))])
    assert not set(shares) & set(server.ask_unmask(1))


def test_a_client_masks_once_with_the_same_masks():
    server = Server().keys().shares()
    server.ask_train(0)
    with pytest.raises(TrainingError, match="not at this step"):
        server.ask_train(0)
    server.is_over(0)


def test_other_messages_can_be_in_between_without_harm():
    server = Server().keys().shares().train()
    with pytest.raises(TrainingError, match="not at this step"):
        server.ask_unmask(0, [b""] * 5)  # before it agreed on anything
    server.is_over(0)
    server.sessions[1].call("secure.keys", {"round": 7})
    with pytest.raises(TrainingError, match="not at this step"):
        server.ask_agree(1, [0, 1, 2, 3])


SETTINGS = {
    "weighted": 1, "extras": "update", "max_update": float("inf"), "max_samples": 0, "round": None, "more": 1,
}  # fmt: skip


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_of_the_term_are_checked(name):
    server = Server().keys().shares()
    with pytest.raises(TrainingError):
        server.ask_train(0, **{name: SETTINGS[name]})
    with pytest.raises(TrainingError, match="masking"):
        server.sessions[1].call("train", server.world.payload(1, {"masking": {}}))
    with pytest.raises(TrainingError, match="returns the vector 'control'"):
        server.ask_train(2, extras=["control"])
    server.is_over(2)


def test_an_update_that_does_not_fit_is_an_error_and_not_clipped():
    server = Server().keys().shares()
    with pytest.raises(TrainingError, match="too large for secure aggregation"):
        server.ask_train(0, max_update=2.0**-40, max_samples=1)
    server.is_over(0)


def test_a_client_that_was_shown_another_model_spoils_the_sum_and_is_not_found_out():
    server = Server().keys().shares()
    with torch.no_grad():
        answers = [server.ask_train(0)]
        server.world.model.tensors[0].add_(1.0)
        answers += [server.ask_train(index) for index in range(1, 5)]
        server.world.model.tensors[0].sub_(1.0)
    assert answers[0]["context"] != answers[1]["context"]
    # Even with all own masks off, as in the sum that an honest server makes, what is left is noise.
    masks = [_own_mask(server, index, len(answers[0]["update"])) for index in range(5)]
    total = sum(answer["update"] for answer in answers) - sum(masks)
    assert total[-1] != 5 and float(total.double().abs().mean()) > 2**60


def _own_mask(server, index, size):
    participants = Participants(RUN, ROUND, 4, server.entries)
    held = [session.memory["secure"]["of_seeds"][index] for session in server.sessions[:4]]
    return self_mask(participants, index, ShamirReconstructor([1, 2, 3, 4]).join(held), size)


@pytest.mark.parametrize(
    "change",
    [{"optimizer_args": {"lr": 0.5}}, {"epochs": 2}, {"batch_size": 1}, {"max_nr_batches": 1}],
    ids=str,
)
def test_masks_are_bound_to_the_training_request(change):
    server = Server().keys().shares()
    contexts = [
        server.sessions[index].call("train", {**server.world.payload(1, server.term(index)), **more})["context"]
        for index, more in ((0, {}), (1, {"seed": 5}), (2, change))
    ]
    assert contexts[0] == contexts[1] != contexts[2]
    extra = {**server.term(3), "clipping": {"clip": 1e-3}}
    assert server.sessions[3].call("train", server.world.payload(1, extra))["context"] != contexts[0]


# --- who answered -----------------------------------------------------------------------------------------------------


SURVIVORS = {
    "too few": [0, 1, 2],
    "without oneself": [1, 2, 3, 4],
    "twice": [0, 1, 2, 3, 3],
    "falling": [0, 2, 1, 3],
    "beyond the list": [0, 1, 2, 3, 5],
    "negative": [-1, 0, 1, 2],
    "no indices": [0, 1, 2, "3"],
    "truth values": [False, True, 2, 3],
    "no list": None,
}


@pytest.mark.parametrize("survivors", SURVIVORS.values(), ids=SURVIVORS)
def test_an_invalid_list_of_survivors_is_refused(survivors):
    server = Server().keys().shares().train()
    with pytest.raises(TrainingError):
        server.ask_agree(0, survivors)
    server.is_over(0)


def test_survivors_must_have_sent_shares():
    server = Server().keys()
    server.sealed = [*(server.ask_shares(index) for index in range(4)), [b""] * 5]
    for index in range(4):
        server.ask_train(index)
    with pytest.raises(TrainingError, match="never sent their shares"):
        server.ask_agree(0, [0, 1, 2, 3, 4])
    server.is_over(0)


def test_both_shares_of_a_client_are_never_given():
    server = Server().keys().shares().train()
    server.ask_agree(0, [0, 1, 2, 3])
    with pytest.raises(TrainingError, match="not at this step"):
        server.ask_agree(0, [0, 1, 2, 4])
    server.is_over(0)
    server = Server().keys().shares().train().agree([0, 1, 2, 3])
    first = server.ask_unmask(0)
    with pytest.raises(TrainingError, match="not at this step"):
        server.ask_unmask(0)
    assert len(first) == 5
    server.is_over(0)


def test_clients_with_different_survivor_lists_unmask_nothing():
    server = Server().keys().shares().train()
    told = {0: [0, 1, 2, 3], 1: [0, 1, 2, 3], 2: [0, 1, 2, 3, 4], 3: [0, 1, 2, 3], 4: [0, 1, 2, 4]}
    server.confirmations = {index: server.ask_agree(index, survivors) for index, survivors in told.items()}
    for index in range(5):
        with pytest.raises(TrainingError):
            server.ask_unmask(index)
        server.is_over(index)


VOWS = {
    "too few": lambda v: [b"", b"", b"", *v[3:]],
    "none": lambda v: [b""] * 5,
    "changed": lambda v: [b"", flipped(v[1]), *v[2:]],
    "made up": lambda v: [b"", bytes(32), *v[2:]],
    "of another": lambda v: [b"", v[2], v[1], *v[3:]],
    "of oneself": lambda v: [v[1], b"", *v[2:]],
    "of who did not answer": lambda v: [*v[:4], v[3]],
    "cut": lambda v: [b"", v[1][:-1], *v[2:]],
    "no list": lambda v: b"".join(v),
}


@pytest.mark.parametrize("attack", VOWS.values(), ids=VOWS)
def test_invalid_commitments_are_refused(attack):
    server = Server().keys().shares().train().agree([0, 1, 2, 3])
    with pytest.raises(TrainingError):
        server.ask_unmask(0, attack(server.vows_for(0)))
    server.is_over(0)


def test_a_client_is_not_counted_twice():
    """A client's confirmation to itself could be forged by anyone, as it has no secret with itself."""
    server = Server().keys().shares().train().agree([0, 1, 2, 3])
    digest = Participants(RUN, ROUND, 4, server.entries).digest
    forged = key_agreement.confirmation(b"", digest, 0, 0, survivors_text([0, 1, 2, 3]))
    confirmations = server.vows_for(0)
    with pytest.raises(TrainingError, match="not in the list of survivors"):
        server.ask_unmask(0, [forged, confirmations[1], confirmations[2], b"", b""])
    server.is_over(0)


# --- what owners insist on --------------------------------------------------------------------------------------------


class Keeper:
    """A worker, as far as a session looks at it."""

    def __init__(self, policy):
        self.policy = policy


@pytest.fixture
def known():
    return [Identity(bytes([number]) * 32) for number in range(5)]


@pytest.fixture
def owned(known):
    """A round whose clients know each other."""
    server = Server()
    for session, identity in zip(server.sessions, known, strict=True):
        session.worker = Keeper(ALLOW_ALL)
        require_secure(session.worker, 5, identity, [one.public for one in known])
    return server


def test_known_clients_take_part(owned):
    owned.keys().shares().train().agree()
    assert all(len(part) == 33 for part in owned.ask_unmask(0))
    assert {len(entry) for entry in owned.entries} == {160}


def with_threshold(known, threshold, **insisted):
    """A round of as many clients as are known, whose server asks for a threshold."""
    server = Server(len(known), threshold)
    for session, identity in zip(server.sessions, known, strict=True):
        session.worker = Keeper(ALLOW_ALL)
        require_secure(session.worker, 3, identity, [one.public for one in known], **insisted)
    return server.keys()


def unmask_the_first(server):
    """Send two survivor lists, with the help of the last client, which is known and colludes with the server."""
    answers = [server.ask_train(index) for index in range(5)]
    participants = Participants(RUN, ROUND, server.threshold, server.entries)
    helper = server.sessions[4].memory["secure"]

    def told(indices, story):
        confirmations = {index: server.ask_agree(index, story) for index in indices}
        shares = {}
        for index in indices:
            for_it = [
                confirmations[other][index] if other in confirmations and other != index else b"" for other in range(5)
            ]
            for_it[4] = key_agreement.confirmation(
                helper["roots"][index], participants.digest, 4, index, survivors_text(story)
            )
            shares[index] = server.ask_unmask(index, for_it)[0]
        return shares

    seeds, keys = told((0, 1), [0, 1, 2, 3, 4]), told((2, 3), [2, 3, 4])
    seed = ShamirReconstructor([1, 2, 5]).join([*seeds.values(), helper["of_seeds"][0]])
    key = ShamirReconstructor([3, 4, 5]).join([*keys.values(), helper["of_keys"][0]])
    found = answers[0]["update"] - self_mask(participants, 0, seed, len(answers[0]["update"]))
    masks = torch.zeros_like(found)
    for other in (1, 2, 3, 4):
        add_pair_mask(masks, participants, key_agreement.PairwiseSecret(key), 0, other, answers[0]["context"])
    return found - masks


def test_a_server_with_two_lists_and_a_colluding_client_learns_nothing(known):
    """A bare majority does not hold against one of five who works for the server; more than two thirds do."""
    server = with_threshold(known, 3, min_threshold=0.5).shares()
    own = server.world.packed(0, Packing(5, 6, [], True, 1024.0, 2**20))
    assert torch.equal(unmask_the_first(server), own)  # so it is not what owners get unless they say so
    server = with_threshold(known, 3)
    with pytest.raises(TrainingError, match="requires a threshold of at least 4 of 5 clients.*got 3"):
        server.ask_shares(0)
    server.is_over(0)


@pytest.mark.parametrize("count", [3, 5, 6, 7, 9, 12])
def test_more_than_two_thirds_are_needed_by_default(count):
    known = [Identity(bytes([number + 1]) * 32) for number in range(count)]
    least = 2 * count // 3 + 1
    with_threshold(known, least).ask_shares(0)
    with pytest.raises(TrainingError, match=f"requires.* {least} of {count}"):
        with_threshold(known, least - 1).ask_shares(0)
    with_threshold(known, count // 2 + 1, min_threshold=0.5).ask_shares(0)


def test_made_up_clients_are_refused(owned, known):
    stranger, keys = Identity(), key_agreement.public_of(bytes(31) + b"1") + key_agreement.public_of(bytes(31) + b"2")
    for forged in (
        keys,  # nobody signed
        stranger.sign(RUN, ROUND, keys),  # somebody else did
        keys + known[4].public + stranger.sign(RUN, ROUND, keys)[-64:],  # in another's name
        known[4].sign(RUN, 2, keys),  # for another round
        known[4].sign("run-2", ROUND, keys),  # for another run
        known[3].sign(RUN, ROUND, keys),  # for two indices
        keys + known[4].sign(RUN, ROUND, bytes(64))[64:],  # other keys
    ):
        owned.keys()
        with pytest.raises(TrainingError, match="unknown client|do not have its signature"):
            owned.ask_shares(0, [*owned.entries[:4], forged])
        owned.is_over(0)


def test_an_owner_can_ask_for_more_clients_and_for_masks(owned):
    owned.keys()
    with pytest.raises(TrainingError, match="requires.* 5 clients"):
        owned.ask_shares(0, owned.entries[:4], 3)
    for modifiers in ({}, None):
        with pytest.raises(TrainingError, match="requires secure aggregation"):
            owned.sessions[0].call("train", owned.world.payload(1, modifiers))
    plain = ClientSession("plain", RUN, owned.world.given[0].dataset())
    assert "samples" in plain.call("train", owned.world.payload(1, {}))


def test_a_call_without_masking_is_refused_whatever_its_modifiers_are(owned, monkeypatch):
    monkeypatch.setitem(CALLS, "look", ClientCall(lambda session, payload: {"loss": 1.0}, derives=True, pays=False))
    owned.keys().shares()
    for modifiers in ({"masking": {}}, owned.term(0)):
        with pytest.raises(TrainingError, match="requires secure aggregation"):
            owned.sessions[0].call("look", owned.world.payload(1, modifiers))


@pytest.mark.parametrize("kind", ["inline", "bytes"])
def test_require_secure_refuses_training_with_a_config(make_worker, kind):
    bob, (x, y) = make_worker("bob", kind), (torch.ones(4, 2), torch.zeros(4, 1))
    bob.add_dataset(sy.BaseDataset(x, y), "some")
    plan = sy.Plan(forward_func=torch.nn.Linear(2, 1)).build(x)
    loss = sy.Plan(forward_func=torch.nn.functional.mse_loss).build(y, y)
    config = sy.TrainConfig(plan, loss)
    config.send(bob)
    bob.fit("some")
    require_secure(bob)
    for ask in (bob.fit, bob.evaluate):
        with pytest.raises(TrainingError, match="requires secure aggregation"):
            ask("some")


def test_require_secure_validates_its_arguments(bob, known):
    mine, others = known[0], [one.public for one in known]
    for arguments in (
        {"min_clients": 2}, {"min_clients": "5"}, {"identity": b"x" * 32}, {"known": [b"short"]},
        {"known": others}, {"known": others[1:], "identity": mine}, {"min_threshold": 0.4}, {"min_threshold": 1.0},
        {"min_threshold": "all"},
    ):  # fmt: skip
        with pytest.raises(TrainingError, match=next(iter(arguments))):
            sy.federated.require_secure(bob, **arguments)
    sy.federated.require_secure(bob, identity=mine, known=others)
    assert mine.secret.hex() not in repr(mine) and mine.public.hex()[:16] in repr(mine)
    assert Identity(mine.secret).public == mine.public and Identity().public != Identity().public
    for secret in (b"short", "x" * 32):
        with pytest.raises(TrainingError, match="32 bytes"):
            Identity(secret)


def test_an_identity_of_small_order_is_refused():
    """The server could sign for it: all-zero bytes are a valid signature for one of four texts."""
    honest = [Identity() for _ in range(4)]
    policy = ClientPolicy(known=frozenset({bytes(32), *(one.public for one in honest)}))
    for number in range(32):
        keys = [hashlib.sha512(bytes([index, number])).digest() for index in range(5)]
        entries = [one.sign(RUN, number, key) for one, key in zip(honest, keys, strict=False)]
        participants = Participants(RUN, number, 4, [*entries, keys[4] + bytes(32) + bytes(64)])
        with pytest.raises(TrainingError, match="do not have its signature for this round"):
            policy.check(participants, RUN, number)
