"""AutogradTensor over plain, remote, encoded and shared tensors, compared with the gradients of local torch."""

from __future__ import annotations

import gc

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import syft as sy
from syft.exceptions import SyftError

A = torch.tensor([[3.0, 2.0], [-1.0, 2.0]])
B = torch.tensor([[1.0, 2.0], [3.0, 2.0]])
# Name -> how a tensor gets the link.
KINDS = ("plain", "pointer", "send", "encoded", "shared", "share")


@pytest.fixture
def link(make_worker):
    """Return a function that puts the link on a tensor, in one of several ways, with a number of parties."""
    alice, dealer = make_worker("alice"), make_worker("dealer")
    parties = [alice, *(make_worker(f"party{index}") for index in range(3))]

    def on(kind, tensor, count=2):
        tensor = tensor.clone()
        owners = {"crypto_provider": dealer}
        if kind == "plain":
            return sy.AutogradTensor().on(tensor)
        if kind == "pointer":
            return sy.AutogradTensor().on(tensor.send(alice))
        if kind == "send":
            return tensor.send(alice, local_autograd=True)
        encoded = tensor.fix_precision()
        if kind == "encoded":
            return sy.AutogradTensor().on(encoded)
        if kind == "shared":
            return sy.AutogradTensor().on(encoded.share(*parties[:count], **owners))
        return encoded.share(*parties[:count], **owners, requires_grad=True)

    return on


def read(tensor):
    """Return the values of a tensor, as a user of its kind fetches them."""
    if not tensor.is_wrapper:
        return tensor.detach()
    link = tensor.child.child if isinstance(tensor.child, sy.AutogradTensor) else tensor.child
    if isinstance(link, torch.Tensor):
        return link.detach()
    fetched = tensor.get() if isinstance(link, sy.PointerTensor) or link.is_shared else tensor
    return (fetched.float_precision() if fetched.is_wrapper else fetched).detach()


def agree(name, call, kind, link, gradient=None, count=2, tolerance=2e-2):
    """Compare results and gradients of a call with those of torch."""
    ours, theirs = [link(kind, t, count) for t in (A, B)], [t.clone().requires_grad_() for t in (A, B)]
    result, expected = call(*ours), call(*theirs)
    assert isinstance(result.child, sy.AutogradTensor), name
    result.backward() if gradient is None else result.backward(gradient(result))
    expected.backward(torch.ones_like(expected))
    for mine, other in zip(ours, theirs, strict=True):
        if other.grad is None:
            assert mine.grad is None
        else:
            assert torch.allclose(read(mine.grad), other.grad, atol=tolerance), name
    assert torch.allclose(read(result), expected.detach(), atol=tolerance), name


CALLS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "matmul": lambda a, b: a @ b,
    "add row": lambda a, b: a + b[0],
    "sub column": lambda a, b: b[:, :1] - a,
    "same twice": lambda a, b: a * a + a,
    "+=": lambda a, b: (a * b).add_(a),
    "-=": lambda a, b: (a * b).sub_(b),
    "div": lambda a, b: a / 2,
    "pow 2": lambda a, b: a**2,
    "pow 3": lambda a, b: a**3,
    "sum": lambda a, b: a.sum(),
    "t": lambda a, b: a.t(),
    "sqrt": lambda a, b: (a * a + 1).sqrt(),
    "asin": lambda a, b: (a / 8).asin(),
    "sin": lambda a, b: a.sin(),
    "sinh": lambda a, b: (a / 4).sinh(),
    "tanh": lambda a, b: a.tanh(),
    "sigmoid": lambda a, b: a.sigmoid(),
    "relu": lambda a, b: a.relu(),
    "F.relu": lambda a, b: F.relu(a),
    "addmm": lambda a, b: torch.addmm(b, a, b),
    "F.linear": lambda a, b: F.linear(a, b, b[0]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_g1_calls_have_the_gradients_of_torch(kind, link):
    for name, call in CALLS.items():
        agree(name, call, kind, link)


@pytest.mark.parametrize("count", [3, 4])
def test_g1_more_parties_have_the_gradients_of_torch(count, link):
    for name in ("mul", "matmul", "relu", "add row"):
        agree(name, CALLS[name], "share", link, count=count)


@settings(max_examples=15)
@given(numbers=st.lists(st.floats(-50, 50, width=32), min_size=1, max_size=6))
def test_g1_gradients_of_random_numbers(numbers):
    sy.TorchHook(torch)
    x = torch.tensor(numbers)
    a = sy.AutogradTensor().on(x.fix_precision())
    (a * a + 3 * a).backward()
    assert torch.allclose(a.grad.float_precision(), 2 * x + 3, atol=5e-3)


def test_g1_the_chain_is_wrapper_link_and_what_was_there(hook, alice, bob):
    for tensor, kind in (
        (torch.ones(2), torch.Tensor),
        (torch.ones(2).send(alice), sy.PointerTensor),
        (torch.ones(2).fix_prec(), sy.FixedPrecisionTensor),
        (torch.ones(2, dtype=torch.int64).share(alice, bob), sy.AdditiveSharingTensor),
    ):
        linked = sy.AutogradTensor().on(tensor)
        assert isinstance(linked, torch.Tensor) and linked.is_wrapper
        assert type(linked.child) is sy.AutogradTensor and linked.child is linked.child
        assert isinstance(linked.child.child, kind)
        assert str(linked).startswith("(Wrapper)>AutogradTensor>")
        assert linked.child.requires_grad and linked.requires_grad is linked.is_floating_point()
        assert sy.AutogradTensor().on(linked).child.child is linked.child.child


def test_g1_documented_paths_name_the_same_class(hook):
    from syft.frameworks.torch.tensors.interpreters.autograd import AutogradTensor
    from syft.frameworks.torch.tensors.interpreters.gradients import MulBackward
    from syft.frameworks.torch.tensors.interpreters.gradients_core import GradFunc, forward_grad

    assert AutogradTensor is sy.AutogradTensor
    a = AutogradTensor().on(torch.ones(2).fix_prec())
    node = (a * a).child.grad_fn
    assert isinstance(node, MulBackward) and isinstance(node, GradFunc)
    assert a.child.grad_fn is None and forward_grad(a).tensor is a


@pytest.mark.parametrize("kind", ["encoded", "shared", "share"])
def test_g1_operands_with_and_without_the_link_mix(kind, link):
    bare = link(kind, B).detach()
    for call in (lambda a, b: a * b, lambda a, b: b @ a, lambda a, b: F.linear(b, a), lambda a, b: b - a):
        a, expected = link(kind, A), A.clone().requires_grad_()
        for other in (bare, B):
            a.grad = None
            expected.grad = None
            call(a, other).backward()
            call(expected, B).sum().backward()
            assert torch.allclose(read(a.grad), expected.grad, atol=2e-2)


def test_g1_plain_and_encoded_operands_keep_both_gradients(hook):
    a, b = sy.AutogradTensor().on(A.clone()), sy.AutogradTensor().on(B.fix_prec())
    (a * b).backward()
    assert torch.allclose(read(a.grad), B, atol=1e-2)
    assert torch.equal(b.grad.float_prec(), A)


def test_g1_bare_links_compute_and_differentiate(hook):
    for a in (sy.AutogradTensor().on(A.clone()), sy.AutogradTensor().on(A.fix_prec())):
        result = (a.child * a.child).relu() + 1
        assert type(result) is sy.AutogradTensor
        result.backward()
        assert torch.equal(read(a.grad), 2 * A)


def test_g1_modules_follow_the_link(hook):
    torch.manual_seed(3)
    model, local = nn.Linear(2, 1), nn.Linear(2, 1)
    local.load_state_dict(model.state_dict())
    model.fix_precision()
    x = sy.AutogradTensor().on(A.fix_prec())
    model(x).backward()
    local(A).sum().backward()
    assert torch.allclose(model.weight.grad.float_prec(), local.weight.grad, atol=5e-3)
    assert torch.allclose(x.grad.float_prec(), local.weight.detach().expand(2, 2), atol=2e-3)


def test_g1_dropped_tensors_leave_nothing_at_workers(link, make_worker, nothing_left):
    alice, bob, dealer = (make_worker(name) for name in ("alice", "bob", "dealer"))
    a = A.fix_prec().share(alice, bob, crypto_provider=dealer, requires_grad=True)
    b = A.send(alice, local_autograd=True)
    (a.child.child, b.child.child)
    (a * a).backward()
    (b * b).backward()
    a.grad.get(), b.grad.get()
    gc.disable()
    try:  # references alone free them: there are no cycles
        del a, b
        assert not alice._objects and not bob._objects
    finally:
        gc.enable()


@pytest.mark.parametrize("kind", KINDS)
def test_g2_backward_starts_with_ones_or_with_an_argument(kind, link):
    call = lambda a, b: a * b  # noqa: E731
    agree("none", call, kind, link)
    agree("linked", call, kind, link, lambda result: link(kind, torch.ones(2, 2)))
    agree("bare", call, kind, link, lambda result: torch.ones_like(result).detach())
    agree("scalar", lambda a, b: (a * b).sum(), kind, link)


def test_g2_encrypted_results_need_no_argument(make_worker):
    alice, bob, carol = (make_worker(name) for name in ("alice", "bob", "carol"))
    s = torch.tensor([-1.0, 2.0]).fix_prec().share(alice, bob, crypto_provider=carol, requires_grad=True)
    s.relu().backward()
    assert torch.equal(s.grad.get().float_prec(), torch.tensor([0.0, 1.0]))
    model = nn.Linear(2, 3).fix_precision().share(alice, bob, crypto_provider=carol)
    model(s).backward()
    assert torch.equal(model.bias.grad.get().float_prec(), torch.ones(3))


def test_g2_gradients_accumulate(link):
    for kind in KINDS:
        a = link(kind, A)
        (a * 2).backward()
        (a * 3).backward()
        assert torch.allclose(read(a.grad), torch.full((2, 2), 5.0), atol=1e-2)


@pytest.mark.parametrize("kind", ["pointer", "send", "shared", "share"])
def test_g3_gradients_are_fetched_as_copies(kind, link):
    a = link(kind, A)
    (a * a).backward()
    assert torch.allclose(read(a.grad), 2 * A, atol=1e-2)
    assert torch.allclose(read(a.grad), 2 * A, atol=1e-2)
    (a * a).backward()
    assert torch.allclose(read(a.grad), 4 * A, atol=2e-2)
    assert torch.allclose(read(a), A)


def test_g3_gradients_of_plain_tensors_are_plain(hook):
    a = sy.AutogradTensor().on(A.clone())
    assert a.grad is None and a.child.grad is None
    (a * a).backward()
    assert type(a.child.grad) is torch.Tensor and torch.equal(a.child.grad, 2 * A)
    assert torch.equal(a.grad, a.child.grad) and a.child.attr("grad") is a.child.grad


def test_g3_gradients_can_be_set(link):
    for kind in KINDS:
        a = link(kind, A)
        a.grad = link(kind, B).detach()
        assert torch.allclose(read(a.grad), B)
        a.grad = None
        assert a.grad is None


@pytest.mark.parametrize("kind", ["plain", "send", "encoded", "shared", "share"])
def test_g3_a_hand_written_step_assigns_data(kind, link):
    a = link(kind, A)
    (a * a).backward()
    a.data = a.data - 0.25 * a.grad.data
    assert torch.allclose(read(a.copy()), A / 2, atol=1e-2)
    (a * a).backward()
    assert torch.allclose(read(a.grad), 3 * A, atol=2e-2)


def test_g4_send_puts_the_link_over_the_pointer(hook, workers, nothing_left):
    bob, alice = workers
    x = torch.ones(2, requires_grad=True)
    w = x.send(bob, local_autograd=True)
    assert isinstance(w.child, sy.AutogradTensor) and isinstance(w.child.child, sy.PointerTensor)
    assert w.location is bob and w.requires_grad
    (w * 3).sum().backward()
    assert torch.equal(w.grad.get(), torch.full((2,), 3.0))
    bare = x.send(bob, local_autograd=True, no_wrap=True)
    assert type(bare) is sy.AutogradTensor and type(bare.child) is sy.PointerTensor
    zero = torch.ones(2).send(bob, local_autograd=True, preinitialize_grad=True)
    assert torch.equal(zero.grad.get(), torch.zeros(2)) and zero.child.preinitialize_grad
    moved = w.move(alice)
    assert isinstance(moved.child, sy.AutogradTensor) and moved.location is alice
    back = moved.get()
    assert type(back) is torch.Tensor and torch.equal(back.detach(), torch.ones(2))
    del w, bare, zero, moved
    nothing_left(bob, alice)


def test_g4_a_linked_tensor_is_sent_on(hook, workers):
    bob, alice = workers
    w = torch.ones(2).send(bob, local_autograd=True)
    on = w.send(alice)
    assert on.location is alice
    back = on.get()
    assert isinstance(back.child, sy.AutogradTensor) and back.location is bob
    (back * 3).backward()
    assert torch.equal(back.grad.get(), torch.full((2,), 3.0))
    twice = w.send(alice, local_autograd=True)
    assert isinstance(twice.child, sy.AutogradTensor)


@pytest.mark.parametrize("options", [{"lr": 0.1}, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}])
def test_g4_training_gives_the_weights_of_local_training(hook, workers, options):
    bob, _ = workers
    torch.manual_seed(1)
    model, local = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)), None
    local = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    local.load_state_dict(model.state_dict())
    data, target = torch.tensor([[0.0, 0], [0, 1], [1, 0], [1, 1]]), torch.tensor([[0.0], [0], [1], [1]])
    model.send(bob, local_autograd=True)
    assert all(isinstance(p.child, sy.AutogradTensor) for p in model.parameters())
    x, y = data.send(bob, local_autograd=True), target.send(bob, local_autograd=True)
    for net, inputs, wanted in ((model, x, y), (local, data, target)):
        optimizer = torch.optim.SGD(net.parameters(), **options)
        for _ in range(4):
            optimizer.zero_grad()
            loss = ((net(inputs) - wanted) ** 2).sum()
            loss.backward()
            optimizer.step()
    del loss, x, y
    model.get()
    for ours, theirs in zip(model.parameters(), local.parameters(), strict=True):
        assert type(ours) is nn.Parameter and torch.equal(ours, theirs)


def test_g5_share_with_requires_grad_shows_the_link(make_worker):
    alice, bob, carol = (make_worker(name) for name in ("alice", "bob", "carol"))
    options = {"crypto_provider": carol, "requires_grad": True}
    t = torch.tensor([3.0]).fix_precision().share(alice, bob, **options)
    assert t.is_wrapper and isinstance(t.child, sy.AutogradTensor)
    t = t.get()
    assert t.is_wrapper and isinstance(t.child, sy.AutogradTensor)
    assert isinstance(t.child.child, sy.FixedPrecisionTensor)
    t = t.float_prec()
    assert not t.is_wrapper and t == torch.tensor([3.0])
    bare = torch.tensor([3.0]).fix_precision().share(alice, bob, **options, no_wrap=True)
    assert type(bare) is sy.AutogradTensor and bare.get().float_prec().item() == 3.0
    inplace = torch.tensor([3.0]).fix_precision()
    inplace.share_(alice, bob, **options)
    assert isinstance(inplace.child, sy.AutogradTensor)
    inplace.get_().float_prec_()
    assert type(inplace) is torch.Tensor and inplace.item() == 3.0


def test_g5_the_owner_of_the_data_shares_with_the_link(make_worker):
    alice, bob, carol = (make_worker(name) for name in ("alice", "bob", "carol"))
    t = torch.tensor([3.0]).send(bob).fix_precision()
    t = t.share(alice, bob, crypto_provider=carol, requires_grad=True).get()
    assert isinstance(t.child, sy.AutogradTensor) and t.requires_grad
    (t * t).backward()
    assert t.grad.get().float_prec().item() == 6.0
    t = t.get()
    assert isinstance(t.child, sy.AutogradTensor)
    assert t.float_prec().item() == 3.0


def test_g5_whole_numbers_show_the_link_and_have_no_gradient(make_worker):
    alice, bob, carol = (make_worker(name) for name in ("alice", "bob", "carol"))
    x = torch.tensor([1, 2]).share(alice, bob, crypto_provider=carol, requires_grad=True)
    assert isinstance(x.child, sy.AutogradTensor) and isinstance(x.child.child, sy.AdditiveSharingTensor)
    assert (x + x).get().tolist() == [2, 4]
    with pytest.raises(SyftError, match=r"needs an encoded tensor.*torch.int64.*x.fix_precision\(\).share"):
        (x * x).backward()
    assert x.get().tolist() == [1, 2]


def test_g5_modules_show_the_link_and_train(make_worker):
    alice, bob, carol = (make_worker(name) for name in ("alice", "bob", "carol"))
    options = {"crypto_provider": carol, "requires_grad": True}
    model = nn.Linear(2, 1)
    model.weight.data = torch.tensor([[-1.0, 2.0]])
    model.bias.data = torch.tensor([-1.0])
    model.fix_precision().share(alice, bob, **options)
    assert all(isinstance(p.child, sy.AutogradTensor) for p in model.parameters())
    data = torch.tensor([[0.0, 0], [0, 1], [1, 0], [1, 1]]).fix_precision().share(alice, bob, **options)
    target = torch.tensor([[0.0], [0], [1], [1]]).fix_precision().share(alice, bob, **options)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1).fix_precision()
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = ((model(data) - target) ** 2).sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.get().float_precision().item())
    assert losses[-1] < losses[0] / 3
    model.get().float_precision()
    assert type(model.weight) is nn.Parameter


def test_g5_a_remote_module_is_shared_with_the_link(make_worker):
    alice, bob, carol, dealer = (make_worker(name) for name in ("alice", "bob", "carol", "dealer"))
    model = nn.Linear(2, 1).send(bob)
    model.fix_precision().share(alice, carol, crypto_provider=dealer, requires_grad=True)
    model.get()
    assert all(isinstance(p.child, sy.AutogradTensor) and p.requires_grad for p in model.parameters())


def test_g6_copies_of_modules_keep_the_link(make_worker):
    alice, bob, carol = (make_worker(name) for name in ("alice", "bob", "carol"))
    shared = nn.Linear(2, 1).fix_precision().share(alice, bob, crypto_provider=carol, requires_grad=True)
    linked = nn.Linear(2, 1)
    linked.weight = sy.AutogradTensor().on(linked.weight)
    remote = nn.Linear(2, 1).send(alice, local_autograd=True)
    for model in (shared, linked, remote):
        copied = model.copy()
        assert isinstance(copied.weight, nn.Parameter) and isinstance(copied.weight.child, sy.AutogradTensor)
        assert copied.weight.id != model.weight.id and copied.weight.child.id != model.weight.child.id


def test_g6_a_linked_wrapper_is_assigned_as_a_parameter(make_worker):
    alice, bob, carol = (make_worker(name) for name in ("alice", "bob", "carol"))
    prepare = {
        "plain": lambda model: model,
        "remote": lambda model: model.send(alice),
        "encoded": lambda model: model.fix_precision(),
        "shared": lambda model: model.fix_precision().share(alice, bob, crypto_provider=carol),
    }
    inputs = {
        "plain": lambda t: t,
        "remote": lambda t: t.send(alice),
        "encoded": lambda t: t.fix_precision(),
        "shared": lambda t: t.fix_precision().share(alice, bob, crypto_provider=carol),
    }
    for kind, change in prepare.items():
        model = change(nn.Linear(2, 1))
        model.weight = sy.AutogradTensor().on(model.weight)
        model.bias = sy.AutogradTensor().on(model.bias)
        assert [name for name, _ in model.named_parameters()] == ["weight", "bias"]
        model(inputs[kind](A)).backward()
        assert torch.allclose(read(model.weight.grad), A.sum(0, keepdim=True), atol=1e-2)
        torch.optim.SGD(model.parameters(), lr=0.1).step()


def test_g7_links_travel_as_bytes(make_worker):
    alice, bob = make_worker("alice", "bytes"), make_worker("bob", "bytes")
    data = torch.tensor([[3.1, 4.3]])
    link = sy.AutogradTensor(data=data, requires_grad=True, owner=alice, id=7, preinitialize_grad=True)
    link.tag("#data").describe("two numbers")
    back = sy.serde.deserialize(sy.serde.serialize(link))
    assert type(back) is sy.AutogradTensor and back.id == 7 and back.owner is sy.local_worker
    assert torch.equal(back.child, link.child) and type(back.child) is torch.Tensor
    assert back.requires_grad and back.preinitialize_grad and back.grad_fn is None
    assert back.tags == {"#data"} and back.description == "two numbers"
    plain = sy.serde.deserialize(sy.serde.serialize(sy.AutogradTensor(data=torch.ones(1), requires_grad=False)))
    assert not plain.requires_grad and not plain.preinitialize_grad
    for tensor in (data.fix_prec(), data.fix_prec().share(alice, bob)):
        linked = sy.AutogradTensor(preinitialize_grad=True).on(tensor)
        back = sy.serde.deserialize(sy.serde.serialize(linked))
        assert type(back.child) is sy.AutogradTensor and back.child.id == linked.child.id
        assert back.requires_grad and back.child.preinitialize_grad and type(back.child.child) is type(tensor.child)
        assert torch.allclose(read(back), data)


def test_g7_a_protobuf_message_rebuilds_the_link(hook):
    link = sy.AutogradTensor(data=torch.ones(2), id=9)
    message = sy.AutogradTensor.bufferize(sy.local_worker, link)
    back = sy.AutogradTensor.unbufferize(sy.local_worker, message)
    assert back.id == 9 and torch.equal(back.child, link.child)


@pytest.mark.parametrize(
    "payload",
    [
        (1, {"a"}, None, 1, False, None),
        (1, {"a"}, None, True, "yes", None),
        (1, {"a"}, None, True, False, 5),
        (1, {"a"}, None, True, False, {"alice": 1}),
        (1.5, {"a"}, None, True, False, None),
        (1, ["a"], None, True, False, None),
        (1, {"a"}, 7, True, False, None),
    ],
)
def test_g7_forged_fields_are_refused(hook, payload):
    with pytest.raises(TypeError):
        sy.AutogradTensor.detail(sy.local_worker, payload)


def test_g7_a_link_below_a_link_is_refused(hook):
    link = sy.AutogradTensor(torch.ones(1))
    with pytest.raises(TypeError, match="not another one"):
        sy.AutogradTensor.detail(sy.local_worker, (1, set(), None, True, False, link))


def test_g8_one_encoded_number_can_be_read(make_worker):
    alice, bob, carol = (make_worker(name) for name in ("alice", "bob", "carol"))
    one, two = torch.tensor([1.0]).fix_prec(), torch.tensor([2.0]).fix_prec()
    assert bool((one == one).all()) and not (one == two).all()
    assert two.item() == 2.0 and float(two) == 2.0 and int(two) == 2
    assert not torch.tensor(0.0).fix_prec()
    linked = torch.tensor([0.1, 2.0]).fix_precision().share(alice, bob, crypto_provider=carol, requires_grad=True)
    assert (linked.get() == torch.tensor([0.1, 2.0]).fix_precision()).all()
    with pytest.raises(ValueError, match="decode first"):
        bool(torch.ones(2).fix_prec())
    with pytest.raises(ValueError, match="decrypt first"):
        bool(one.share(alice, bob, crypto_provider=carol))
