"""Part 08b: a protocol of three plans is deployed, run, uploaded, found, fetched and deployed elsewhere."""

import torch

import syft as sy
from syft.pointers.pointer_protocol import PointerProtocol


def plans():
    """Three plans that each add one."""

    @sy.func2plan(args_shape=[(1,)])
    def add_one(x):
        return x + 1

    return add_one, add_one.copy(), add_one.copy()


def test_introduction_to_protocols(make_worker, kind, nothing_left):
    alice, bob, charlie, james = (make_worker(name, kind) for name in ("alice", "bob", "charlie", "james"))
    me = sy.local_worker

    # made, deployed, run
    first, second, third = plans()
    protocol = sy.Protocol([("worker1", first), ("worker2", second), ("worker3", third)])
    assert protocol.deploy(alice, bob, charlie) is protocol
    x = torch.tensor([1.0])
    with sy.count_messages() as n:
        pointer = protocol.run(x)
    assert pointer.location is charlie
    # one message for the argument, one for each plan, one for each move: nothing of it goes through me
    assert {pair: count for pair, count in n.by_worker.items() if pair[0] == me.id} == {
        (me.id, alice.id): 3,
        (me.id, bob.id): 2,
        (me.id, charlie.id): 1,
    }
    assert {(alice.id, bob.id), (bob.id, charlie.id)} < n.by_worker.keys()
    assert torch.equal(pointer.get(), torch.tensor([4.0]))
    assert torch.equal(x, torch.tensor([1.0]))

    # uploaded: james runs it, and gets a pointer, so there is a pointer to a pointer here
    protocol.tag("my_protocol")
    protocol.send(james)
    there = torch.tensor([1.0]).send(james)
    with sy.count_messages() as n:
        far = protocol.run(there)
    assert far.location is james
    assert n.by_worker[me.id, james.id] == 1 and (me.id, alice.id) not in n.by_worker
    near = far.get()
    assert near.location is charlie
    assert torch.equal(near.get(), torch.tensor([4.0]))

    # found, fetched, run
    (found,) = me.request_search(["my_protocol"], location=james)
    assert type(found) is PointerProtocol and found.location is james
    fetched = found.get()
    assert torch.equal(fetched.run(x).get(), torch.tensor([4.0]))

    # deployed elsewhere
    elsewhere = fetched.copy().deploy(charlie, alice, bob)
    result = elsewhere.run(x)
    assert result.location is bob
    assert torch.equal(result.get(), torch.tensor([4.0]))

    del protocol, fetched, elsewhere, found, first, second, third, there, far, near, pointer, result
    nothing_left(james, alice, bob, charlie)


def test_upload_before_deploying(make_worker, kind, nothing_left):
    """The other order: somebody uploads a protocol of names, somebody else deploys it."""
    alice, bob, charlie, james = (make_worker(name, kind) for name in ("alice", "bob", "charlie", "james"))
    protocol = sy.Protocol(list(zip(("worker1", "worker2", "worker3"), plans(), strict=True)))
    protocol.tag("my_protocol").send(james)
    del protocol
    (found,) = james.search("my_protocol")
    fetched = found.get()
    assert not fetched.workers_resolved
    result = fetched.deploy(alice, bob, charlie).run(torch.tensor([1.0]))
    assert torch.equal(result.get(), torch.tensor([4.0]))
    del fetched, found, result
    nothing_left(james, alice, bob, charlie)
