"""Parties and dealer as nodes: they compute with each other directly, with TLS, for clients with tokens."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

import syft as sy
from syft import config
from syft.core.context import acting_as
from syft.exceptions import (
    GetNotPermittedError,
    NodeLostError,
    PartyLostError,
    ProtocolError,
    SessionEndedError,
    SyftError,
)
from syft.grid import certificates
from syft.mpc.runtime import client as runtime_client
from syft.mpc.runtime.protocol_registry import PROTOCOLS
from syft.workers.websocket_client import WebsocketClientWorker
from tests.helpers.mpc import network_child
from tests.helpers.nodes import Line, NodeProcess, forget

pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("nodes")]
NAMES = ("mpc-a", "mpc-b", "mpc-c", "mpc-dealer")
PREPARE = "from tests.helpers.mpc import network_child; network_child.register()"


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return certificates.make_authority(tmp_path_factory.mktemp("team"), "team")


def kept_port():
    """Return a free port that nobody gets who asks the system for any: those begin at 32768."""
    for port in range(20_000 + os.getpid() % 10_000, 32_000):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("no free port")


@pytest.fixture(scope="module")
def nodes(authority, tmp_path_factory):
    """Four nodes, each in a process of its own; they know more protocols, for parties that misbehave."""
    names = network_child.register()
    made = certificates.issue(authority, ["localhost", "127.0.0.1"], tmp_path_factory.mktemp("node"))
    settings = {"certificate": str(made.certificate), "key": str(made.key), "ca": str(authority.certificate)}

    def start(name):
        own = {}
        if name == "mpc-c":  # the one that is killed, and started again on the same port
            own = {"store": str(tmp_path_factory.mktemp("store")), "port": kept_port()}
        return NodeProcess(name, before=PREPARE, **settings, **own)

    with ThreadPoolExecutor(len(NAMES)) as pool:
        started = list(pool.map(start, NAMES))
    yield started
    for node in started:
        node.stop()
    for name in names:
        del PROTOCOLS[name]


@pytest.fixture
def workers(hook, nodes, authority):
    """The nodes as alice sees them: three parties and a dealer."""
    made = [node.connect(hook, "alice", ca=authority.certificate) for node in nodes]
    yield made
    gc.collect()
    forget(hook, *made)


def run(name, x, **options):
    return runtime_client.run(name, x.child, **options)


def told(*workers):
    """Return the errors that workers still have to tell."""
    errors = []
    for worker in workers:
        try:
            worker.synchronize()
        except SyftError as error:
            errors.append(error)
    return errors


def is_right(parties, dealer):
    x = torch.tensor([3, -4]).share(*parties, crypto_provider=dealer)
    return (x * x).get().tolist() == [9, 16]


def restart(node):
    """Start a node again that was killed, on the same port."""
    node.process.wait(60)
    node.process.stdout.close()
    node.args[-2] = json.dumps({**node.settings, "port": node.port})
    node.start()


# --- what is computed -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 3])
def test_arithmetic(workers, count):
    parties, dealer = workers[:count], workers[3]
    x = torch.tensor([1, -2, 3]).share(*parties, crypto_provider=dealer)
    y = torch.tensor([4, 5, -6]).share(*parties, crypto_provider=dealer)
    for _ in range(3):
        assert (x * y).get().tolist() == [4, -10, -18]
    assert (x + y - 1).get().tolist() == [4, 2, -4]
    assert (x > y).get().tolist() == [0, 0, 1]
    values = torch.tensor([[1.5, -2.25], [0.1, 3.0]])
    z = values.fix_precision().share(*parties, crypto_provider=dealer)
    torch.testing.assert_close((z @ z).get().float_precision(), values @ values, atol=5e-3, rtol=0)


def test_much_at_once(workers):
    """More than all buffers between two nodes hold goes both ways at the same time."""
    values = torch.arange(1_200_000)
    x = values.share(*workers[:2], crypto_provider=workers[3])
    assert torch.equal((x * x).get(), values * values)
    assert (x[:0] * x[:0]).get().shape == (0,)


@pytest.mark.parametrize("protocol", ["fss", "snn"])
def test_other_protocols(workers, protocol):
    values = torch.tensor([5, -3, 0, 2**40])
    x = values.share(*workers[:2], crypto_provider=workers[3], protocol=protocol)
    assert torch.equal((x > 0).get(), (values > 0).long())


def test_a_network_predicts_and_learns(workers):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(18, 3))
    images, classes = torch.randn(2, 1, 8, 8), torch.tensor([[1.0, 0, 0], [0, 0, 1]])
    expected = model(images)
    loss = ((expected - classes) ** 2).mean()
    loss.backward()
    plain = model[4].weight.detach() - 0.5 * model[4].weight.grad
    model.zero_grad()
    form = {"base": 2, "precision_fractional": 16}
    a, b, _, dealer = workers
    model.fix_precision(**form).share(a, b, crypto_provider=dealer)
    x, y = (t.fix_precision(**form).share(a, b, crypto_provider=dealer) for t in (images, classes))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    found = model(x)
    torch.testing.assert_close(found.copy().get().float_precision(), expected.detach(), atol=1e-2, rtol=0)
    ((found - y) ** 2).mean().backward()
    optimizer.step()
    torch.testing.assert_close(model[4].weight.get().float_precision(), plain, atol=1e-2, rtol=0)


def test_a_plan_on_shares(workers):
    a, b, _, dealer = workers

    @sy.func2plan(args_shape=[(2,)])
    def twice_and_relu(x):
        return torch.relu(x + x)

    x = torch.tensor([1.5, -1.0]).fix_precision().share(a, b, crypto_provider=dealer)
    assert twice_and_relu(x).get().float_precision().tolist() == [3.0, 0.0]


def test_costs_are_counted(workers):
    a, b, _, dealer = workers
    x = torch.tensor([1, 2]).share(a, b, crypto_provider=dealer)
    with sy.mpc.count() as tally:
        y = x * x
    assert (tally.runs, tally.rounds) == (1, 1) and tally.bytes > 0
    with sy.count_messages() as messages:
        y = y + x
    assert messages.messages >= 2


# --- from node to node ------------------------------------------------------------------------------------------------


def test_tensors_go_from_node_to_node(workers):
    a, b, _, _ = workers
    moved = torch.tensor([1.0, 2.0]).send(a).move(b)
    assert moved.location is b and (moved + 1).get().tolist() == [2, 3]
    there = torch.tensor([1.0, 2.0]).send(a)
    there.remote_send(b)  # now a pointer at a, to b
    assert there.location is a and (there * 2).get().get().tolist() == [2, 4]
    there.remote_get()
    assert there.get().tolist() == [1, 2]
    chain = torch.tensor([5.0]).send(a).send(b)
    assert chain.get().get().tolist() == [5]


def test_t1_gradients_flow_back_from_node_to_node(workers):
    a, b, _, _ = workers
    w = torch.tensor([1.0, 2.0], requires_grad=True).send(a)
    loss = ((w * w).move(b, requires_grad=True) * 3).sum()
    loss.backward()
    assert w.grad.copy().get().tolist() == [6, 12]
    x = torch.tensor([1.0, 2.0])
    x.send(a, requires_grad=True).move(b, requires_grad=True).pow(2).sum().backward()
    assert x.grad.tolist() == [2, 4]


def test_t1_gradients_of_private_data_stay_at_the_node(hook, nodes, authority, workers):
    a, b, _, _ = workers
    owner = nodes[0].connect(hook, "owner", ca=authority.certificate)
    secret = torch.tensor([3.0, 5.0]).tag("#t1-secret").send(owner)
    owner.synchronize()
    try:
        (private,) = a.search("#t1-secret")
        with pytest.raises(GetNotPermittedError):
            private.move(b, requires_grad=True)
        x = torch.tensor([1.0, 2.0]).send(b)
        loss = (x.move(a, requires_grad=True) * private).sum()
        with pytest.raises(GetNotPermittedError):
            loss.backward()
        assert x.grad is None
        y = torch.tensor([1.0, 2.0])
        loss = (y.send(a, requires_grad=True) * private).sum()
        with pytest.raises(GetNotPermittedError):
            loss.backward()
        assert y.grad is None
    finally:
        secret.delete()
        forget(hook, owner)


def test_an_owner_shares_where_the_data_is(workers):
    a, b, _, dealer = workers
    shared = torch.tensor([1.5, -2.0]).send(a).fix_precision().share(a, b, crypto_provider=dealer)
    assert (shared + shared).get().get().float_precision().tolist() == [3.0, -4.0]
    mine = shared.get()
    assert (mine * mine).get().float_precision().tolist() == [2.25, 4.0]


# --- several clients --------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def client(hook, nodes, authority, user, name):
    """Act as another client of the same nodes."""
    me = sy.VirtualWorker(hook, id=name, auto_add=False)
    with acting_as(me):
        made = [
            WebsocketClientWorker(
                None, "localhost", n.port, True, n.id, token=n.tokens[user], ca=authority.certificate, auto_add=False
            )
            for n in nodes
        ]
        yield made
        for worker in made:
            worker.close()
    me.close()


def test_clients_do_not_get_in_each_others_way(hook, nodes, authority):
    """Two sessions of alice and one of bob compute with the same nodes at once, in different orders of parties."""
    found, errors = {}, []

    def compute(number, user):
        try:
            with client(hook, nodes, authority, user, f"client-{number}") as (a, b, _, dealer):
                x = torch.arange(4).share(*((b, a) if number == 2 else (a, b)), crypto_provider=dealer)
                for _ in range(4):
                    found.setdefault(number, []).append((x * x + number).get().tolist())
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=compute, args=pair) for pair in enumerate(["alice", "alice", "bob"])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors
    assert found == {number: [[number, 1 + number, 4 + number, 9 + number]] * 4 for number in range(3)}


# --- what goes wrong --------------------------------------------------------------------------------------------------


def test_a_connection_between_nodes_is_lost_during_a_run(nodes, workers):
    a, b, _, dealer = workers
    line = Line(nodes[0].port)
    a.peer_url = f"wss://localhost:{line.port}"
    try:
        x = torch.arange(500).share(a, b, crypto_provider=dealer)
        assert torch.equal((x * x).get(), torch.arange(500) ** 2)  # b reaches a by the line
        line.cut_after_sent = 20_000
        y = run("test_open", x, times=20)
        errors = told(a, b)
        assert line.cuts == 1 and len(errors) == 1 and isinstance(errors[0], ProtocolError)
        del y
        assert torch.equal((x * x).get(), torch.arange(500) ** 2)
    finally:
        line.close()


def test_the_connection_of_the_client_is_lost_during_a_run(hook, nodes, authority, workers):
    a, b, _, dealer = workers
    line = Line(nodes[1].port)
    forget(hook, b)
    b = nodes[1].connect(hook, "alice", ca=authority.certificate, port=line.port)
    b.peer_url = nodes[1].url
    try:
        x = torch.arange(50).share(a, b, crypto_provider=dealer)
        for _ in range(3):
            y = x * x
            line.cut()
            y = y + x
            assert torch.equal(y.get(), torch.arange(50) ** 2 + torch.arange(50))
        assert line.cuts == 3
    finally:
        forget(hook, b)
        line.close()


def test_a_party_that_hangs(nodes, workers):
    a, b, c, dealer = workers
    x = torch.tensor([1, 2]).share(a, b, crypto_provider=dealer)
    assert is_right((a, b), dealer)
    nodes[1].pause()
    try:
        began = time.monotonic()
        with config.override(stream_timeout=2):
            y = x * x  # a gets the timeout for b
        with pytest.raises(PartyLostError, match="'mpc-b'"):
            a.synchronize()
            a.synchronize()
        assert time.monotonic() - began < 40  # the usual time is more
        del y
    finally:
        nodes[1].go_on()
    told(a, b)
    assert is_right((a, c), dealer) and is_right((a, b), dealer)


def test_a_party_that_is_killed(nodes, workers):
    a, b, c, dealer = workers
    x = torch.tensor([1, 2, 3]).share(a, b, c, crypto_provider=dealer)
    began = time.monotonic()
    y = run("test_die", x, who=2)
    errors = told(a, b) or told(c)  # one error is raised, from the first node that noticed
    assert time.monotonic() - began < 20
    (error,) = errors
    if isinstance(error, PartyLostError):
        assert "'mpc-c'" in str(error)
    else:
        assert isinstance(error, SessionEndedError) and "while it ran test_die" in str(error)
    del y
    assert is_right((a, b), dealer)
    with pytest.raises(SyftError, match="mpc-c|Your session at this node ended"):  # only the process of its user died
        (x + x).get()
    told(a, b, c)
    assert is_right((a, b, c), dealer)
    x = torch.tensor([1, 2, 3]).share(a, b, c, crypto_provider=dealer)
    nodes[2].process.kill()
    restart(nodes[2])
    with pytest.raises(NodeLostError, match="mpc-c"):
        (x + x).get()
    told(a, b)
    assert is_right((a, b, c), dealer) and is_right((c, a), dealer)


def test_workers_of_this_process_and_nodes_do_not_mix(hook, workers):
    local = sy.VirtualWorker(hook, id="local-party")
    x = torch.tensor([1]).share(workers[0], local, crypto_provider=workers[3])
    with pytest.raises(ProtocolError, match="in this process and some on nodes"):
        x * x
    hook.local_worker._known_workers.pop("local-party")


def test_servers_without_tokens(hook):
    """A teacher starts workers on this machine, and shares over them."""
    with contextlib.ExitStack() as stack:
        made = [sy.WebsocketServerWorker(hook, id=f"lesson-{name}") for name in ("a", "b", "dealer")]
        for server in made:
            server.start(background=True)
            stack.callback(server.stop)
            hook.local_worker._known_workers.pop(server.id)
        a, b, dealer = [WebsocketClientWorker(hook, "localhost", server.port, id=server.id) for server in made]
        x = torch.tensor([1.5, -2.0]).fix_precision().share(a, b, crypto_provider=dealer)
        assert torch.relu(x * x + x).get().float_precision().tolist() == [3.75, 2.0]
        forget(hook, a, b, dealer)


def test_a_server_of_this_process_computes_in_lockstep_with_others_of_it(hook):
    here = sy.WebsocketServerWorker(hook, id="lockstep-a")
    others = [sy.VirtualWorker(hook, id=f"lockstep-{name}") for name in "bc"]
    x = torch.tensor([3]).share(here, others[0], crypto_provider=others[1])
    assert (x * x).get().tolist() == [9]
    for worker in (here, *others):
        hook.local_worker._known_workers.pop(worker.id)
