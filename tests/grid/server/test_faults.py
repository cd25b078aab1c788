"""Faults of real machines: nodes as processes that are killed, cut off, slowed down, out of disk, with wrong clocks."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import threading
import time

import pytest
import torch

import syft as sy
from syft import config
from syft.exceptions import AuthenticationError, NodeLostError, StorageFullError, SyftError
from syft.messaging.message import ObjectMessage, ObjectRequestMessage
from syft.workers.transport.framing import REQUEST
from syft.workers.transport.request_codec import write_request
from tests.helpers import warm_processes as warm
from tests.helpers.attacks.live_client import Visitor
from tests.helpers.depth import deep
from tests.helpers.nodes import Line, NodeProcess, forget, node

SOAK_SECONDS = float(os.environ.get("RESYFT_SOAK_SECONDS", deep(3, 60)))


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A node with tokens, of which nothing is kept. It has patience with clients that are slow."""
    with node("faults", grace=20.0) as process:
        yield process


@pytest.fixture(scope="module")
def hasty():
    """A node that soon gives up who is silent."""
    with node("hasty", heartbeat=2.0, grace=20.0) as process:
        yield process


@contextlib.contextmanager
def over_a_line(hook, process):
    """A node as alice sees it, over a line that can be cut; and the line."""
    line = Line(process.port)
    client = process.connect(hook, port=line.port)
    try:
        yield client, line
    finally:
        line.go_on()
        forget(hook, client)
        line.close()


@pytest.fixture
def over_line(hook, plain):
    with over_a_line(hook, plain) as made:
        yield made


@pytest.fixture
def alice(over_line):
    return over_line[0]


@pytest.fixture
def line(over_line):
    return over_line[1]


# --- nothing that was acknowledged is lost ------------------------------------------------------------------------


@pytest.fixture
def impatient():
    """Streams that give a lost node up at once."""
    config.configure(reconnect_timeout=0.5)
    yield
    config.configure(reconnect_timeout=30.0)


def test_kill_9_loses_no_acknowledged_object(hook, tmp_path, impatient):
    process = NodeProcess("kept", store=str(tmp_path / "store"))
    promised = {}
    try:
        for round_number in range(2):
            client = process.connect(hook)
            stop = threading.Event()
            started = threading.Event()

            def publish(client=client, round_number=round_number, stop=stop, started=started):
                number = 0
                with sy.acting_as(hook.local_worker):
                    while not stop.is_set():
                        size = (10, 1000, 50_000)[number % 3]
                        value = torch.full((size,), float(1000 * round_number + number))
                        try:
                            pointer = value.tag(f"#value-{round_number}-{number}").describe("kept").send(client)
                            client.synchronize()
                        except SyftError:
                            return
                        promised[f"#value-{round_number}-{number}"] = (pointer.id_at_location, value)
                        number += 1
                        if number > 3:
                            started.set()

            thread = threading.Thread(target=publish)
            thread.start()
            assert started.wait(60)
            time.sleep(0.05 + 0.07 * round_number)
            process.kill()
            stop.set()
            thread.join(60)
            forget(hook, client)
            process.start()
        client = process.connect(hook)
        assert len(promised) >= 8
        for tag, (obj_id, value) in promised.items():
            (found,) = client.search(tag)
            assert found.id_at_location == obj_id and found.description == "kept"
            assert torch.equal(found.copy().get(), value)
        forget(hook, client)
    finally:
        process.stop()


def test_an_object_stays_if_its_response_did_not_arrive(hook, tmp_path, impatient):
    process = NodeProcess("unseen", store=str(tmp_path / "store"))
    line = Line(process.port)
    try:
        client = process.connect(hook, port=line.port)
        value = torch.randn(1 << 20)
        pointer = value.tag("#large").send(client)
        client.synchronize()
        line.cut_after_received = 1 << 20  # in the middle of the answer
        line.refuse()
        with pytest.raises(NodeLostError):
            pointer.get()
        forget(hook, client)
        process.kill()
        process.start()
        client = process.connect(hook)
        (found,) = client.search("#large")
        assert torch.equal(found.get(), value)
        assert client.search("#large") == []
        forget(hook, client)
    finally:
        line.close()
        process.stop()


# --- connections that break ---------------------------------------------------------------------------------------


def test_a_connection_lost_in_the_middle_of_100_mb(alice, line):
    value = torch.randn(25 * 10**6)
    line.cut_after_sent = 60 * 10**6
    pointer = value.send(alice)
    alice.synchronize()
    assert line.cuts == 1
    line.cut_after_received = 40 * 10**6
    assert torch.equal(pointer.get(), value)
    assert line.cuts == 2


@pytest.mark.timeout(120)
def test_a_connection_lost_while_a_plan_runs_runs_it_once(plain, alice, line):
    @sy.func2plan(args_shape=[(1,)], state=(torch.zeros(1), torch.full((700, 700), 1e-3)))
    def count(x, state):
        total, factor = state.read()
        total.add_(x)
        product = factor
        for _ in range(45):
            product = torch.tanh(product @ factor)
        return total + 0 * product.sum()

    plan = count.send(alice)
    one = torch.ones(1).send(alice)
    alice.synchronize()
    for number in range(1, deep(3, 7)):
        before, results = figures(plain), []
        waiting = threading.Thread(target=lambda found=results: found.append(plan(one).get().item()))
        waiting.start()
        soon(lambda before=before: figures(plain)["syft_received_bytes_total"] > before["syft_received_bytes_total"])
        time.sleep(0.1)  # what is on its way has come by now, and the plan runs
        line.cut()
        running = figures(plain)
        waiting.join(60)
        assert running["syft_requests_total"] == before["syft_requests_total"], "the line was cut after the plan"
        assert results == [number] and line.cuts == number
        assert figures(plain)["syft_requests_total"] > before["syft_requests_total"]


def test_a_pulled_cable_is_noticed_at_both_ends(hook, hasty):
    with over_a_line(hook, hasty) as (alice, line):
        pull(hasty, alice, line)


def pull(process, alice, line):
    x = torch.ones(3).send(alice)
    alice.synchronize()
    stream = sy.local_worker.stream_to(alice)
    soon(lambda: connections(process) == 1)
    line.stall()
    config.configure(heartbeat=0.5)
    noticed = []

    def mend():
        try:
            soon(lambda: connections(process) == 0)
            noticed.append("by the node")
        finally:
            line.go_on()

    try:
        thread = threading.Thread(target=mend)
        thread.start()
        assert torch.equal(x.get(), torch.ones(3))
        thread.join(60)
    finally:
        config.configure(heartbeat=20.0)
    assert noticed and stream.reconnects >= 1


def test_a_slow_reader_does_not_block_other_clients(hook, hasty):
    """Somebody asks for much and never reads it: others are served meanwhile, and it is let go."""
    with over_a_line(hook, hasty) as (alice, _):
        read_slowly(hasty, alice)


def read_slowly(process, alice):
    soon(lambda: connections(process) == 1)
    slow = Visitor(process.url, process.tokens["bob"])
    slow.connection.write_soon(REQUEST, 1, write_request(None, (), ObjectMessage(torch.randn(10 << 20), "much"), False))
    slow.connection.write_soon(REQUEST, 2, write_request(None, (), ObjectRequestMessage(("much", None, "")), True))
    slow.connection.flush()
    served, end = 0, time.monotonic() + 90
    while connections(process) > 1 and time.monotonic() < end:
        assert torch.equal((torch.ones(2).send(alice) * 2).get(), torch.full((2,), 2.0))
        served += 1
    slow.close()
    assert served and time.monotonic() < end


def test_half_open_sockets_are_given_up(hook, hasty):
    """A client that is stopped, but whose machine keeps the connection open, does not stay for ever."""
    with over_a_line(hook, hasty) as (alice, _):
        stop_in_the_middle(hasty, alice)


def stop_in_the_middle(process, alice):
    code = (
        "import sys, torch, time, syft as sy\n"
        "hook = sy.TorchHook(torch)\n"
        "node = sy.connect(sys.argv[1], token=sys.argv[2], hook=hook)\n"
        "x = torch.ones(3).tag('#half-open').send(node)\nnode.synchronize()\nprint('here', flush=True)\ntime.sleep(200)\n"
    )
    child = warm.popen(code, process.url, process.tokens["bob"], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline().strip() == "here"
        soon(lambda: connections(process) == 2)
        child.send_signal(19)  # SIGSTOP
        soon(lambda: connections(process) == 1)
        assert alice.search("#half-open")  # what it published stays
    finally:
        child.kill()
        child.wait(60)
        child.stdout.close()


def figures(process):
    """Metrics of a node."""
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", process.port, timeout=60)
    connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {process.tokens['owner']}"})
    text = connection.getresponse().read().decode()
    connection.close()
    return {name: float(value) for name, value in (row.split() for row in text.splitlines() if row and row[0] != "#")}


def connections(process):
    """How many streams a node has."""
    return figures(process)["syft_connections"]


def soon(condition, seconds=90.0):
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to pass in time"
        time.sleep(0.05)


# --- disks and clocks ---------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path):
    """A disk of six megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    made = shutil.which("mount") and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if not made or made.returncode:
        pytest.skip("a small disk needs the right to mount one")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_refuses_and_goes_on(hook, small_disk):
    with node("full", store=str(small_disk / "store")) as process:
        client = process.connect(hook)
        kept = []
        with pytest.raises(StorageFullError):
            for number in range(20):
                value = torch.randn(125_000)
                value.tag(f"#part-{number}").send(client)
                client.synchronize()
                kept.append(value)
        assert 3 < len(kept) < 20
        assert torch.equal((torch.ones(2).send(client) + 1).get(), torch.full((2,), 2.0))  # it goes on
        assert client.search(f"#part-{len(kept)}") == []
        forget(hook, client)
        process.kill()
        process.start()
        client = process.connect(hook)
        for number, value in enumerate(kept):
            (found,) = client.search(f"#part-{number}")
            assert torch.equal(found.copy().get(), value)
        client.search("#part-0")[0].get()  # makes room
        torch.ones(1000).tag("#after").send(client)
        client.synchronize()
        forget(hook, client)


def test_clocks_that_differ(hook):
    skewed = (
        "from syft.grid.identity.tokens import Tokens\nimport time\n"
        "clocks = {'ahead': 3000.0, 'little-ahead': 10.0, 'behind': -5000.0, 'little-behind': -10.0}\n"
        "own = node.identity.tokens\n"
        "made = {}\n"
        "for name, skew in clocks.items():\n"
        "    real, own._clock = own._clock, (lambda skew=skew: time.time() + skew)\n"
        "    made[name] = own.issue('alice', 'user', 3600)\n"
        "    own._clock = real\n"
        "import json; open(settings['owner'], 'w').write(json.dumps(made))\n"
    )
    import tempfile

    with tempfile.NamedTemporaryFile("r", suffix=".json") as file, node("clocks", prepare=skewed, owner=file.name) as p:
        tokens = json.loads(file.read())
        for name in ("little-ahead", "little-behind"):
            client = sy.connect(p.url, token=tokens[name], hook=hook)
            assert client.search("#nothing") == []
            forget(hook, client)
        for name in ("ahead", "behind"):
            with pytest.raises(AuthenticationError):
                sy.connect(p.url, token=tokens[name], hook=hook)


# --- many at once -------------------------------------------------------------------------------------------------

CLIENTS = """
import sys, threading, time, random
import torch, syft as sy
torch.set_num_threads(1)
url, token, first, count, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
hook = sy.TorchHook(torch)
from syft.workers.node_client import NodeClient
from syft.workers.virtual import VirtualWorker
mixed, lost, done = [], [], {first + i: 0 for i in range(count)}
ready = threading.Barrier(count, timeout=200)

def work(number):
    me = VirtualWorker(hook, id=f"client-{number}", auto_add=False)
    generator = torch.Generator().manual_seed(number)
    try:
        with sy.acting_as(me):
            there = NodeClient(hook, url, token=token, auto_add=False)
            total = torch.zeros(4)
            running = total.send(there)
            running.add_(total.send(there))
            (total.send(there) * 2).get()  # the first calls of a process load much of torch
            ready.wait()
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                value = torch.randn(4, generator=generator) + number * 1000
                running.add_(value.send(there))
                total = total + value
                answer = (value.send(there) * 2).get()
                if not torch.equal(answer, value * 2):
                    mixed.append(number)
                done[number] += 1
                time.sleep(0.01)
            if not torch.allclose(running.get(), total, rtol=1e-4):
                lost.append(number)
            me.close()
    except Exception as error:
        lost.append((number, repr(error)))

threads = [threading.Thread(target=work, args=(first + i,)) for i in range(count)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(len(mixed), len(lost), min(done.values()), lost[:3], flush=True)
"""


@pytest.mark.timeout(SOAK_SECONDS + 300)
def test_fifty_clients_get_exactly_their_own_answers(plain):
    """50 clients in 5 processes, at once; for a minute with RESYFT_DEEP=1."""
    children = [
        warm.popen(
            CLIENTS,
            plain.url,
            plain.tokens[user],
            first,
            10,
            SOAK_SECONDS,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        for first, user in zip(range(0, 50, 10), ("alice", "bob", "alice", "bob", "owner"), strict=True)
    ]
    said = [child.communicate(timeout=SOAK_SECONDS + 250)[0].split(maxsplit=3) for child in children]
    assert [(row[0], row[1]) for row in said] == [("0", "0")] * 5, said
    assert min(int(row[2]) for row in said) >= 2, said  # by the client that got the fewest


def test_a_second_listener_on_the_port_is_refused_with_one_line():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        from syft.grid.server.port_server import PortServer

        with pytest.raises(SyftError, match="can't be opened"):
            PortServer(None, "127.0.0.1", taken.getsockname()[1])
