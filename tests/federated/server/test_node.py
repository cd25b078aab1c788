"""Training at a node in a child process, with users, tokens and rights."""

import pytest
import torch

from syft.exceptions import GetNotPermittedError, NotPermittedError
from tests.helpers.federated import samples
from tests.helpers.federated.samples import XOR, XOR_TARGET, config
from tests.helpers.nodes import forget, node

PREPARE = """
from tests.helpers.federated import samples
node.worker.add_dataset(samples.xor(), "xor")
"""


@pytest.fixture(scope="module")
def hospital():
    with node("federated-hospital", prepare=PREPARE) as process:
        yield process


@pytest.fixture
def connect(hook, hospital):
    made = []

    def as_user(user):
        forget(hook, *made)
        made[:] = [hospital.connect(hook, user)]
        return made[0]

    yield as_user
    forget(hook, *made)


def test_a_user_trains_and_the_owner_decides(connect):
    alice = connect("alice")
    with pytest.raises(NotPermittedError, match="Only the owner"):
        alice.add_dataset(samples.xor(), "mine")
    sent = config()
    sent.send(alice)
    loss = alice.fit("xor")
    assert loss.location is alice and loss.shape == ()
    for attempt in (loss.get, sent.get_model, lambda: alice.evaluate("xor")):
        with pytest.raises(GetNotPermittedError):
            attempt()


def test_an_owner_adds_data_and_gets_the_trained_model(connect):
    owner = connect("owner")
    owner.add_dataset(samples.xor(), "more")
    sent = config()
    sent.send(owner)
    assert type(owner.fit("more")) is torch.Tensor
    assert owner.evaluate("more")["nr_correct_predictions"] == 4
    assert samples.mean_square(XOR_TARGET, sent.get_model()(XOR)) < 0.01
    owner.remove_dataset("more")
    with pytest.raises(ValueError, match="it has: 'xor'"):
        owner.evaluate("more")
