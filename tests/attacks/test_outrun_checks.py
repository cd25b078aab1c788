"""Race conditions between two sessions or users at a check, and a shared random generator."""

from __future__ import annotations

import contextlib
import random
import threading

import torch

import syft as sy
from syft.core.references import Ref
from syft.exceptions import GetNotPermittedError, SyftError
from syft.messaging import message as m
from syft.workers.transport.framing import BYE
from tests.helpers.attacks.live_client import Visitor
from tests.helpers.attacks.private_data import SECONDS, private_numbers
from tests.helpers.attacks.watchers import decide
from tests.helpers.nodes import forget, soon


@contextlib.contextmanager
def visit(process, user="bob"):
    """Connect as a user who sends messages one by one, and says goodbye without confirming answers."""
    visitor = Visitor(process.url, process.tokens[user])
    try:
        yield visitor
        visitor.frame(BYE, visitor.number, 0)
    finally:
        visitor.close()


def test_an_approved_number_is_no_oracle(hospital, attacker, patients):
    """An approval covers the sealed copy; later values of the same object stay."""
    cell = torch.zeros(1).send(attacker)
    cell.add_(patients[0, :1] * 0)
    request = cell.request(reason="a zero")
    decide(hospital, request.id, "approve")
    cell.copy_(patients[0, :1])
    with contextlib.suppress(GetNotPermittedError):
        assert cell.copy().get().item() == 0.0
    with contextlib.suppress(GetNotPermittedError):
        assert cell.get().item() == 0.0


def test_an_approved_number_that_did_not_arrive_is_no_oracle(hospital, attacker, patients):
    """Its mark stayed if another object was written to while it was on its way: it was released if it was the same."""
    cell = patients[0, 0] * 0 + 1
    obj_id = cell.id_at_location
    with contextlib.suppress(SyftError):
        cell.tag("#approved-cell")
        attacker.synchronize()
    decide(hospital, cell.request(reason="a one").id, "approve")

    def fetch():
        with visit(hospital) as visitor:
            answer = visitor.ask(m.ObjectRequestMessage((obj_id, None, "")))
            torch.zeros(1).send(attacker).add_(patients[0, 0])
            attacker.synchronize()
        soon(lambda: attacker.search("#approved-cell"), 1.0)
        return answer.contents[0] if isinstance(answer, m.ErrorMessage) else answer

    def ask(threshold):
        for held in [cell, *attacker.search("#approved-cell")]:
            with contextlib.suppress(SyftError):
                held.copy_((patients[0, 0] > threshold).float())
                attacker.synchronize()
        return str(fetch())

    fetch()
    assert ask(1000.0) == ask(2000.0)
    assert ask(1100.0) == ask(1300.0)


def test_publishing_again_keeps_an_object_private(hospital, patients):
    """One session publishes an object while another one writes private values to it."""
    found = 0
    with visit(hospital) as publisher, visit(hospital) as writer:
        for obj_id in range(10_000, 10_120):
            publisher.ask(m.ObjectMessage(torch.zeros(40, 20), obj_id, False))
            both = threading.Barrier(2, timeout=SECONDS)

            def publish(obj_id=obj_id, both=both):
                both.wait()
                publisher.ask(m.PublishMessage(obj_id))

            thread = threading.Thread(target=publish)
            thread.start()
            both.wait()
            writer.ask(m.Operation("torch.Tensor.copy_", None, (Ref(obj_id), Ref(patients.id_at_location)), {}, ()))
            thread.join(SECONDS)
            for visitor in (publisher, writer):
                got = visitor.ask(m.ObjectRequestMessage((obj_id, None, "")))
                found = max(found, private_numbers(got) if isinstance(got, torch.Tensor) else 0)
    assert found == 0


def share_with_alice(process, pointer):
    """Let alice read an object of bob's."""
    pointer.location.synchronize()
    with visit(process) as visitor:
        assert visitor.ask(m.ShareSourceMessage(pointer.id_at_location, ("alice",), False)) is None


def test_a_graph_of_another_user_keeps_no_values(hook, hospital, attacker, patients):
    """Alice's graph saves a tensor that bob shares with her, and then fills with private values."""
    alice = hospital.connect(hook, "alice")
    share_with_alice(hospital, torch.ones(40, 20).tag("#factor").send(attacker))
    weight = torch.ones(40, 20).send(alice).requires_grad_()
    loss = (weight * alice.search("#factor")[0]).sum()
    alice.synchronize()
    with contextlib.suppress(SyftError):
        attacker.search("#factor")[0].data.copy_(patients)
        attacker.synchronize()
    loss.backward()
    assert private_numbers(weight.grad.copy().get()) == 0
    forget(hook, alice)


def test_a_concurrent_write_does_not_bypass_the_check(hook, hospital, attacker, patients):
    """Alice's plan takes its time before it reads what bob shares with her; bob fills that meanwhile."""

    @sy.func2plan(args_shape=[(800, 800), (40, 20)])
    def slow(large, x):
        for _ in range(5):
            large = large @ large
        return large.sum() * 0 + x

    found = []
    alice = hospital.connect(hook, "alice")
    plan, large = slow.send(alice), torch.zeros(800, 800).send(alice)
    for number, seconds in enumerate((0.0, 0.02, 0.05, 0.1)):
        share_with_alice(hospital, torch.ones(40, 20).tag(f"#shared-{number}").send(attacker))
        (shared,), (held,) = alice.search(f"#shared-{number}"), attacker.search(f"#shared-{number}")
        over = threading.Event()

        def write(held=held, over=over, seconds=seconds):
            with sy.acting_as(hook.local_worker), contextlib.suppress(SyftError):
                over.wait(seconds)
                held.copy_(patients)
                attacker.synchronize()

        thread = threading.Thread(target=write)
        thread.start()
        with contextlib.suppress(SyftError):
            found.append(private_numbers(plan(large, shared).copy().get()))
        thread.join(SECONDS)
    assert not any(found)
    forget(hook, alice)


def undo_shift(value, shift, mask=0xFFFFFFFF):
    """Return the word y of which `value` is y ^ (y >> shift), or y ^ (y << -shift & mask)."""
    found = value
    for _ in range(32):
        found = value ^ ((found >> shift if shift > 0 else found << -shift) & mask)
    return found


def untemper(word):
    """Return the word of the state of a Mersenne Twister that an output was made of."""
    for shift, mask in ((18, 0xFFFFFFFF), (-15, 0xEFC60000), (-7, 0x9D2C5680), (11, 0xFFFFFFFF)):
        word = undo_shift(word, shift, mask)
    return word


class Twister:
    """The generator of a node, as its outputs tell it."""

    def __init__(self, client):
        self._client = client
        state = [untemper(word) for number in self.draw(312) for word in (number >> 32, number & 0xFFFFFFFF)]
        self._same = random.Random()
        self._same.setstate((3, (*state, 624), None))

    def draw(self, count):
        """Draw numbers of 64 bits at the node."""
        drawn = torch.zeros(count, dtype=torch.int64).send(self._client).random_(-(2**63), None)
        return [number % 2**64 for number in drawn.copy().get().tolist()]

    def skipped(self):
        """Return the number of words that others have drawn since the last call; None if the next ones are unknown."""
        (number,) = self.draw(1)
        high = self._same.getrandbits(32)
        for count in range(2000):
            low = self._same.getrandbits(32)
            if high << 32 | low == number:
                return count
            high = low
        return None


def test_private_draws_do_not_advance_the_users_generator(attacker, patients):
    """`poisson` draws nothing for 0 and something for other rates."""
    twister = Twister(attacker)
    assert twister.skipped() == 0, "the state was not found"
    told = []
    for threshold in (1000.0, 2000.0, 1200.0, 1300.0):
        torch.poisson((patients[0, 0] > threshold).float() * 50)
        attacker.synchronize()
        told.append(twister.skipped())
    assert told == [0, 0, 0, 0]
