"""Users of hosted encrypted models, honest or not, at nodes in processes of their own. Shared by the attack tests."""

from __future__ import annotations

import contextlib

import torch

import syft as sy
from syft.core.context import acting_as
from syft.core.id_provider import ID_PROVIDER
from syft.exceptions import SyftError
from syft.hosting import client as hosting_client
from syft.messaging.hosting import HostSharesMessage, SharedInferenceMessage
from syft.messaging.message import Operation
from syft.mpc.serving import client as encrypted
from syft.mpc.serving.client import fetch_results
from syft.workers.delegation.introduction import introduce
from syft.workers.websocket_client import WebsocketClientWorker

FEATURES, CLASSES = 4, 3
SCALE = 2**16
NAME = "victim"
QUESTION = torch.tensor([[SCALE, 0, 0, 0]])
# Seconds within which a refusal arrives: nobody waits for a time limit to pass.
AT_ONCE = 8.0


@contextlib.contextmanager
def client(hook, user, *groups, ca=None):
    """Yield each group of nodes as a user sees it, by node id."""
    me = sy.VirtualWorker(hook, id=f"me-{user}", auto_add=False)
    made = []
    with acting_as(me), sy.config.override(stream_timeout=20.0):
        for ships in groups:
            found = {}
            for ship in ships:
                port, name = int(ship.url.rpartition(":")[2]), ship.told["settings"]["id"]
                token = ship.tokens[user]
                found[name] = WebsocketClientWorker(
                    None, "localhost", port, ca is not None, name, token=token, ca=ca, auto_add=False
                )
            made.append(found)
        try:
            yield made
        finally:
            for worker in [worker for found in made for worker in found.values()]:
                with contextlib.suppress(SyftError):
                    worker.close()


def host(model, nodes, holders, name=NAME, dealer="dealer", **more):
    """Host a model at some nodes."""
    draft = encrypted.EncryptedDraft(
        model, name, [nodes[id] for id in holders], nodes[dealer], True, [(1, FEATURES)], **more
    )
    for id in holders:
        draft.host(nodes[id])
    return draft


def plant(worker, parts, name, version, shares=None):
    """Host a part of a model at one of mallory's nodes, with shares of her choice and the victim's version."""
    zeros = tuple([item if isinstance(item, int) else torch.zeros_like(item) for item in parts.given])
    contents = parts._replace(given=zeros if shares is None else shares, version=version)
    message = HostSharesMessage(tuple(contents), name, True)
    sy.local_worker.send_msg(message, worker)


def run(holders, dealer, facts, x):
    """Ask as mallory can, after honest introductions or others that she made before."""
    introduce(sy.local_worker, [*views(holders, facts), dealer.for_purpose(dealing_for(facts))])
    return ask(holders, facts, x)


def dealing_for(facts):
    """Return the purpose of a connection to a dealer."""
    return f"dealer:{(facts if isinstance(facts, dict) else facts[0])['name']}"


def views(holders, facts):
    """Return nodes as they are reached to ask a model: over connections for that purpose."""
    named = [facts] * len(holders) if isinstance(facts, dict) else facts
    return [node.for_purpose(f"model:{said['name']}") for node, said in zip(holders, named, strict=True)]


def ask(holders, facts, x):
    """Send raw ring elements, and return the sum of the shares of the answer.

    The first party gets the whole input; the model may have another name and version at each party.
    """
    streams, ids = post(holders, facts, x)
    return together(fetch_results(streams, lambda stream: stream.fetch_many(ids)))


def post(holders, facts, x):
    """Send the messages of one run; returns the streams and the ids of the answer."""
    named = [facts] * len(holders) if isinstance(facts, dict) else facts
    run_id, return_id = ID_PROVIDER.pop(), ID_PROVIDER.pop()
    streams = [sy.local_worker.stream_to(node) for node in views(holders, facts)]
    for position, (stream, said) in enumerate(zip(streams, named, strict=True)):
        share = x if position == 0 else torch.zeros_like(x)
        stream.post(SharedInferenceMessage((share,), said["name"], said["version"], run_id, return_id))
    return streams, [return_id]


def together(answers):
    columns = [answer[0] for answer in answers]
    return sum(columns[1:], columns[0])


def steal(ask):
    """Return a party's share of weight and bias modulo 2**48, from five questions."""
    bias = ask(torch.zeros(1, FEATURES, dtype=torch.int64))
    rows = []
    for feature in range(FEATURES):
        x = torch.zeros(1, FEATURES, dtype=torch.int64)
        x[0, feature] = SCALE
        rows.append(ask(x) - bias)
    return torch.cat(rows).T, bias


def small(ring):
    """Return ring elements modulo 2**48 as signed numbers."""
    wrapped = ring % 2**48
    return (wrapped - (wrapped >= 2**47) * 2**48).double() / SCALE


def facts_of(node, name=NAME):
    return hosting_client.facts_at(node, name)[0]


def order(node, what, *args):
    return sy.local_worker.stream_to(node).ask(Operation(what, None, args, {}, ()))
