"""Protocols: a worker that acts for a client does not carry data of others away."""

from __future__ import annotations

import pytest
import torch

import syft as sy
from syft.core.references import Ref
from syft.exceptions import GetNotPermittedError
from syft.messaging import message as m
from syft.messaging.protocol import Protocol
from syft.messaging.protocol.base import MAX_PLANS
from syft.messaging.protocol.schedule import MAX_VALUES
from syft.workers.access.policy import ALLOW_ALL, DenyAll
from tests.helpers.attacks.hostile_peer import TUPLE, Mallory, error_name, request, still_answers

PROTOCOL, ROLE_PROTOCOL, OBJECT = 102, 103, 122


def identity():
    return sy.Plan(forward_func=lambda x: x + 0).build(torch.ones(2))


@pytest.fixture
def stage(make_worker, kind):
    """A worker that keeps somebody's private tensor, and one that works with the attacker."""
    victim, eve = make_worker("victim", kind), make_worker("eve", kind)
    yield victim, eve, torch.tensor([41.4375, -7341.625]).send(victim)
    victim.policy = ALLOW_ALL


class ByTag:
    """Release what is tagged public, and protocols of one client."""

    def __init__(self, *how):
        self.asked = []
        self.how = how

    def allows(self, release):
        self.asked.append((type(release.obj).__name__, release.how))
        if release.how == "run_protocol" and isinstance(release.obj, Protocol):
            return True
        return release.how in self.how and "#public" in sy.core.labels.tags_of(release.obj)


def test_a_protocol_does_not_carry_private_tensors_away(stage):
    victim, eve, private = stage
    pointer = Protocol([("eve", identity())]).deploy(eve).send(victim)
    victim.synchronize()
    before = len(eve._objects)
    for policy in (DenyAll(), ByTag("run_protocol")):
        victim.policy = policy
        for given in ((private,), (torch.ones(2), private)):
            with pytest.raises(GetNotPermittedError, match="run_protocol"):
                pointer.run(*given)
        with pytest.raises(GetNotPermittedError, match="run_protocol"):
            pointer.run(x=private)
        assert len(eve._objects) == before
    victim.policy = ALLOW_ALL
    assert pointer.run(private).get().get().tolist() == [41.4375, -7341.625]


def test_a_local_plan_does_not_carry_private_tensors_away(stage):
    """The victim's own step is no way round."""
    victim, eve, private = stage
    protocol = Protocol([("home", sy.Plan(forward_func=lambda x: x * 2).build(torch.ones(2))), ("eve", identity())])
    shared = torch.ones(2).tag("#public").send(victim)
    deployed = protocol.deploy(victim, eve)
    pointer = deployed.send(victim)
    mallory = Mallory(victim)
    victim.synchronize()
    victim.object_store.claims.publish(pointer.id_at_location, "me")  # others see it
    policy = victim.policy = ByTag("run_protocol")
    with pytest.raises(GetNotPermittedError):
        pointer.run(private)
    answer = mallory.call("syft.run_protocol", Ref(pointer.id_at_location), Ref(shared.id_at_location))
    assert not isinstance(answer, m.ErrorMessage), answer
    assert ("Protocol", "run_protocol") in policy.asked and ("Tensor", "run_protocol") in policy.asked
    victim.policy = ALLOW_ALL
    assert shared.get().tolist() == [1.0, 1.0]
    mallory.session.close()


def test_a_worker_whose_policy_denies_runs_no_protocol(stage):
    """Without any argument of its own: others would see it acting."""
    victim, eve, _ = stage
    pointer = Protocol([("eve", identity())]).deploy(eve).send(victim)
    victim.synchronize()
    victim.policy = DenyAll()
    with sy.count_messages() as n, pytest.raises(GetNotPermittedError):
        pointer.run(torch.ones(2))
    assert (victim.id, eve.id) not in n.by_worker


def test_the_workers_of_a_protocol_have_their_own_policy(stage, make_worker, kind):
    """A result leaves the worker that computed it only if that worker lets it move on."""
    victim, eve, private = stage
    protocol = Protocol([("victim", identity()), ("eve", identity())]).deploy(victim, eve)
    victim.synchronize()
    victim.policy = DenyAll()
    with pytest.raises(GetNotPermittedError, match="move"):
        protocol.run(private)
    with pytest.raises(GetNotPermittedError, match="move"):
        protocol.run(torch.ones(2))

    @sy.func2protocol(args_shape={"owner": [(2,)], "thief": []})
    def steal(owner, thief):
        return owner.input(0).send(thief)

    steal.deploy(victim, eve)
    with pytest.raises(GetNotPermittedError, match="move"):
        steal.run(owner=(private,))


def test_fetching_asks_the_policy(stage):
    victim, eve, _ = stage
    pointer = Protocol([("eve", identity())]).deploy(eve).send(victim)
    victim.synchronize()
    victim.policy = DenyAll()
    with pytest.raises(GetNotPermittedError, match="fetch_protocol"):
        sy.local_worker.fetch_protocol(pointer.id_at_location, victim)
    with pytest.raises(GetNotPermittedError):
        pointer.get()


def test_running_other_objects_as_protocols_is_refused(stage):
    victim, _, private = stage
    mallory = Mallory(victim)
    victim.synchronize()
    assert error_name(mallory.call("syft.run_protocol", Ref(private.id_at_location))) == "CommandNotAllowedError"
    assert error_name(mallory.call("syft.run_protocol")) == "TypeError"
    assert error_name(mallory.call("syft.run_protocol", 3)) == "CommandNotAllowedError"
    mallory.session.close()
    still_answers(victim)


def rows(*steps, roles=("a", "b"), inputs=(1, 1), states=(0, 0), outputs=None):
    return roles, inputs, states, steps, outputs


CHOREOGRAPHIES = {
    "no tuple": 5,
    "no roles": rows(roles=(), inputs=(), states=()),
    "two roles of one name": rows(roles=("a", "a")),
    "roles that are no texts": rows(roles=(1, 2)),
    "inputs of a role that is none": rows(inputs=(1, 1, 1)),
    "less than no inputs": rows(inputs=(-1, 1)),
    "a million inputs": rows(inputs=(10**6, 0)),
    "flags for numbers": rows(inputs=(True, True)),
    "no steps": (("a",), (0,), (0,), 7, None),
    "a step of no kind": rows(("jump", 0, (), ())),
    "a step that is too short": rows(("run", 0)),
    "a role that is none": rows(("run", 2, (), ())),
    "a role below zero": rows(("run", -1, (), ())),
    "a value of another role": rows(("run", 0, (1,), ())),
    "a value before it is there": rows(("run", 0, (2,), ())),
    "a value below zero": rows(("run", 0, (-1,), ())),
    "a result with a taken number": rows(("run", 0, (0,), (1,))),
    "a result that skips numbers": rows(("run", 0, (0,), (9,))),
    "a move of nothing": rows(("move", 5, 2, 1)),
    "a move to a taken number": rows(("move", 0, 1, 1)),
    "a move to nobody": rows(("move", 0, 2, 2)),
    "a moved value used again": rows(("move", 0, 2, 1), ("run", 0, (0,), ())),
    "a moved value moved again": rows(("move", 0, 2, 1), ("move", 0, 3, 1)),
    "results that are not there": rows(outputs=Ref(2)),
    "results of another kind": rows(outputs=object),
    "results by name": rows(outputs=Ref("x")),
    "too many plans": rows(*[("run", 0, (), ())] * (MAX_PLANS + 1)),
    "too many values": rows(*[("run", 0, (), tuple(range(2, MAX_VALUES + 3)))]),
}


@pytest.mark.parametrize("what", CHOREOGRAPHIES)
def test_inconsistent_schedules_are_refused(what):
    from syft.messaging.protocol.schedule import from_rows

    with pytest.raises(sy.exceptions.MalformedPlanError):
        from_rows(CHOREOGRAPHIES[what])


def text(*parts):
    return (TUPLE, *parts)


HONEST = {
    "a protocol": (PROTOCOL, 1, (4,), None, True, text(), text()),
    "roles": (
        ROLE_PROTOCOL,
        1,
        (4,),
        None,
        "x",
        text(text("a"), text(0), text(0), text(), None),
        text(),
        text(text()),
        None,
    ),
}
PAYLOADS = {
    "empty": (PROTOCOL,),
    "no plans": (PROTOCOL, 1, (4,), None, True, text(text("nobody", 3)), text("a")),
    "a number of plans": (PROTOCOL, 1, (4,), None, True, 10**9, text()),
    "names missing": (PROTOCOL, 1, (4,), None, False, text(), text("a")),
    "a label that is none": (PROTOCOL, 1, (4, 7), None, False, text(), text()),
    "roles: empty": (ROLE_PROTOCOL,),
    "roles: no rows": (ROLE_PROTOCOL, 1, (4,), None, "x", 5, text(), text(), None),
    "roles: no plans": (
        ROLE_PROTOCOL, 1, (4,), None, "x",
        text(text("a"), text(0), text(0), text(text("run", 0, text(), text())), None), text(), text(text()), None,
    ),
    "roles: a plan that is a number": (
        ROLE_PROTOCOL, 1, (4,), None, "x",
        text(text("a"), text(0), text(0), text(text("run", 0, text(), text())), None), text(7), text(text()), None,
    ),
    "roles: a state that is a number": (
        ROLE_PROTOCOL, 1, (4,), None, "x", text(text("a"), text(0), text(1), text(), None), text(), text(text(7)), None,
    ),
    "roles: no states": (
        ROLE_PROTOCOL, 1, (4,), None, "x", text(text("a"), text(0), text(1), text(), None), text(), 7, None,
    ),
    "roles: a worker too many": (
        ROLE_PROTOCOL, 1, (4,), None, "x", text(text("a"), text(0), text(0), text(), None), text(), text(text()),
        text("x", "y"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", HONEST)
def test_honest_bytes_are_kept(what, bob):
    """So that the next test refuses the payload and not the envelope."""
    mallory = Mallory(bob)
    assert mallory.send(request((OBJECT, HONEST[what], 99, False, None))) is None
    assert 99 in bob._objects
    mallory.session.close()


@pytest.mark.parametrize("what", PAYLOADS)
def test_hostile_bytes_change_nothing(what, bob):
    mallory = Mallory(bob)
    held = dict(bob._objects)
    answer = mallory.send(request((OBJECT, PAYLOADS[what], 99, False, None)))
    assert error_name(answer) in {"SerdeError", "MalformedPlanError", "WorkerNotFoundError"}, answer
    assert dict(bob._objects) == held
    mallory.session.close()
    still_answers(bob)
