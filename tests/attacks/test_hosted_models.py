"""Hosted encrypted models: attacks by their users, who introduce the nodes to each other."""

from __future__ import annotations

import os
import time

import pytest
import torch

import syft as sy
from syft.exceptions import ModelError, ProtocolError, SyftError
from syft.hosting import client as hosting_client
from syft.messaging.hosting import HostSharesMessage
from syft.mpc.dealer import wire_protocol
from syft.mpc.serving import client as encrypted
from syft.serde import serialize
from syft.workers.delegation import dialer, introduction
from syft.workers.delegation.grants import ADMIT, MEET
from syft.workers.delegation.introduction import introduce
from syft.workers.transport.framing import FramedConnection
from syft.workers.transport.pipe import SocketPipe
from syft.workers.transport.websocket import Endpoint
from tests.helpers.attacks.model_clients import (
    AT_ONCE,
    CLASSES,
    FEATURES,
    NAME,
    QUESTION,
    ask,
    client,
    dealing_for,
    facts_of,
    host,
    order,
    plant,
    post,
    run,
    small,
    steal,
    views,
)
from tests.helpers.grid.node_processes import Fleet
from tests.helpers.nodes import Line

# The error of a party when a peer does not have the pinned key.
PINNED = "is not the node that this model was hosted with"


@pytest.fixture(scope="module")
def fleet():
    with Fleet() as made:
        yield made


@pytest.fixture(scope="module")
def town(fleet):
    """The honest nodes: three parties and a dealer, where alice hosts models and mallory may ask."""
    return fleet.nodes("a", "b", "c", "dealer", users=("alice", "mallory"))


@pytest.fixture(scope="module")
def lair(fleet):
    """Mallory's own nodes, which have the names of the honest ones."""
    return fleet.nodes("a", "b", "c", "dealer", users=("mallory",))


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(7)
    return torch.nn.Linear(FEATURES, CLASSES)


@pytest.fixture(scope="module")
def victim(town, model):
    with client(sy.TorchHook(torch), "alice", town) as (nodes,):
        host(model, nodes, "ab")


@pytest.fixture
def mallory(hook, town, lair, victim):
    with client(hook, "mallory", town, lair) as (nodes, own):
        yield nodes, own


# --- the honest path ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("holders", ["ab", "abc"])
def test_users_get_answers_from_two_and_three_parties(hook, town, model, holders):
    name = f"honest-{holders}"
    with client(hook, "alice", town) as (nodes,):
        host(model, nodes, holders, name)
    x = torch.tensor([[0.5, -1.0, 2.0, 0.25]])
    with client(hook, "mallory", town) as (nodes,):
        parties = [nodes[id] for id in holders]
        rows = [facts_of(node, name) for node in parties]
        for _ in range(2):
            answer = encrypted.ask_encrypted(parties, nodes["dealer"], rows, x)
            assert torch.allclose(answer, model(x), atol=1e-2)


# --- nodes of her own -----------------------------------------------------------------------------------------------


def steal_from(nodes, own, party):
    """Try to get a party's share of the model, with a node of mallory's as the other party, holding a model of zeros."""
    facts = facts_of(nodes[party])
    cast = [nodes[id] if id == party else own[id] for id in "ab"]
    (other,) = set("ab") - {party}
    draft = encrypted.EncryptedDraft(
        torch.nn.Linear(FEATURES, CLASSES), NAME, cast, nodes["dealer"], True, [(1, FEATURES)]
    )
    plant(own[other], draft.parts["ab".index(other)], NAME, facts["version"])
    with sy.config.override(stream_timeout=6.0):  # her own node waits that long for the honest one
        return steal(lambda x: run(cast, nodes["dealer"], facts, x))


def test_nodes_of_the_user_do_not_learn_weights(mallory, model):
    """With a node of hers as the other party, the answers would tell one party's share; both together, the model."""
    nodes, own = mallory
    with pytest.raises(SyftError, match=PINNED):
        check_stolen(model, [steal_from(nodes, own, party) for party in "ab"])


def check_stolen(model, stolen):
    weight, bias = (small(first + second) for first, second in zip(*stolen, strict=True))
    error = (weight - model.weight.detach()).abs().max().item(), (bias - model.bias.detach()).abs().max().item()
    pytest.fail(f"the weights were stolen, with an error of {max(error):.1e}")


@pytest.mark.parametrize("party", "ab")
def test_a_node_of_the_user_is_no_party(mallory, party):
    nodes, own = mallory
    with pytest.raises(SyftError, match=PINNED):
        steal_from(nodes, own, party)


def test_a_node_of_the_user_is_no_dealer(mallory):
    """A dealer knows all masks, so the dealer can read all values that the parties open."""
    nodes, own = mallory
    began = time.monotonic()
    with pytest.raises(SyftError, match=PINNED):
        answer = run([nodes["a"], nodes["b"]], own["dealer"], facts_of(nodes["a"]), QUESTION)
        pytest.fail(f"a dealer of the user dealt for the answer {answer.tolist()}")
    assert time.monotonic() - began < AT_ONCE


def lie(nodes, faces, model):
    """Introduce nodes to each other under false names: `faces` has the node behind a name, as a visitor sees it."""
    name = os.urandom(16).hex()
    nodes = {
        id: node.for_purpose(f"dealer:{model}" if id == "dealer" else f"model:{model}") for id, node in nodes.items()
    }

    def behind(visitor, called):
        return faces.get((visitor, called), called)

    for visitor in nodes:
        rows = []
        for called in nodes:
            host = behind(visitor, called)
            if called == visitor:
                continue
            (known_as,) = [other for other in nodes if other != host and behind(host, other) == visitor]
            (secrets,) = order(nodes[host], ADMIT, name, known_as)
            rows.append((called, nodes[host].url, *secrets[:2]))
        order(nodes[visitor], MEET, name, 15.0, *rows)


def test_parties_can_not_swap_roles(hook, town, model):
    with client(hook, "alice", town) as (nodes,):
        host(model, nodes, "abc", "three")
    with client(hook, "mallory", town) as (nodes,):
        facts = facts_of(nodes["a"], "three")
        lie(nodes, {("a", "b"): "c", ("a", "c"): "b"}, "three")
        with pytest.raises(SyftError, match=PINNED):
            answer = ask([nodes[id] for id in "abc"], facts, QUESTION)
            pytest.fail(f"parties in another order gave the answer {answer.tolist()}")


@pytest.mark.parametrize("between", ["a", "dealer"])
def test_a_relayed_key_proof_is_refused(mallory, between):
    """The proof belongs to one connection: a relay of the user's could change what follows it."""
    nodes, _ = mallory
    line = Line(nodes[between].port)
    nodes[between].peer_url = f"ws://127.0.0.1:{line.port}"
    try:
        with pytest.raises(SyftError, match=PINNED):
            answer = run([nodes["a"], nodes["b"]], nodes["dealer"], facts_of(nodes["a"]), QUESTION)
            pytest.fail(f"{line.connections} connections went through a relay for the answer {answer.tolist()}")
        assert line.connections
    finally:
        line.close()


def test_the_dealer_gives_seeds_to_proven_parties_only(mallory):
    """Mallory knows everything about a group but the keys of its parties."""
    nodes, _ = mallory
    run([nodes["a"], nodes["b"]], nodes["dealer"], facts_of(nodes["a"]), QUESTION)
    facts = facts_of(nodes["a"])
    keys = facts["keys"]
    from syft.workers.delegation.key_proofs import PeerKey, Prover

    name = os.urandom(16).hex()
    prover = Prover("a", PeerKey())
    for key in (prover.key.fingerprint, keys[0]):
        ((token, proof, _),) = order(
            nodes["dealer"].for_purpose(dealing_for(facts)), ADMIT, introduction._made[sy.local_worker].name, "a"
        )
        where = Endpoint(nodes["dealer"].url)
        sock = dialer.connect(where, token, proof, wire_protocol.PINNED_PURPOSE, 10.0)
        assert prover.dial(sock, "dealer", wire_protocol.PINNED_PURPOSE, 10.0) == keys[2]
        connection = FramedConnection(SocketPipe(sock), 1000)
        connection.write(wire_protocol.HELLO, 0, serialize((name, ("a", "b"), (key, keys[1]))))
        seeds = connection.read()
        connection.close()
        assert (seeds is not None) == (key == prover.key.fingerprint)


def test_a_node_hosts_no_model_without_the_keys_of_its_parties(hook, town, model):
    with client(hook, "alice", town) as (nodes,):
        cast = [nodes["a"], nodes["b"]]
        draft = encrypted.EncryptedDraft(model, "unpinned", cast, nodes["dealer"], True, [(1, FEATURES)])
        contents = tuple(draft.parts[0])
        first, second, dealer = contents[8]
        wrong = [
            (),
            (first,),
            (first, second),
            (second, first, dealer),
            (first, first, dealer),
            (first, "x", dealer),
            5,
        ]
        forged = [contents[:8], *[(*contents[:8], keys, contents[9]) for keys in wrong]]
        for each in forged:
            with pytest.raises(ModelError):
                sy.local_worker.send_msg(HostSharesMessage(each, "unpinned", True), nodes["a"])
        assert "unpinned" not in [row["name"] for row in hosting_client.facts_at(nodes["a"])]


# --- another model --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def evil(town, victim):
    """A model of mallory's at the same parties, whose shares are all zero."""
    with client(sy.TorchHook(torch), "mallory", town) as (nodes,):
        cast = [nodes["a"], nodes["b"]]
        draft = encrypted.EncryptedDraft(
            torch.nn.Linear(FEATURES, CLASSES), "evil", cast, nodes["dealer"], True, [(1, FEATURES)]
        )
        for node, parts in zip(cast, draft.parts, strict=True):
            plant(node, parts, "evil", parts.version)


def test_two_models_in_one_run_do_not_reveal_weights(mallory, evil, model):
    """One party runs the victim's model and the other one mallory's: the answers would tell one party's share."""
    nodes, _ = mallory
    cast = [nodes["a"], nodes["b"]]
    good, bad = facts_of(cast[0]), facts_of(cast[0], "evil")
    with pytest.raises(SyftError, match="received another request"):
        check_stolen(
            model, [steal(lambda x, f=f: run(cast, nodes["dealer"], f, x)) for f in ([good, bad], [bad, good])]
        )


def test_both_parties_of_a_mixed_run_fail_and_others_are_answered(hook, town, mallory, evil, model):
    nodes, _ = mallory
    cast = [nodes["a"], nodes["b"]]
    good, bad = facts_of(cast[0]), facts_of(cast[0], "evil")
    for facts in ([good, bad], [bad, good]):
        introduce(sy.local_worker, [*views(cast, facts), nodes["dealer"].for_purpose(dealing_for(facts))])
        streams, ids = post(cast, facts, QUESTION)
        began = time.monotonic()
        for stream in streams:
            with pytest.raises(ProtocolError, match="received another request|aborted this run"):
                stream.fetch_many(ids)
        assert time.monotonic() - began < AT_ONCE
    x = torch.tensor([[0.5, -1.0, 2.0, 0.25]])
    with client(hook, "alice", town) as (nodes,):
        answer = encrypted.ask_encrypted([nodes["a"], nodes["b"]], nodes["dealer"], [good, good], x)
    assert torch.allclose(answer, model(x), atol=1e-2)
