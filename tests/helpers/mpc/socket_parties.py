"""Workers on real sockets, each in a thread of this process, introduced to each other as processes are."""

from __future__ import annotations

import itertools
import threading
import time

import torch

from syft import config
from syft.messaging.message import RunMessage
from syft.mpc.runtime.cost_meter import RunCost
from syft.mpc.runtime.network import Runtime
from syft.workers.process.child import ProcessPeer, ServedWorker
from syft.workers.transport import handshake
from syft.workers.transport.handshake import Address
from syft.workers.transport.socket_stream import Listener

_number = itertools.count()
# How long parties wait for each other where nobody is lost: a slow machine takes a while. What must not wait for that is
# done in AT_ONCE.
WAIT, AT_ONCE = 60, 50


class Client:
    delegation = via = None

    def __init__(self, client_id="me"):
        self.client_id = client_id


class World:
    """Workers that were introduced to each other, as processes are."""

    def __init__(self, *names):
        self.workers = {name: ServedWorker(name) for name in names}
        self.listeners = {}
        for name, worker in self.workers.items():
            worker.mpc_runtime = Runtime(worker)
            worker.mpc_runtime.notes.begin("me")
            self.listeners[name] = Listener(handshake.listen())
        for one, other in itertools.permutations(names, 2):
            address = Address.fresh(self.listeners[other].port)
            self.listeners[other].announce(self.workers[other], one, address)
            self.workers[one].add_worker(ProcessPeer(other, address))

    def run(
        self, parties, protocol, *args, provider="dealer", client="me", without=(), name="", helper=False, wait=WAIT
    ):
        """Run a protocol; returns (results by index, errors by index). Parties in `without` hear nothing of it."""
        message = RunMessage((), f"run {next(_number)}", name or protocol.__name__, tuple(parties), provider, {}, 0)
        results, errors = {}, {}

        def take_part(index, worker):
            mine = [arg[index] if isinstance(arg, list) else arg for arg in args]
            with config.override(stream_timeout=wait):
                try:
                    worker.mpc_runtime.run(
                        Client(client), message, index, len(parties) + helper,
                        lambda: (lambda party: protocol(party, *mine), None), lambda result: results.__setitem__(index, result),
                    )  # fmt: skip
                except Exception as error:
                    errors[index] = error

        seats = [*parties, *((provider,) if helper else ())]
        threads = [
            threading.Thread(target=take_part, args=(index, self.workers[seat]))
            for index, seat in enumerate(seats)
            if index not in without
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return results, errors

    def close(self):
        for worker in self.workers.values():
            worker.mpc_runtime.close()
        for listener in self.listeners.values():
            listener.close()

    def cost(self, name):
        """Return the cost of all runs of the client "me" at a worker."""
        total = RunCost()
        for _, *figures in self.workers[name].mpc_runtime.notes._noted["me"]:
            total.add(RunCost(*figures, 1))
        return total


def shares(count, *shape):
    return [torch.randint(-(2**62), 2**62, shape) for _ in range(count)]


async def opened(party, x, times=1):
    for _ in range(times):
        (value,) = await party.open(x)
    return value


async def opened_bits(party, x):
    (value,) = await party.open_bits(x)
    return value


def is_right(world, parties, shape=(3,)):
    x = shares(len(parties), *shape)
    results, errors = world.run(parties, opened, x)
    return not errors and all(torch.equal(result, sum(x)) for result in results.values())


def soon(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < end:
        time.sleep(0.01)
    return found
