"""Availability: calls that crash, allocate or never end hit a limit, and other users are not affected."""

from __future__ import annotations

import contextlib

import pytest
import torch

from syft.core.references import Ref
from syft.exceptions import SyftError
from syft.messaging import message as m
from tests.helpers.attacks.live_client import Visitor
from tests.helpers.attacks.private_data import ERRORS, survives
from tests.helpers.attacks.watchers import http
from tests.helpers.depth import IS_DEEP
from tests.helpers.nodes import forget, soon

SMALLEST = -(2**63)
CALLS = {
    "H6 lcm": lambda c: torch.tensor(SMALLEST).send(c).lcm(torch.tensor(5).send(c)).get(),
    "H6 gcd": lambda c: torch.tensor(SMALLEST).send(c).gcd(torch.tensor(-1).send(c)).get(),
    "H6 remainder": lambda c: torch.tensor(SMALLEST).send(c).remainder(torch.tensor(-1).send(c)).get(),
    "H7 expand exp": lambda c: torch.ones(1).send(c).expand(2**40).exp().get(),
    "H7 expand tolist": lambda c: torch.ones(1).send(c).expand(60_000_000).tolist(),
    "H7 unbind": lambda c: torch.ones(1).send(c).expand(300_000).unbind(),
    "H7 repeat": lambda c: torch.ones(1000).send(c).repeat(10**7).get(),
    "H8 max_pool1d": lambda c: torch.max_pool1d(torch.ones(1, 1, 5).send(c), 2**62, 1, 2**61, 1).get(),
    "H8 lobpcg": lambda c: torch.lobpcg(torch.eye(2000).send(c), k=600, niter=10**6, tol=0.0)[0].get(),
    "H8 matmul": lambda c: [x := torch.ones(3000, 3000).send(c), [x := x @ x for _ in range(200)], x.get()],
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_on_own_data_do_not_affect_other_users(hook, hospital, name):
    error = survives(hook, hospital, CALLS[name])
    if type(error).__name__ == "SessionEndedError":
        assert "Connect again" in str(error)


def products(zero, client):
    x = torch.ones(2000, 2000).send(client) + zero
    for _ in range(100):
        x = x @ x


IN_VAULT = {
    "H6 lcm": lambda zero, c: (zero.long() - 2**62 * 2).lcm(torch.tensor(5).send(c)),
    "H6 gcd": lambda zero, c: (zero.long() - 2**62 * 2).gcd(torch.tensor(-1).send(c)),
    "H6 remainder": lambda zero, c: (zero.long() - 2**62 * 2).remainder(torch.tensor(-1).send(c)),
    "H7 expand exp": lambda zero, c: zero.expand(2**33).exp(),
    "H8 max_pool1d": lambda zero, c: torch.max_pool1d(zero.expand(1, 1, 5).clone(), 2**62, 1, 2**61, 1),
    "H8 lobpcg": lambda zero, c: torch.lobpcg(torch.eye(2000).send(c) + zero, k=600, niter=10**6, tol=0.0),
    "H8 matmul": products,
}
OFTEN = ["H6 lcm", "H7 expand exp", "H8 lobpcg"]


@pytest.mark.parametrize("name", IN_VAULT if IS_DEEP else OFTEN)
def test_calls_on_private_data_do_not_affect_other_users(hook, hospital, name):
    """The vault is ended, and its user is not informed."""

    def attack(client):
        (private,) = client.search("#weather")
        IN_VAULT[name](private.sum() * 0, client)
        client.synchronize()

    survives(hook, hospital, attack)


@pytest.mark.parametrize(
    ("name", "x", "number"),
    [("torch.linalg.matrix_power", torch.eye(3), SMALLEST), ("torch.combinations", torch.zeros(1), 10**5)],
)
def test_calls_that_never_end_are_killed(hook, hospital, name, x, number):
    """Sent as messages, since the client's look-ahead does not end either."""

    def attack(client):
        with contextlib.closing(Visitor(hospital.url, hospital.tokens["bob"])) as visitor:
            visitor.ask(m.ObjectMessage(x, 5, False))
            visitor.ask(m.Operation(name, None, (Ref(5), number), {}, (6,)))
            visitor.ask(m.ObjectRequestMessage((6, None, "")))

    survives(hook, hospital, attack)


def test_ended_session_names_the_limit_and_the_call(hook, hospital):
    client = hospital.connect(hook, "bob")
    x = torch.eye(5000).send(client)
    with pytest.raises(SyftError) as raised:
        torch.linalg.svd(x.sin())
        client.synchronize()
    assert "2 s" in str(raised.value) and "seconds" in str(raised.value)
    with contextlib.suppress(*ERRORS):
        forget(hook, client)
    assert soon(lambda: http(hospital, "GET", "objects?limit=1") is not None, 10)
