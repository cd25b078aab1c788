"""Texts of pointers: on one line, with the shape, and with ids that can be typed."""

from __future__ import annotations

import re

import pytest
import torch
from torch import nn

import syft as sy
from syft.core.id_provider import create_random_id, find_named, names_id, short_id
from syft.exceptions import ObjectNotFoundError
from tests.helpers import processes

hook = sy.TorchHook(torch)
FORM = re.compile(r"\(Wrapper\)>\[PointerTensor \| me:(\d{11}) -> (\S+):(\d{11})\]")


@pytest.fixture(scope="module")
def process_worker():
    worker = processes.start("texts")
    yield worker
    processes.end(worker)


@pytest.fixture(params=["inline", "bytes", "thread", "process"])
def worker(request, make_worker):
    return (
        request.getfixturevalue("process_worker") if request.param == "process" else make_worker("bob", request.param)
    )


def test_t12_a_pointer_is_one_line_with_its_shape(bob):
    pointer = torch.ones(3, 4).send(bob)
    assert FORM.fullmatch(repr(pointer))
    for text in (str(pointer), f"{pointer}"):
        assert FORM.match(text) and text.endswith("Shape: torch.Size([3, 4])")
        assert "\n" not in text and len(text) < 100
    assert "Shape: torch.Size([4, 3])" in str(pointer.T @ pointer @ pointer.T)
    assert "Shape: torch.Size([])" in str(pointer.sum())


def test_t12_the_text_of_a_pointer_with_tags_has_a_line_for_each_label(bob):
    torch.ones(84, 13).tag("#X", "#boston").describe("The input\nin two lines").send(bob)
    (found,) = bob.search("#boston")
    assert str(found) == repr(found)
    lines = str(found).split("\n\t")
    assert FORM.fullmatch(lines[0])
    assert lines[1:] == ["Tags: #X #boston", "Shape: torch.Size([84, 13])", "Description: The input"]


def test_t12_other_pointers_are_short_too(alice, bob):
    plan = sy.Plan(forward_func=nn.Linear(1, 1), name="p").build(torch.ones(1, 1))
    one, both = plan.send(alice), plan.send(alice, bob)
    assert re.fullmatch(rf"\[PointerPlan \| me:\d{{11}} -> {alice.id}:\d{{11}}\]", str(one))
    assert re.fullmatch(rf"\[PointerPlan \| me:\d{{11}} -> {alice.id}:\d{{11}}, {bob.id}:\d{{11}}\]", str(both))
    protocol = sy.Protocol([("a", plan)])
    assert re.fullmatch(rf"\[PointerProtocol \| me:\d{{11}} -> {bob.id}:\d{{11}}\]", str(protocol.send(bob)))
    shares = torch.tensor([1, 2]).share(alice, bob)
    assert all(len(line) < 100 for line in str(shares).split("\n"))
    grad = torch.ones(2, requires_grad=True).send(bob)
    (grad * 2).sum().backward()
    assert re.search(rf"{bob.id}:\d{{11}}::grad\]", str(grad.grad))


def test_t12_ids_of_ones_choice_are_shown_whole(bob):
    x = torch.ones(1)
    x.id = "patients"
    pointer = x.send(bob)
    assert f"{bob.id}:patients]" in str(pointer)
    y = torch.ones(1)
    y.id = 60209759146
    assert f"{bob.id}:60209759146]" in str(y.send(bob))


def test_t12_a_shown_id_finds_its_object(worker):
    x = torch.tensor([1.0, 2.0])
    pointer = x.send(worker)
    shown = int(FORM.match(str(pointer))[3])
    assert shown != pointer.id_at_location
    for word in (shown, str(shown), pointer.id_at_location):
        (found,) = worker.search([word])
        assert found.id_at_location == pointer.id_at_location
    held = worker.get_obj(shown)
    assert torch.equal(held if type(held) is torch.Tensor else held.copy().get(), x)


def test_t12_too_few_digits_and_wrong_ones_find_nothing(bob):
    pointer = torch.ones(1).send(bob)
    whole = str(pointer.id_at_location)
    for word in (int(whole[:10]), whole[:5], whole[1:], "1", whole + "0", True):
        assert bob.search([word]) == []
    with pytest.raises(ObjectNotFoundError):
        bob.get_obj(int(whole[:10]))


def test_t12_an_ambiguous_prefix_names_no_object():
    first = create_random_id() | 1 << 127
    second = first + 1
    assert names_id(short_id(first), first) and names_id(short_id(first), second)
    assert find_named(int(short_id(first)), [first, second]) is None
    assert find_named(first, [first, second]) == first
    exact = int(short_id(first))
    assert find_named(exact, [first, exact]) == exact
