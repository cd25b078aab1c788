"""Defects of the historic line that must not come back, each with a test that carries its number (PAINS n)."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import syft as sy
from syft.core.tensor import AbstractTensor, Level
from syft.exceptions import SyftError, UnsupportedOperation

TESTS = Path(__file__).resolve().parent


@pytest.mark.parametrize("number", [1, 2, 4, 7, 8, 10, 13, 14, 15, 16, 19, 24, 27])
def test_each_has_a_named_test(number):
    named = re.compile(rf"def test_\w*pains?_{number}_|PAINS {number}\b", re.IGNORECASE)
    assert any(named.search(path.read_text()) for path in TESTS.rglob("test_*.py")), number


# What proves that others do not come back, which are of nodes and so are tested where nodes are.
PROOFS = {
    3: (
        "attacks/test_nodes.py::test_pen_test_values_through_texts",
        "attacks/test_nodes.py::test_names_in_messages_count_for_nothing",
        "attacks/test_nodes.py::test_a_plan_of_mallory_gets_nothing_of_alice",
        "cli/test_cli.py::test_requests_grants_and_the_log",
    ),
    5: (
        "workers/test_websockets.py::test_a_server_with_a_certificate_is_spoken_to_over_verified_tls_only",
        "workers/test_websockets.py::test_other_machines_are_spoken_to_over_tls_only",
        "attacks/test_nodes.py::test_tokens_that_are_not_good",
        "cli/test_cli.py::test_what_can_not_start_says_why_in_one_line",
        "grid/test_gateway.py::test_it_is_open_to_others_only_with_tls_and_tokens",
    ),
    21: (
        "journeys/test_websockets_parallel.py::test_they_really_train_at_the_same_time",
        "federated/test_federated_client.py::test_async_fit_runs_at_the_same_time",
        "grid/test_networks.py::test_workers_are_searched_at_the_same_time_and_not_for_ever",
    ),
    22: (
        "workers/test_websockets.py::test_a_cut_line_is_mended_and_everything_is_done_once",
        "workers/test_websockets.py::test_a_message_larger_than_a_piece_of_the_line_passes_in_pieces",
        "workers/test_websockets.py::test_errors_come_back_with_type_worker_traceback_and_line",
        "grid/test_faults.py::test_a_line_cut_while_a_plan_runs_runs_it_once",
        "grid/test_faults.py::test_fifty_clients_get_exactly_their_own_answers",
    ),
    28: (
        "cli/test_cli.py::test_start_says_what_is_served_and_to_whom",
        "cli/test_cli.py::test_data",
        "cli/test_cli.py::test_requests_grants_and_the_log",
        "cli/test_places.py::test_a_node_keeps_what_it_holds_without_being_told_where",
    ),
}


@pytest.mark.parametrize(("number", "proof"), [(number, proof) for number, found in PROOFS.items() for proof in found])
def test_each_of_nodes_has_proofs(number, proof):
    """PAINS 3, 5, 21, 22 and 28: permissions, transport, one after the other, websockets, and the owner's part."""
    file, _, name = proof.partition("::")
    assert re.search(rf"^def {name}\(", (TESTS / file).read_text(), re.MULTILINE), f"PAINS {number} lost {proof}"


class Strict(AbstractTensor):
    """A link with one rule, at the API level."""


class StrictBelow(AbstractTensor):
    """A link with one rule, below autograd."""

    level = Level.ATEN


@Strict.implements(torch.Tensor.add)
def strict_add(x, y):
    return Strict().on(x.child + y.child, wrap=False)


@StrictBelow.implements(torch.ops.aten.add.Tensor)
def strict_add_below(x, y):
    return StrictBelow().on(x.child + y.child, wrap=False)


@pytest.mark.parametrize("link", [Strict, StrictBelow])
def test_pain_8_what_nobody_implemented_is_refused(hook, link):
    """PAINS 8: a layer without a rule forwarded the call to each share and returned garbage."""
    x = link().on(torch.tensor([-1.0, 2.0]))
    assert torch.equal((x + x).child.child, torch.tensor([-2.0, 4.0]))
    for call in (
        lambda: x.abs(),
        lambda: torch.relu(x),
        lambda: nn.functional.relu(x),
        lambda: x.clamp(min=0),
        lambda: x * x,
        lambda: x.prod(),
        lambda: x.sort(),
        lambda: torch.cat([x, x]),
        lambda: x @ x,
        lambda: x.long(),
    ):
        with pytest.raises(UnsupportedOperation, match=rf"is not supported on {link.__name__}.*(nearest|rules)"):
            call()


def test_pain_16_plain_torch_stays_plain(hook, bob):
    """PAINS 16: the hook replaced about 970 functions of torch, for ever."""
    code = (
        "import torch\n"
        "before = {n: getattr(torch, n) for n in dir(torch)}\n"
        "methods = {n: torch.Tensor.__dict__[n] for n in torch.Tensor.__dict__}\n"
        "import syft as sy\n"
        "assert {n: getattr(torch, n) for n in dir(torch)} == before\n"
        "hook = sy.TorchHook(torch)\n"
        "changed = [n for n in before if getattr(torch, n) is not before[n]]\n"
        "assert changed == ['tensor'], changed\n"
        "assert all(torch.Tensor.__dict__[n] is methods[n] for n in methods)\n"
        "hook.unhook()\n"
        "assert {n: getattr(torch, n) for n in dir(torch)} == before\n"
        "assert dict(torch.Tensor.__dict__) == methods\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert type(torch.ones(1) + 1) is torch.Tensor
    scripted = torch.jit.script(lambda_free)
    assert torch.equal(scripted(torch.ones(2)), torch.full((2,), 2.0))


def lambda_free(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def test_pain_24_errors_say_what_to_do(hook, bob, alice):
    """PAINS 24: empty messages, attribute errors of internals, six shouting sentences."""
    x = torch.ones(2).send(bob)
    spent = torch.ones(2).send(bob)
    spent.get()
    cases = [
        (lambda: x + torch.ones(2), r"is on '.*'.*local tensor.*x\.send"),
        (lambda: x + torch.ones(2).send(alice), r"is on.*is on.*move"),
        (lambda: torch.ones(2).get(), r"local.*x\.send\(bob\)"),
        (lambda: torch.ones(2).move(bob), r"local.*x\.send\(bob\)"),
        (lambda: torch.ones(2).send("nobody"), r"No worker 'nobody'.*known:.*add_worker"),
        (lambda: spent + 1, r"fetched by 'me'.*copy\(\)\.get\(\)"),
        (lambda: x.child.attr("grad").get() if x.grad else x.data_ptr(), r"can't be run on a worker"),
        (lambda: nn.Linear(2, 2).get(), r"local.*model\.send\(bob\)"),
        (lambda: sy.deserialize(b"nonsense"), r"\w+"),
        (lambda: sy.serialize(object()), r"register"),
        (lambda: sy.TorchHook(np), r"sy\.TorchHook\(torch\)"),
    ]
    for call, text in cases:
        with pytest.raises(SyftError) as caught:
            call()
        message = str(caught.value)
        assert re.search(text, message, re.DOTALL), message
        assert "!!!" not in message and "'child'" not in message and len(message) > 20


@pytest.mark.parametrize("strategy", ["raw", "torch", "numpy", "all"])
def test_pain_27_serialisation_has_no_holes(make_worker, strategy):
    """PAINS 27: numpy unreadable, gradients lost, device index lost, parameters with gradients failing."""
    bob = make_worker("bob", "bytes")
    me = sy.local_worker
    before, me.serializer, bob.serializer = me.serializer, strategy, strategy
    try:
        parameter = nn.Parameter(torch.randn(2, 3))
        parameter.grad = torch.randn(2, 3)
        back = sy.deserialize(sy.serialize(parameter, me), me)
        assert (
            isinstance(back, nn.Parameter) and torch.equal(back, parameter) and torch.equal(back.grad, parameter.grad)
        )
        x = torch.randn(3, 4, requires_grad=True)
        assert torch.equal(x.send(bob).get(), x)
        for dtype in (torch.bool, torch.bfloat16, torch.complex64, torch.uint8, torch.float16, torch.int64):
            t = torch.ones(2, 2).to(dtype)
            got = t.send(bob).get()
            assert got.dtype is dtype and torch.equal(got, t)
        assert sy.deserialize(sy.serialize(torch.device("cuda:3"), me), me) == torch.device("cuda:3")
        model = nn.BatchNorm1d(3).send(bob)
        model(torch.randn(4, 3).send(bob))
        assert model.get().num_batches_tracked.item() == 1
    finally:
        me.serializer = before
