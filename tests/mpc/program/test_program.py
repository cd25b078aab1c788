"""Programs: the results of single operations, with one message per party and no leaked objects."""

from __future__ import annotations

import gc
import itertools

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import syft as sy
from syft.mpc.program.cache import op_by_op
from syft.mpc.program.program import as_program
from syft.mpc.protocols import program as running
from syft.mpc.runtime import client
from tests.helpers import processes
from tests.helpers.mpc.protocols import cast_of

BITS, DECIMALS = {"base": 2, "precision_fractional": 16}, {"base": 10, "precision_fractional": 3}
ERRORS = {2: 2e-3, 10: 2e-2}


@pytest.fixture(scope="module", params=[2, 3, 4])
def cast(request):
    yield from cast_of("program", request.param)


@pytest.fixture(scope="module")
def pair():
    yield from cast_of("program-pair", 2)


def shared(cast, plain, options=BITS, **more):
    parties, provider = cast
    tensor = plain.fix_precision(**options) if plain.is_floating_point() else plain
    return tensor.share(*parties, crypto_provider=provider, **more)


def value(tensor):
    return tensor.get().float_precision()


def messages(cast, function, *args):
    """Call a function; returns its result and how many messages each party got."""
    with sy.count_messages() as sent:
        result = function(*args)
    return result, {sent.by_worker.get(("me", party.id), 0) for party in cast[0]}


FUNCTIONS = [
    lambda x, y: x * y + x @ y.t() @ x - 3 * y,
    lambda x, y: torch.relu(x - y) / 4 + torch.where(x > y, x, y),
    lambda x, y: (x.sum(0), y.max(dim=1).values, [(x + 1).t(), {"k": (y == x)}]),
    lambda x, y: torch.cat([x, y]).unbind(0)[1] * torch.stack([x, y])[0].mean(),
    lambda x, y: F.linear(x, y) + torch.tensor([1.5, -2.0, 3.0]),
    lambda x, y: torch.full((3, 4), 2.0) * x + (1 - x) * y[:1] - x[torch.tensor([2, 1, 0])],
    lambda x, y: F.conv1d(x.view(1, 3, 4), y.view(1, 3, 4)).squeeze(),
    lambda x, y: x[:0] * y[:0],
    lambda x, y: x / y + x**3,
]


@pytest.mark.parametrize("options", [BITS, DECIMALS], ids=["bits", "decimals"])
@pytest.mark.parametrize("number", range(len(FUNCTIONS)))
def test_programs_and_operations_have_equal_results(cast, number, options):
    function = FUNCTIONS[number]
    x, y = torch.rand(3, 4) + 0.5, torch.rand(3, 4) + 1
    private = shared(cast, x, options), shared(cast, y, options)
    recorded = as_program(function)
    expected = list(sy.core.trees.iter_tensors(function(x.double(), y.double())))
    for call in range(3):
        if call == 2:  # other numbers of the same forms
            x, y = y, x
            private = shared(cast, x, options), shared(cast, y, options)
            expected = list(sy.core.trees.iter_tensors(function(x.double(), y.double())))
        result, counts = messages(cast, recorded, *private)
        assert counts == {1}
        found = list(sy.core.trees.iter_tensors(result))
        assert len(found) == len(expected)
        for mine, theirs in zip(found, expected, strict=True):
            assert mine.shape == theirs.shape
            assert torch.allclose(value(mine).double(), theirs.double(), atol=ERRORS[options["base"]], rtol=1e-2)


def test_one_operand_is_public(cast):
    x, y = torch.rand(3, 4) + 0.5, torch.rand(3, 4) + 1
    for function in (
        lambda a, b: a * b + b @ a.t() @ b,
        lambda a, b: F.relu(a - b) / b,
        lambda a, b: torch.maximum(a, b),
    ):
        recorded = as_program(function)
        for other in (y, y + 1, y):
            for args, plain in (((shared(cast, x), other), (x, other)), ((other, shared(cast, x)), (other, x))):
                result, counts = messages(cast, recorded, *args)
                assert counts == {1} and torch.allclose(value(result), function(*plain), atol=5e-3)


def test_the_steps_are_recorded_once_for_each_signature(pair):
    calls = []

    @as_program
    def function(x, scale=2):
        calls.append(1)
        return x * scale

    for shape, scale, count in (((2,), 2, 1), ((2,), 2, 1), ((3,), 2, 2), ((2,), 3, 3), ((2,), 3.0, 4), ((3,), 2, 4)):
        assert value(function(shared(pair, torch.ones(shape)), scale)).tolist() == [scale] * shape[0]
        assert len(calls) == count
    function(shared(pair, torch.ones(2), DECIMALS))
    function(shared(pair, torch.ones(2), protocol="fss"))
    x = shared(pair, torch.ones(2))
    assert len(calls) == 6 and "one message" in repr(function)
    product = as_program(lambda a, b: a * b)
    y = shared(pair, torch.full((2,), 3.0))
    assert value(product(x, y)).tolist() == [3, 3] and value(product(x, x)).tolist() == [1, 1]
    assert value(product(y, y)).tolist() == [9, 9] and value(product(y, x)).tolist() == [3, 3]
    again = as_program(lambda a, b: a * b)  # a square first
    assert value(again(y, y)).tolist() == [9, 9] and value(again(x, y)).tolist() == [3, 3]


def test_the_number_of_cached_signatures_is_limited(pair):
    calls = []

    def function(x):
        calls.append(1)
        return x + 1

    run = as_program(function)
    for size in (*range(1, 13), 12, 11, 1):
        assert value(run(shared(pair, torch.ones(size)))).tolist() == [2] * size
    assert len(calls) == 13 and len(run.programs._known) == 8


def test_steps_that_do_not_wait_for_each_other_share_rounds(cast):
    x, y = shared(cast, torch.rand(4, 4)), shared(cast, torch.rand(4, 4))

    def separate(x, y):
        return x * y, x @ y, F.relu(x), y * 0.3

    with sy.mpc.count() as one_by_one:
        expected = separate(x, y)
    with sy.mpc.count() as together:
        found = as_program(separate)(x, y)
    assert (one_by_one.runs, together.runs) == (4, 1) and together.bytes == one_by_one.bytes
    assert together.rounds == 7 < one_by_one.rounds == 2 + 2 + 7 + 1
    for mine, theirs in zip(found, expected, strict=True):
        assert torch.allclose(value(mine), value(theirs), atol=1e-3)


def test_a_large_step_does_not_run_beside_others(pair, monkeypatch):
    monkeypatch.setattr("syft.mpc.protocols.program.ELEMENTS", 10)
    x, y = shared(pair, torch.rand(4, 4)), shared(pair, torch.rand(4, 4))
    with sy.mpc.count() as tally:
        found = as_program(lambda x, y: (x * y, x @ y))(x, y)
    assert tally.rounds == 4 and found[0].shape == (4, 4)


def test_nothing_is_left_at_the_parties(cast):
    parties, _ = cast
    x = shared(cast, torch.rand(4, 4))
    function = as_program(lambda x: ((x * x).relu() @ x, x.sum()))
    for _ in range(2):
        result = function(x)
        assert [len(party._objects) for party in parties] == [3] * len(parties)
        del result
        gc.collect()
        assert [len(party._objects) for party in parties] == [1] * len(parties)


def test_intermediate_values_are_let_go_of_while_it_runs(pair, monkeypatch):
    most = []
    begin = running._Running._begin

    def counting(self):
        begin(self)
        most.append(len(self.values))

    monkeypatch.setattr(running._Running, "_begin", counting)

    def long(x):
        for _ in range(6):
            x = x * 0.5 + 1
        return x

    assert as_program(long)(shared(pair, torch.rand(5))).shape == (5,)
    assert max(most) == 1


# --- what programs can't be, and what changes -------------------------------------------------------------------


def test_random_masks_are_drawn_for_each_call(cast):
    x = shared(cast, torch.ones(50))
    dropped = as_program(nn.Dropout(0.5))
    seen = []
    for _ in range(3):
        torch.manual_seed(len(seen))
        result, counts = messages(cast, dropped, x)
        assert counts == {1}
        seen.append(value(result))
        torch.manual_seed(len(seen) - 1)
        assert torch.equal((value(nn.Dropout(0.5)(x)) > 1), seen[-1] > 1)
    assert not torch.equal(seen[0], seen[1]) and not torch.equal(seen[1], seen[2])


def test_arguments_that_are_written_to(cast):
    def function(x, p):
        x.add_(1)
        p.mul_(2)
        return x * 2

    recorded = as_program(function)
    x, plain = shared(cast, torch.tensor([1.0, 2.0])), torch.tensor([1.0])
    view = x[:1]
    for count in (1, 2, 3):
        result, counts = messages(cast, recorded, x, plain)
        assert counts == {1} and plain.tolist() == [2.0**count]
        assert value(result).tolist() == [2 * (1 + count), 2 * (2 + count)]
        assert value(view.copy()).tolist() == [1 + count] and value(x.copy()).tolist() == [1 + count, 2 + count]


def test_views_of_arguments_stay_views(pair):
    x = shared(pair, torch.ones(2, 2))
    row = as_program(lambda x: x[0])(x)
    row.add_(1)
    assert value(x).tolist() == [[2, 2], [1, 1]]
    y = shared(pair, torch.ones(2, 2))
    doubled, first = as_program(lambda y: ((z := y * 2), z[0]))(y)
    first.add_(1)
    assert value(doubled).tolist() == [[3, 3], [2, 2]]
    same, again = as_program(lambda y: (y, y))(y)
    assert same is again is y


def test_shares_of_an_argument_in_a_result(pair):
    def copied(x, y):
        z = x.clone()
        return z.copy_(y)

    x, run = shared(pair, torch.zeros(2)), as_program(copied)
    for number in (1.0, 2.0, 3.0):
        y = shared(pair, torch.full((2,), number))
        assert value(run(x, y)).tolist() == [number] * 2 and value(y).tolist() == [number] * 2
    shifted = as_program(lambda x, y: (x * 1, y + 0, y.detach(), F.dropout(y, training=False)))
    for number in (1.0, 2.0):
        y = shared(pair, torch.full((2,), number))
        for result, expected in zip(shifted(x, y), (0, number, number, number), strict=True):
            assert value(result.copy()).tolist() == [expected] * 2
    del result, y


class Box:
    def __init__(self, tensor):
        self.tensor = tensor


def test_results_of_every_kind(cast):
    x = shared(cast, torch.ones(2))
    same = as_program(lambda x: (x + 1, x, torch.ones(1), torch.tensor([1.0]).fix_precision() * 2, 5, None))
    for _ in range(3):
        made, given, plain, encoded, number, nothing = same(x)
        assert value(made).tolist() == [2, 2] and given is x and number == 5 and nothing is None
        assert plain.tolist() == [1.0] and encoded.float_precision().tolist() == [2.0]
        plain.zero_()
        encoded.add_(1)
    boxed = as_program(lambda x: Box(x * 2))(x)
    assert value(boxed.tensor).tolist() == [2, 2]
    twice = as_program(lambda x: [x * 2] * 2)
    for _ in range(2):
        first, second = twice(x)
        assert first is second
    assert as_program(lambda x: 3)(x) == 3


def test_fetching_inside_and_other_parties_run_step_by_step(pair):
    (bob, alice), carol = pair
    x = shared(pair, torch.ones(2))
    fetched = as_program(lambda x: torch.full((1,), float(value(x + 1).sum())) * x)
    assert value(fetched(x)).tolist() == [4, 4]
    y = torch.ones(2).fix_precision(**BITS).share(bob, carol, crypto_provider=alice)
    first, second = as_program(lambda x, y: (x * 2, y * 3))(x, y)
    assert value(first).tolist() == [2, 2] and value(second).tolist() == [3, 3]
    z = torch.ones(2).fix_precision(**BITS).share(bob, alice, crypto_provider=alice, insecure=True)
    first, second = as_program(lambda x, y: (x * x, y * y))(x, z)
    assert value(first).tolist() == [1, 1] and value(second).tolist() == [1, 1]


def test_values_are_not_read(pair):
    x = shared(pair, torch.ones(2))
    with pytest.raises(ValueError, match="can't be converted"):
        as_program(lambda x: x if x.sum() > 0 else -x)(x)
    with pytest.raises(sy.exceptions.UnsupportedOperationError):
        as_program(lambda x: x.sort())(x)


def test_gradients_are_followed(cast):
    x = shared(cast, torch.tensor([2.0, 3.0])).requires_grad_()
    function = as_program(lambda x: (x * x).sum())
    function(x).backward()
    assert value(x.grad).tolist() == [4, 6]
    with torch.no_grad():
        result, counts = messages(cast, function, x)
        assert counts == {1} and not result.requires_grad and value(result) == 13
    function(x.detach()).get()


def test_programs_inside_programs_and_switched_off(cast):
    x = shared(cast, torch.tensor([2.0, 3.0]))
    inner = as_program(lambda x: x * x)
    assert value(inner(x)).tolist() == [4, 9]
    outer = as_program(lambda x: inner(x) + inner(x + 1))
    for _ in range(2):
        result, counts = messages(cast, outer, x)
        assert counts == {1} and value(result).tolist() == [13, 25]
    with op_by_op():
        result, counts = messages(cast, outer, x)
    assert counts == {4} and value(result).tolist() == [13, 25]


@pytest.mark.parametrize("protocol", ["snn", "fss"])
def test_other_ways_to_compare(cast, protocol):
    x = torch.tensor([1.0, -2.0, 3.0])
    function = as_program(lambda x: (F.relu(x) * x > 2) * x + x.max())
    private = shared(cast, x, protocol=protocol)
    for _ in range(2):
        result, counts = messages(cast, function, private)
        assert torch.allclose(value(result), (F.relu(x) * x > 2) * x + x.max(), atol=1e-3)
        # Two parties compare with a helper, which knows too much to be there for the rest: it is asked between programs.
        assert counts == {1} or (protocol == "snn" and len(cast[0]) == 2)
    gc.collect()


def test_long_programs_are_cut(pair):
    x = shared(pair, torch.tensor([1.0, 2.0]))

    def long(x):
        for _ in range(10):
            x = x + 1
        return x

    with sy.config.override(max_plan_operations=4):
        result, counts = messages(pair, as_program(long), x)
    assert counts == {3} and value(result).tolist() == [11, 12]


def test_unused_steps_are_not_computed(pair):
    x = shared(pair, torch.tensor([1.0, 2.0]))
    with sy.mpc.count() as tally:
        as_program(lambda x: ((x > 0), x + 1)[1])(x)
    assert tally.rounds == 0


# --- modules ----------------------------------------------------------------------------------------------------


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 3, 3)
        self.fc = nn.Linear(3 * 9, 4)
        self.register_buffer("shift", torch.tensor([1.0, 2.0, 3.0, 4.0]))

    def forward(self, x):
        return self.fc(F.max_pool2d(F.relu(self.conv(x)), 2).flatten(1)) + self.shift


def test_a_module_follows_changes_of_its_weights(cast):
    parties, provider = cast
    model, x = Net(), torch.rand(2, 1, 8, 8)
    private = shared(cast, x)
    run = as_program(model)
    with torch.no_grad():
        for change in (lambda: None, lambda: model.fc.weight.mul_(2), lambda: model.shift.add_(1)):
            change()
            for _ in range(2):
                result, counts = messages(cast, run, private)
                assert counts == {1} and torch.allclose(value(result), model(x), atol=2e-3)
        expected = model(x)
        model.fix_precision(**BITS).share(*parties, crypto_provider=provider)
        for _ in range(2):
            result, counts = messages(cast, run, private)
            assert counts == {1} and torch.allclose(value(result), expected, atol=2e-3)
        model.shift.sub_(2)
        model.fc.bias.copy_(model.fc.bias + 1)
        result, counts = messages(cast, run, private)
        assert counts == {1} and torch.allclose(value(result), expected - 1, atol=2e-3)
        model.get().float_precision()
        assert torch.allclose(value(run(private)), expected - 1, atol=2e-3)
    method = as_program(model.forward)
    with torch.no_grad():
        assert torch.allclose(value(method(private)), expected - 1, atol=2e-3)


def test_values_derived_from_weights_are_cached_until_they_change(cast):
    parties, provider = cast
    model, plain = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)), nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    x = torch.rand(8, 3)
    model(torch.rand(8, 3))
    plain.load_state_dict(model.state_dict())
    model.fix_precision(**BITS).share(*parties, crypto_provider=provider)
    private, run = shared(cast, x), as_program(model)
    rounds = []

    def call():
        with sy.mpc.count() as tally, torch.no_grad():
            result, counts = messages(cast, run, private)
        rounds.append(tally.rounds)
        assert counts == {1} and torch.allclose(value(result), plain(x), atol=2e-3)

    model.eval()
    plain.eval()
    with torch.no_grad():
        for _ in range(3):  # the square root of the variance is found once
            call()
        assert rounds[1] == rounds[2] < rounds[0]
        for module in (model, plain):
            module[1].running_var.mul_(4)
        call()
        call()
        assert rounds[3:] == rounds[:2]
        for module in (model, plain):
            module[1].weight.mul_(2)
        call()
        call()
        for module in (model, plain):
            module.train()
        call()
        call()
        for module in (model, plain):
            module.eval()
        call()
    found = model[1].running_mean.get().float_precision()
    assert torch.allclose(found, plain[1].running_mean, atol=1e-3)


def test_modules_and_tensors_that_a_function_names(pair):
    layer, shift = nn.Linear(2, 2), shared(pair, torch.ones(2))
    calls = []

    def function(x):
        calls.append(1)
        return layer(x) + shift

    run = as_program(function)
    x = torch.rand(3, 2)
    with torch.no_grad():
        for count in (1, 1):
            assert torch.allclose(value(run(shared(pair, x))), layer(x) + 1, atol=1e-3) and len(calls) == count
        layer.weight.add_(1)
        shift = shared(pair, torch.full((2,), 5.0))
        assert torch.allclose(value(run(shared(pair, x))), layer(x) + 5, atol=1e-3)


def test_examples_are_recorded_immediately(pair):
    calls = []

    def function(x):
        calls.append(1)
        return x * 2

    x = shared(pair, torch.ones(2))
    run = as_program(function, x)
    assert calls == [1] and value(run(x)).tolist() == [2, 2] and calls == [1]


def test_by_hand(pair):
    x, y = shared(pair, torch.tensor([1, 2])), shared(pair, torch.tensor([3, 4]))
    steps = (
        ("product", (("value", 0), ("value", 1)), (("operation", "mul"),), 1),
        ("local", (("list", ("value", 3), ("value", 0)),), (("call", "cat.default"),), 1),
        ("local", (("value", 4), ("list", 1, 3)), (("call", "split_with_sizes.default"),), 2),
        ("add_public", (("value", 6), ("value", 2)), (), 1),
    )
    results = client.run("program", x.child, y.child, torch.tensor([10, 20, 30]), steps=steps, outputs=(5, 7, 0))
    assert [link.get().tolist() for link in results] == [[3], [18, 21, 32], [1, 2]]
    with pytest.raises(sy.exceptions.ProtocolError, match="needs a crypto provider"):
        z = torch.tensor([1]).share(*pair[0])
        client.run("program", z.child, steps=(("square", (("value", 0),), (), 1),), outputs=(1,))


# --- in processes of their own ----------------------------------------------------------------------------------


def test_in_processes():
    workers = [processes.start(f"program-{number}") for number in range(3)]
    try:
        cast = workers[:2], workers[2]
        model, x = Net().eval(), torch.rand(2, 1, 8, 8)
        expected = model(x).detach()
        model.fix_precision(**BITS).share(*cast[0], crypto_provider=cast[1])
        run = as_program(model)
        with torch.no_grad():
            for _ in range(3):
                result, counts = messages(cast, run, shared(cast, x))
                assert torch.allclose(value(result), expected, atol=2e-3)
                assert counts == {1}
            y = shared(cast, x)
            other = as_program(lambda y: (y[0] * y[1], y.relu(), [y.sum(), y.mean()]))
            for mine, theirs in zip(
                itertools.chain(*[other(y)[:2], other(y)[2]]), (x[0] * x[1], x, x.sum(), x.mean()), strict=True
            ):
                assert torch.allclose(value(mine), theirs, atol=1e-2)
            snn = shared(cast, x[0, 0], protocol="snn")
            assert torch.allclose(value(as_program(lambda x: (x * x).relu() * 2)(snn)), x[0, 0] ** 2 * 2, atol=1e-3)
        del model, run, y, snn, other, result, mine
    finally:
        processes.end(*workers)
