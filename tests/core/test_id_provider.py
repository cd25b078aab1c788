"""Ids: 128 bits from the operating system, never repeated, never foreseeable, presettable."""

import os
import random
import subprocess
import sys
import threading
import tracemalloc

import numpy as np
import pytest
import torch

import syft as sy
from syft.core.id_provider import IdProvider, create_random_id
from syft.exceptions import IdNotUniqueError
from syft.generic import id_provider as documented

ROWS = {
    "create_random_id",
    "IdProvider",
    "IdProvider.pop",
    "IdProvider.set_next_ids",
    "IdProvider.start_recording_ids",
    "IdProvider.get_recorded_ids",
}


@pytest.mark.parametrize("row", sorted(ROWS))
def test_documented_names_are_there(row):
    """Rows: every name of syft.generic.id_provider."""
    found = documented
    for part in row.split("."):
        found = getattr(found, part)
    assert callable(found)
    assert found.__doc__


def test_the_provider_of_the_library_is_one():
    assert isinstance(sy.ID_PROVIDER, documented.IdProvider)
    assert sy.ID_PROVIDER is documented.ID_PROVIDER


@pytest.mark.parametrize("draw", [create_random_id, IdProvider().pop, sy.ID_PROVIDER.pop])
def test_every_one_of_128_bits_is_used(draw):
    """Rows: create_random_id, IdProvider.pop."""
    drawn = [draw() for _ in range(600)]
    assert all(type(value) is int and 0 <= value < 2**128 for value in drawn)
    for bit in range(128):
        ones = sum(value >> bit & 1 for value in drawn)
        assert 150 < ones < 450, f"bit {bit} is set in {ones} of 600"


def test_two_hundred_thousand_ids_differ():
    """Row: IdProvider.pop."""
    provider = IdProvider()
    drawn = {provider.pop() for _ in range(100_000)} | {sy.ID_PROVIDER.pop() for _ in range(100_000)}
    assert len(drawn) == 200_000


def test_seeds_do_not_reach_ids():
    def seeded():
        random.seed(7)
        np.random.seed(7)
        torch.manual_seed(7)
        return IdProvider().pop(), create_random_id(), sy.ID_PROVIDER.pop()

    state = random.getstate(), torch.get_rng_state()
    try:
        assert not set(seeded()) & set(seeded())
        # ... and drawing ids leaves the user's own random numbers alone.
        random.seed(3)
        torch.manual_seed(3)
        expected = random.random(), torch.rand(1).item()
        random.seed(3)
        torch.manual_seed(3)
        sy.ID_PROVIDER.pop(), create_random_id()
        assert (random.random(), torch.rand(1).item()) == expected
    finally:
        random.setstate(state[0])
        torch.set_rng_state(state[1])


def test_pop_ignores_arguments():
    """Row: IdProvider.pop(*args)."""
    assert IdProvider([5]).pop("anything", 3) == 5


def test_many_ids_leave_no_memory_behind():
    provider = IdProvider()
    provider.pop()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(60_000):
            provider.pop()
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 50_000, f"60,000 ids left {grown} bytes"


FORKING = """
import os, json
from syft.core.id_provider import ID_PROVIDER, IdProvider, create_random_id
mine = IdProvider()
sources = [ID_PROVIDER.pop, mine.pop, create_random_id]
for draw in sources:
    draw()  # so that there is something prepared which the child would inherit
read, write = os.pipe()
child = os.fork()
drawn = [draw() for draw in sources for _ in range(700)]
if child == 0:
    os.close(read)
    with os.fdopen(write, "w") as pipe:
        json.dump(drawn, pipe)
    os._exit(0)
os.close(write)
with os.fdopen(read) as pipe:
    theirs = json.load(pipe)
assert os.waitpid(child, 0)[1] == 0
assert len(theirs) == len(drawn) == 2100
print(len(set(drawn) | set(theirs)))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system can't fork")
def test_parent_and_forked_child_never_give_the_same_id():
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FORKING], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "4200"


def test_threads_never_get_the_same_id():
    provider = IdProvider()
    drawn: list[list[int]] = [[] for _ in range(8)]

    def draw(into):
        into.extend(provider.pop() for _ in range(3000))

    threads = [threading.Thread(target=draw, args=(into,)) for into in drawn]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({value for into in drawn for value in into}) == 24_000


@pytest.mark.parametrize("given", [[1, 2, 3], ["a", "b"], [0], (4, 5)])
def test_preset_ids_come_first_in_reverse(given):
    """Rows: IdProvider(given_ids), IdProvider.set_next_ids."""
    by_constructor = IdProvider(given)
    by_method = IdProvider()
    by_method.set_next_ids(list(given))
    for provider in (by_constructor, by_method):
        assert [provider.pop() for _ in given] == list(reversed(given))
        assert provider.pop() > 2**64  # a fresh one


def test_preset_ids_pile_up():
    provider = IdProvider()
    provider.set_next_ids([1, 2])
    provider.set_next_ids([3])
    assert [provider.pop() for _ in range(3)] == [3, 2, 1]


@pytest.mark.parametrize("again", [[2], [9, 2], [9, 9]])
def test_ids_given_before_are_refused(again):
    """Row: IdProvider.set_next_ids -> IdNotUniqueError."""
    provider = IdProvider([1, 2])
    provider.pop()
    with pytest.raises(IdNotUniqueError, match=r"Provided IDs \{.+\} are contained in already generated IDs"):
        provider.set_next_ids(again)
    assert provider.pop() == 1, "a refused list changes nothing"
    assert provider.pop() > 2**64


def test_the_check_can_be_left_out():
    """Row: IdProvider.set_next_ids(check_ids=False)."""
    provider = IdProvider([1])
    provider.set_next_ids([1, 1], check_ids=False)
    assert [provider.pop() for _ in range(3)] == [1, 1, 1]


def test_the_callers_list_stays_the_callers():
    given = [1, 2]
    provider = IdProvider()
    provider.set_next_ids(given)
    provider.pop()
    assert given == [1, 2]


def test_recording():
    """Rows: IdProvider.start_recording_ids, IdProvider.get_recorded_ids."""
    provider = IdProvider()
    provider.pop()
    assert provider.get_recorded_ids() == []
    provider.start_recording_ids()
    provider.set_next_ids([7])
    drawn = [provider.pop() for _ in range(3)]
    assert drawn[0] == 7
    so_far = provider.get_recorded_ids(continue_recording=True)
    assert so_far == drawn
    drawn.append(provider.pop())
    assert len(so_far) == 3, "what was returned does not change"
    assert provider.get_recorded_ids() == drawn
    provider.pop()
    assert provider.get_recorded_ids() == []


def test_a_new_recording_starts_empty():
    provider = IdProvider()
    provider.start_recording_ids()
    provider.pop()
    provider.start_recording_ids()
    last = provider.pop()
    assert provider.get_recorded_ids() == [last]


def test_tensors_and_pointers_draw_from_it(hook, bob):
    sy.ID_PROVIDER.set_next_ids(["second-42", "first-42"], check_ids=False)
    assert torch.ones(1).id == "first-42"
    assert sy.String("x").id == "second-42"
    sy.ID_PROVIDER.start_recording_ids()
    pointer = torch.ones(1).send(bob)
    assert pointer.id_at_location in sy.ID_PROVIDER.get_recorded_ids()
