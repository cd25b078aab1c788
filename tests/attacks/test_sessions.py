"""Sessions: identity of clients, unpredictable ids, leaked objects, and operations on objects of other clients."""

from __future__ import annotations

import gc
import random
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch

import syft as sy
from syft import config
from syft.core.id_provider import ID_PROVIDER, create_random_id
from syft.core.references import Ref
from syft.messaging import message as m
from syft.workers.access.policy import DenyAll
from tests.helpers import warm_processes as warm
from tests.helpers.attacks.hostile_peer import Mallory, error_name, request, still_answers

ROOT = Path(__file__).parent.parent.parent


# --- ids ---------------------------------------------------------------------------------------------


def test_ids_do_not_depend_on_seeds(hook):
    def seeded():
        random.seed(1)
        np.random.seed(1)
        torch.manual_seed(1)
        return [ID_PROVIDER.pop() for _ in range(300)] + [create_random_id() for _ in range(300)]

    assert not set(seeded()) & set(seeded())


def test_ids_use_all_of_128_bits(hook):
    ids = [ID_PROVIDER.pop() for _ in range(20_000)]
    assert len(set(ids)) == len(ids) and all(0 <= i < 2**128 for i in ids)
    for bit in range(128):
        share = sum(i >> bit & 1 for i in ids) / len(ids)
        assert 0.47 < share < 0.53, bit
    for lag in (1, 2, 256):  # no arithmetic between neighbours
        differences = {b - a for a, b in zip(ids, ids[lag:], strict=False)}
        assert len(differences) > len(ids) - lag - 2


def test_a_forked_child_draws_other_ids():
    code = (
        "import os, syft as sy\n"
        "from syft.core.id_provider import ID_PROVIDER\n"
        "ID_PROVIDER.pop(); r, w = os.pipe()\n"
        "if os.fork() == 0:\n"
        "    os.write(w, repr([ID_PROVIDER.pop() for _ in range(50)]).encode()); os._exit(0)\n"
        "os.wait(); theirs = set(map(int, os.read(r, 10**5).decode().strip('[]').split(',')))\n"
        "assert len(theirs) == 50 and not theirs & {ID_PROVIDER.pop() for _ in range(600)}\n"
    )
    warm.run(code, cwd=ROOT, check=True)


def test_an_id_does_not_reveal_adjacent_ids(bob):
    """Only the further results of one call follow its first; ids of different calls and sends do not."""
    x = torch.ones(2).send(bob)
    ids = [x.id_at_location, *((x + n).id_at_location for n in range(50))]
    assert min(abs(a - b) for i, a in enumerate(ids) for b in ids[:i]) > 2**64


def test_guessed_ids_find_nothing_and_learn_nothing(bob):
    hidden = ID_PROVIDER.pop()
    bob.object_store.objects[hidden] = torch.ones(2)
    mallory = Mallory(bob)
    for guess in (0, 1, -1, True, "", "me", bob.id, hidden + 1, hidden - 1, str(hidden), hidden >> 1):
        for message in (
            m.ObjectRequestMessage((guess, None, "")),
            m.IsNoneMessage(Ref(guess)),
            m.RetainMessage(guess),
            m.HandOverMessage(guess, "me", 3, True),
        ):
            assert error_name(mallory.ask(message)) == "ObjectNotFoundError"
            assert str(hidden) not in repr(mallory.seen[-1]) or str(hidden) == guess
    assert list(bob._objects) == [hidden]


# --- reuse of ids -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("taken", [7, "name", 2**127])
def test_an_id_in_use_is_not_given_to_something_else(bob, taken):
    bob.object_store.objects[taken] = torch.ones(2)
    mallory = Mallory(bob)
    attempts = [
        m.ObjectMessage(torch.zeros(2), taken), m.ObjectMessage(torch.zeros(2), taken, True), m.ObjectMessage(sy.String("x"), taken),
        m.Operation("torch.zeros", None, (2,), {}, (taken,)), m.Operation("str.upper", None, ("x",), {}, (taken,)),
        m.Operation("torch.Tensor.neg", None, (Ref(taken),), {}, (taken,)), m.BatchMessage((m.ObjectMessage(torch.zeros(2), taken),)),
    ]  # fmt: skip
    if isinstance(taken, int):  # the second result of a call
        attempts.append(m.Operation("torch.Tensor.sort", None, (Ref(taken),), {}, (taken - 1,)))
    for attempt in attempts:
        assert error_name(mallory.ask(attempt)) == "IdNotUniqueError"
        assert bob._objects[taken].tolist() == [1, 1]
    mallory.session.close()
    assert bob._objects[taken].tolist() == [1, 1]


def test_true_and_one_are_one_id(bob):
    bob.object_store.objects[1] = torch.ones(2)
    assert error_name(Mallory(bob).ask(m.ObjectMessage(torch.zeros(2), True))) == "IdNotUniqueError"


def test_claims_of_identity_inside_messages_are_ignored(bob):
    seen = []

    class Noting(DenyAll):
        def allows(self, release):
            seen.append(release.client)
            return False

    bob.object_store.objects[1] = torch.ones(2)
    bob.policy = Noting()
    mallory = Mallory(bob)
    for user in ("owner", bob.id, "me", None, 0):
        assert error_name(mallory.ask(m.ObjectRequestMessage((1, user, "I am the owner")))) == "GetNotPermittedError"
    mallory.call("torch.Tensor.tolist", Ref(1))
    assert set(seen) == {"mallory"}
    seen.clear()
    bob.recv_msg(request((123, (1, 1, "owner", ""))))
    assert set(seen) == {None}  # without a connection nobody is known
    bob.policy = sy.workers.policy.ALLOW_ALL


# --- what one peer may do to another's objects --------------------------------------------------------------------


def test_in_a_sandbox_an_id_is_enough_to_use_an_object(bob):
    """Said plainly: a worker with the open policy trusts all its peers with all its objects."""
    owner, other = Mallory(bob, "owner"), Mallory(bob, "other")
    for use in (
        lambda ref: m.ObjectRequestMessage((ref.id, None, "")),
        lambda ref: m.ForceObjectDeleteMessage(ref.id),
    ):
        ref = owner.keep("torch.ones", 2)
        assert not isinstance(other.ask(use(ref)), m.ErrorMessage)
        assert error_name(owner.ask(m.IsNoneMessage(ref))) == "ObjectNotFoundError"
    ref = owner.keep("torch.ones", 2)
    other.ask(m.ReleaseMessage((ref.id,)))
    assert owner.ask(m.IsNoneMessage(ref)) is False, "letting go of what one never held changes nothing"


def test_under_a_policy_others_may_compute_but_not_take(bob):
    bob.object_store.objects[1] = torch.ones(2)
    bob.policy = DenyAll()
    other = Mallory(bob, "other")
    total = other.keep("torch.Tensor.sum", Ref(1))
    assert error_name(other.ask(m.ObjectRequestMessage((total.id, None, "")))) == "GetNotPermittedError"
    assert error_name(other.ask(m.HandOverMessage(1, "me", 5, False))) == "GetNotPermittedError"
    assert 1 in bob._objects
    other.session.close()
    bob.policy = sy.workers.policy.ALLOW_ALL
    still_answers(bob)


def test_other_users_can_not_keep_objects_alive(bob):
    x = torch.ones(2).send(bob)
    stranger = Mallory(bob)
    for _ in range(5):
        stranger.ask(m.RetainMessage(x.id_at_location))
    stranger.session.close()
    del x
    gc.collect()
    assert not bob._objects


def test_a_worker_is_not_made_to_delete_what_another_holds(bob, alice):
    alice.object_store.objects[5] = torch.ones(2)
    mallory = Mallory(bob)
    meta = (87, (42, 2), (44, "float32"), False, (43, "cpu", None))
    pointer = (60, (81, 1, 5, alice.id, None, (4,), None, True, meta), False, False, 1, None, None)
    assert mallory.raw((122, pointer, 1, False, None)) is None
    mallory.ask(m.ForceObjectDeleteMessage(1))
    gc.collect()
    assert 5 in alice._objects


# --- leaked objects ---------------------------------------------------------------------------


def test_temporaries_end_with_their_session(bob):
    bob.object_store.objects[1] = torch.ones(2)
    for number in range(50):
        peer = Mallory(bob, f"peer {number}")
        for _ in range(5):
            peer.keep("torch.sort", Ref(1))
        peer.ask(m.ObjectMessage(torch.ones(3)))
        peer.call("torch.Tensor.view", Ref(1), 99)
        peer.session.close()
    assert list(bob._objects) == [1]
    assert not bob._sessions


def test_published_objects_outlive_their_sender(bob):
    peer = Mallory(bob)
    peer.ask(m.ObjectMessage(torch.ones(2), 5, True))
    peer.session.close()
    assert list(bob._objects) == [5]


def test_many_calls_leave_no_objects(workers, nothing_left):
    bob, alice = workers
    for turn in range(25):
        x = torch.randn(4, 4).requires_grad_().send(bob)
        y = torch.nn.functional.linear(x, x).relu().sort()[0].sum()
        y.backward()
        z = (x.grad * 2).max(dim=0)
        w = x.send(alice)
        v = w + w
        if turn % 5 == 0:
            x.copy().get()
            with pytest.raises(RuntimeError):
                x.view(3, 3)
        del x, y, z, w, v
    gc.collect()
    bob.synchronize(), alice.synchronize()
    nothing_left(alice, bob)


def test_failed_calls_leave_no_objects(workers, nothing_left):
    bob, _ = workers
    x = torch.ones(3).send(bob)
    for _ in range(20):
        with pytest.raises((RuntimeError, IndexError, TypeError)):
            x.view(7)
            bob.synchronize()
        with pytest.raises(IndexError):
            x[torch.tensor(99).send(bob)]
            bob.synchronize()
    del x
    nothing_left(bob)


def test_calls_do_not_leak_memory(bob):
    x = torch.ones(3).send(bob)
    mallory = Mallory(bob)
    mallory.seen = []

    def turn():
        for _ in range(300):
            x + 1
            mallory.call("torch.nope")
            mallory.call("torch.add", Ref(x.id_at_location), "x")
            mallory.send(b"nonsense")
            mallory.session.release(mallory.keep("torch.ones", 1).id)
            mallory.seen.clear()
        gc.collect()

    with config.override(max_departed=50):
        turn()
        tracemalloc.start()
        turn()
        first = tracemalloc.get_traced_memory()[0]
        turn()
        turn()
        grown = tracemalloc.get_traced_memory()[0] - first
        tracemalloc.stop()
    assert grown < 600 * 100, f"{grown / 600:.0f} bytes a turn"  # of five calls; freelists make some noise
    assert len(bob.object_store._departed) <= 50
