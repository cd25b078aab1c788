"""Noninterference: the bytes that a node sends to a user do not depend on private values.

Two nodes differ in private values only. Every program runs at both at once, and all frames that they send are equal.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import time

import pytest
import torch

import syft as sy
from tests.helpers.attacks.watchers import http, requests_of
from tests.helpers.depth import deep
from tests.helpers.nodes import soon
from tests.helpers.remote.sample import tensors
from tests.helpers.remote.samples import samples
from tests.helpers.rights.noninterference import BIT, Pair, World, difference
from tests.helpers.rights.programs import BINARY, RUNS, UNARY, WAYS
from tests.helpers.rights.table_calls import TableCalls

SESSIONS = deep(300, 5000)
# Number of programs per connection, each with its own tensors and plans.
PROGRAMS = 50
pytestmark = pytest.mark.filterwarnings("ignore")
_users = itertools.cycle(f"user{number}" for number in range(64))


@pytest.fixture(scope="module")
def pair():
    made = Pair()
    try:
        yield made
    finally:
        made.stop()


def run(hook, pair, *programs, thorough=True):
    """Run programs one after another over one connection, and return the number of compared frames."""
    with pair.connect(hook, next(_users)) as (client, pipes):
        left = 0
        private = [client.search(tag)[0] for tag in ("#matrix", "#vector")]
        for program in programs:
            world = World(client, private)
            world.note(lambda program=program, world=world: program(world))
            world.take_everything(thorough)
            world.note(client.synchronize)
            left += len(world.left)
            world.close()
        wait_for_both(pipes)
    assert left > 0
    return compared(pipes)


def parts(items, size):
    """Return a list in parts of one size; the last one may be smaller."""
    return [items[start : start + size] for start in range(0, len(items), size)]


def wait_for_both(pipes):
    """Wait until the second node has sent as many bytes as the first; otherwise the comparison fails."""
    soon(lambda: all(len(pipe.said) <= len(pipe.other_said) for pipe in pipes), 20)


def compared(pipes):
    """Return the number of equal frames."""
    differing, count = difference(pipes)
    assert differing is None, differing
    assert count > 0
    return count


def test_known_leaks_are_closed(hook, pair):
    count = run(hook, pair, *WAYS.values())
    print(f"{len(WAYS)} programs, {count} equal frames")


def test_the_comparison_sees_a_difference(hook, pair):
    """A check of the comparison itself: once the data is public, the bytes differ."""
    for node in pair.nodes:
        http(node, "PUT", f"objects/{BIT}/users", {"users": [], "public": True})
    try:
        with pair.connect(hook, next(_users)) as (client, pipes):
            client.search("#bit")[0].copy().get()
        assert difference(pipes)[0] is not None
    finally:
        for node in pair.nodes:
            http(node, "PUT", f"objects/{BIT}/users", {"users": [], "public": False})


def random_program(rng):
    """Return a program of a few random calls on the client's tensors, the private ones and all results."""
    steps = []
    for _ in range(rng.randrange(3, 14)):
        kind = rng.random()
        table = UNARY if kind < 0.4 else BINARY if kind < 0.85 else (*RUNS, "parameters")
        steps.append((rng.choice(list(table)), rng.randrange(12), rng.randrange(12)))

    def program(world):
        for name, first, second in steps:
            world.add(lambda name=name, first=first, second=second: _do(world, name, first, second))

    return program


def _do(world, name, first, second):
    x, y = (world.pool[place % len(world.pool)] for place in (first, second))
    if name == "parameters":
        return world.plans[2 + first % 2].parameters()
    if name in RUNS:
        return world.plans[RUNS[name]](*((x, y) if RUNS[name] < 2 else (x,)))
    return UNARY[name](x) if name in UNARY else BINARY[name](x, y)


@pytest.mark.timeout(deep(600, 3 * 3600))
def test_random_sessions_leak_nothing(hook, pair):
    rng = random.Random(5)
    began, frames = time.monotonic(), 0
    programs = [random_program(rng) for _ in range(SESSIONS)]
    for number, some in enumerate(parts(programs, PROGRAMS)):
        frames += run(hook, pair, *some, thorough=False)
        done = number * PROGRAMS + len(some)
        if number % 10 == 9 or done == SESSIONS:
            print(f"{done} random sessions, {frames} equal frames, {time.monotonic() - began:.1f} s", flush=True)


def test_every_sample_of_the_table_leaks_nothing(hook, pair):
    """Each call gets an argument whose values depend on a private bit."""
    rng = random.Random(6)
    table = samples()
    chosen = [(name, sample) for name in sorted(table) for sample in table[name] if tensors(sample)]
    began, frames, answered = time.monotonic(), 0, 0
    for part in parts(chosen, 1000):
        user = next(_users)
        with pair.connect(hook, user) as (client, pipes):
            calls = TableCalls(client, rng)
            for some in parts(part, 100):
                calls.run(some)
            wait_for_both(pipes)
            frames += compared(pipes)
            answered += calls.answered
            check_vaults(pair, client, user)
    print(f"{len(chosen)} samples, {answered} answered, {frames} equal frames, {time.monotonic() - began:.1f} s")
    assert answered > 0.9 * len(chosen)


def check_vaults(pair, client, user):
    """Check that the vaults of a user still run calls: if they had ended, later calls would have no values to leak."""
    client.search("#vector")[0].sum().request(reason="to know")
    for node in pair.nodes:
        assert soon(lambda node=node: requests_of(node, user))  # the second one may be behind
        (row,) = requests_of(node, user)
        assert row["size"] is not None, row


def test_answers_to_requests_differ_in_ids_and_times_only(hook, pair):
    """Requests have random ids, so their fields are compared instead of their frames."""
    rows = []
    for node in pair.nodes:
        with contextlib.closing(node.connect(hook, "user63")) as client:
            (vector,) = client.search("#vector")
            told = []
            for result in (vector.sum(), vector / 0, torch.ones(3).send(client).index_select(0, vector.abs().long())):
                request = result.request(reason="to know")
                told.append((request.status(), request.reason))
                with pytest.raises(sy.exceptions.GetNotPermittedError) as refused:
                    result.get()
                told.append(str(refused.value).replace(str(request.id), "ID"))
            rows.append(told)
            hook.local_worker._known_workers.pop(client.id, None)
    assert rows[0] == rows[1]
