"""FixedPrecisionTensor: encoding, decoding, mixed scales, in-place writes, modules, serialization."""

import copy
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import syft as sy
from syft.exceptions import SyftError, UnsupportedOperationError
from syft.frameworks.torch.tensors.interpreters import precision as documented
from tests.helpers.documented_rows import Rows

row = Rows("syft.frameworks.torch.tensors.interpreters.precision")


@pytest.fixture(autouse=True)
def hooked(hook):
    return hook


@pytest.fixture
def cast(make_worker):
    return make_worker("bob"), make_worker("alice"), make_worker("carol")


def whole(tensor):
    return tensor.child.child


# Encoding ---------------------------------------------------------------------------------------------------


@row("")
def test_documented_module():
    assert documented.FixedPrecisionTensor is sy.FixedPrecisionTensor
    row.check(1)


def test_encoding_rounds_to_the_nearest():
    x = torch.tensor([1.5, -2.25, 0.0004, 0.0006, -0.0006])
    assert whole(x.fix_prec()).tolist() == [1500, -2250, 0, 1, -1]
    assert whole(x.fix_precision(precision_fractional=4)).tolist() == [15000, -22500, 4, 6, -6]
    assert whole(x.fix_prec(base=2, precision_fractional=16)).tolist() == [98304, -147456, 26, 39, -39]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int8, torch.int32,
                                   torch.int64, torch.uint8, torch.bool])  # fmt: skip
def test_dtypes(dtype):
    x = torch.tensor([0, 1, 1]).to(dtype).fix_precision()
    assert whole(x).dtype is torch.int64
    assert whole(x).tolist() == [0, 1000, 1000]
    decoded = dtype if dtype.is_floating_point else torch.float32
    assert x.dtype is decoded
    assert x.float_precision().dtype is decoded


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_nan_and_infinity_are_refused(value):
    with pytest.raises(SyftError, match=r"NaN and infinity\. .*nan_to_num"):
        torch.tensor([1.0, value]).fix_precision()
    with pytest.raises(SyftError, match="finite real numbers only"):
        torch.tensor([1.0]).fix_precision() + value


def test_range():
    limit = 2**61 / 1000
    inside = torch.tensor([-limit, limit * (1 - 1e-15)], dtype=torch.float64)
    assert torch.allclose(inside.fix_precision().float_precision(), inside)
    for outside in (torch.tensor([limit * 1.001]), torch.tensor([2**60]), torch.tensor([-(2**60)])):
        with pytest.raises(SyftError, match=r"can't be encoded: with 1000 units .*precision_fractional"):
            outside.fix_precision(field=2**62)
        assert isinstance(outside.fix_precision().child, sy.LargePrecisionTensor)
    with pytest.raises(SyftError, match="can't be encoded"):
        torch.tensor([40.0]).fix_precision(field=2**16)
    with pytest.raises(SyftError, match="This number can't be encoded"):
        torch.tensor([1.0]).fix_precision() + 1e18
    with pytest.raises(SyftError, match="complex"):
        torch.tensor([1j]).fix_precision()


def test_options():
    with pytest.raises(SyftError, match="storage must be one of 'auto', 'large', 'crt'; got 'huge'"):
        torch.ones(2).fix_precision(storage="huge")
    with pytest.raises(TypeError, match="precision_factional"):
        torch.ones(2).fix_precision(precision_factional=3)
    for bad in ({"base": 1}, {"base": 2.0}, {"precision_fractional": -1}, {"field": 1}, {"precision_fractional": 5000}):
        with pytest.raises(SyftError):
            torch.ones(2).fix_precision(**bad)
    link = torch.ones(2).fix_prec(no_wrap=True, field_type="int64", storage="auto")
    assert isinstance(link, sy.FixedPrecisionTensor)
    with pytest.raises(SyftError, match="encoded or shared already"):
        torch.ones(2).fix_prec().fix_prec()
    with pytest.raises(SyftError, match="not encoded"):
        sy.PlusIsMinusTensor().on(torch.ones(2)).float_precision()


def test_in_place():
    x = same = torch.tensor([1.5])
    assert x.fix_prec_() is same
    assert isinstance(x.child, sy.FixedPrecisionTensor)
    assert x.float_prec_() is same
    assert x.tolist() == [1.5]
    assert x.fix_precision_(base=2).float_precision_().item() == 1.5


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=8), st.sampled_from([(10, 3), (2, 16), (10, 6)]))
def test_round_trip(values, form):
    x = torch.tensor(values, dtype=torch.float64)
    scale = form[0] ** form[1]
    encoded = x.fix_precision(base=form[0], precision_fractional=form[1])
    assert (whole(encoded).double() - x * scale).abs().max() <= 0.5
    assert torch.equal(encoded.float_precision(), whole(encoded).double() / scale)


# The documented class ------------------------------------------------------------------------------------------


def test_constructor_and_attributes():
    link = sy.FixedPrecisionTensor(field=2**60, base=2, precision_fractional=8, kappa=2, tags={"#t"}, description="d")
    assert link.get_class_attributes() == {"field": 2**60, "base": 2, "precision_fractional": 8, "kappa": 2}
    assert (link.tags, link.description) == ({"#t"}, "d")
    x = link.on(torch.tensor([1.5, 2.5])).child.fix_precision().wrap()
    assert whole(x).tolist() == [384, 640]
    assert x.attr("precision_fractional") == x.child.attr("precision_fractional") == 8
    assert (x * x).child.get_class_attributes() == link.get_class_attributes()
    assert x.child.data is x.child
    assert x.child.grad is None
    assert x.child.backward() is None
    assert x.child.dim() == 1
    assert repr(x).startswith("(Wrapper)>FixedPrecisionTensor(8 bits)>tensor([384, 640])")
    assert repr(torch.ones(1).fix_precision().child).startswith("FixedPrecisionTensor(3 decimals)")


def test_truncate():
    link = torch.tensor([1.5, -1.5, 0.0005]).fix_prec(precision_fractional=4).child
    assert link.truncate(1) is link
    assert link.child.tolist() == [1500, -1500, 1]


def test_links_take_operators():
    link = torch.tensor([1.5, 2.0]).fix_prec().child
    assert (link + link).float_precision().tolist() == [3, 4]
    assert link.mul(2).float_prec().tolist() == [3, 4]
    assert link.mm is not None
    assert sy.FixedPrecisionTensor.handle_func_command(("torch.add", None, (link, link), {})).child.tolist() == [
        3000,
        4000,
    ]


def test_wire():
    x = torch.tensor([1.5]).fix_prec(base=2, precision_fractional=8).requires_grad_()
    x.child.tag("#x")
    back = sy.deserialize(sy.serialize(x))
    assert back.requires_grad
    assert whole(back).tolist() == [384]
    assert back.child.get_class_attributes() == x.child.get_class_attributes()
    assert back.child.tags == {"#x"}


@pytest.mark.parametrize(
    "payload",
    [
        (1, set(), None, {"base": 10}, torch.ones(2)),
        (1, set(), None, {"base": 10}, None),
        (1, set(), None, {"owner": 10}, torch.ones(2).long()),
        (1, set(), None, {"base": "10"}, torch.ones(2).long()),
        (1, set(), None, {"precision_fractional": 60}, torch.ones(2).long()),
        (1, set(), None, [], torch.ones(2).long()),
        (1, [], None, {}, torch.ones(2).long()),
    ],
)
def test_forged_parts_are_refused(payload):
    with pytest.raises((TypeError, SyftError)):
        sy.FixedPrecisionTensor.detail(None, payload)


def test_travels(make_worker, kind, nothing_left):
    bob = make_worker("bob", kind)
    x = torch.tensor([1.5, 2.0]).fix_prec().send(bob)
    y = (x * x).get()
    assert y.float_precision().tolist() == [2.25, 4]
    p = torch.tensor([1.5, 2.0]).send(bob).fix_precision(precision_fractional=4)
    assert whole((p + p).get()).tolist() == [30000, 40000]
    q = torch.tensor([1.5]).send(bob).fix_prec().float_prec()
    assert q.get().tolist() == [1.5]
    with pytest.raises(TypeError, match="precison"):
        torch.ones(1).send(bob).fix_precision(precison=4)
    del x, p, q
    bob.synchronize()
    nothing_left(bob)


# Forms that meet -----------------------------------------------------------------------------------------------


def test_different_precisions_take_the_finer_one():
    x, y = torch.tensor([1.5]).fix_prec(), torch.tensor([1.5]).fix_prec(precision_fractional=5)
    for made, meant in ((x + y, 3.0), (y + x, 3.0), (x * y, 2.25), (x - y, 0.0), (x == y, 1.0), (x @ y, 2.25)):
        assert made.child.precision_fractional == 5
        assert made.float_precision().item() == meant
    x += y
    assert x.child.precision_fractional == 3
    assert x.float_precision().item() == 3.0
    assert torch.cat([x, y]).float_precision().tolist() == [3.0, 1.5]


def test_different_bases_are_refused():
    x, y = torch.tensor([1.5]).fix_prec(), torch.tensor([1.5]).fix_prec(base=2)
    with pytest.raises(SyftError, match="base 10, another of base 2"):
        x + y


def test_plain_and_shared(cast):
    bob, alice, carol = cast
    x = torch.tensor([1.5, -2.0]).fix_prec()
    y = torch.tensor([2.0, 4.0]).fix_prec().share(bob, alice, crypto_provider=carol)
    for made, meant in ((x + y, [3.5, 2]), (y - x, [0.5, 6]), (x * y, [3, -8]), (x / y, [0.75, -0.5]), (y / x, [1.333, -2]),
                        (x < y, [1, 1]), (torch.stack([x, y])[:, 0], [1.5, 2])):  # fmt: skip
        assert made.child.is_shared
        assert torch.allclose(made.get().float_precision(), torch.tensor(meant).float(), atol=4e-3)
    x[0] = y[1]
    assert x.child.is_shared
    assert x.get().float_precision().tolist() == [4, -2]
    n = torch.tensor([3, 4]).share(bob, alice, crypto_provider=carol)
    assert (n * y).get().float_precision().tolist() == [6, 16]
    assert (y + n).get().float_precision().tolist() == [5, 8]


def test_shared_with_a_finer_precision_is_written_in_the_own_one(cast):
    bob, alice, carol = cast
    x = torch.tensor([1.5]).fix_prec().share(bob, alice, crypto_provider=carol)
    x.mul_(torch.tensor([2.0]).fix_prec(precision_fractional=6))
    assert x.child.precision_fractional == 3
    assert abs(x.get().float_precision().item() - 3) < 0.004


def test_private_compares_with_the_encoded_number():
    x = torch.tensor([0.5, 1.5, 2.0]).fix_prec()
    assert (x > 1).float_precision().tolist() == [0, 1, 1]
    assert (x == 2).float_precision().tolist() == [0, 0, 1]


@pytest.mark.parametrize("precision", [2, 3, 4])
def test_argmax_is_an_index_at_any_precision(precision, cast):
    bob, alice, carol = cast
    x = torch.tensor([1.5, 3.0, 2.0]).fix_prec(precision_fractional=precision)
    assert x.argmax().float_precision().item() == 1
    assert x.share(bob, alice, crypto_provider=carol).argmax().get().float_precision().item() == 1


def test_public_factors_have_precision_of_their_own():
    x = torch.tensor([1000.0]).fix_prec()
    assert (x * 0.0005).float_precision().item() == 0.5
    assert (x / 3000.0).float_precision().item() == pytest.approx(0.333, abs=1e-3)
    assert (x * torch.tensor([0.00025])).float_precision().item() == 0.25


def test_division_by_zero():
    x = torch.tensor([1.0, 2.0]).fix_prec()
    for zero in (0, 0.0, torch.tensor([1.0, 0.0]), torch.tensor(0.0)):
        with pytest.raises(ZeroDivisionError):
            x / zero


# Values do not come out by accident ------------------------------------------------------------------------------


def test_values_are_not_given_out():
    x = torch.tensor([1.5, 2.0]).fix_prec()
    for read in (bool, float, int, lambda t: t.item(), lambda t: [1, 2][t], lambda t: x.tolist(), lambda t: t.numpy()):
        with pytest.raises(ValueError, match="can't be converted to boolean values or Python numbers"):
            read(x)
    with pytest.raises(
        ValueError, match=r"can't be converted to boolean values .*decode first with .float_precision\(\)"
    ):
        bool(x > 1)


def test_get_returns_local_values_unchanged():
    x = torch.ones(1).fix_prec()
    assert x.get().child is x.child


# Writing -------------------------------------------------------------------------------------------------------------


def test_views_and_bases_see_each_other():
    x = torch.zeros(3, 3).fix_prec()
    row_, column, flat = x[1], x.t()[0], x.view(-1)
    x[1] = torch.tensor([1.0, 2.0, 3.0])
    assert row_.float_precision().tolist() == [1, 2, 3]
    assert column.float_precision().tolist() == [0, 1, 0]
    column += 5
    assert x.float_precision().tolist() == [[5, 0, 0], [6, 2, 3], [5, 0, 0]]
    assert flat[3].float_precision().item() == 6
    x.detach().zero_()
    assert flat.float_precision().sum() == 0
    x.data.fill_(2.0)
    assert row_.float_precision().tolist() == [2, 2, 2]
    for part in x.split(2):
        part.mul_(3)
    assert x.float_precision().sum() == 54
    kept = x.clone()
    x.zero_()
    assert kept.float_precision().sum() == 54


def test_writing_to_an_expanded_tensor_is_refused():
    x = torch.zeros(1, 3).fix_prec()
    with pytest.raises(UnsupportedOperationError, match="expanded"):
        x.expand(4, 3).add_(1)
    assert x.float_precision().sum() == 0


def test_a_plain_tensor_does_not_become_private_in_place():
    with pytest.raises(UnsupportedOperationError, match="not in place"):
        torch.ones(1).add_(torch.ones(1).fix_prec())


def test_views_let_go():
    import gc
    import weakref

    x = torch.zeros(3).fix_prec()
    view = weakref.ref(x[1].child)
    gc.collect()
    assert view() is None


# Autograd, modules, optimizers -----------------------------------------------------------------------------------


def test_requires_grad_is_kept_for_leaves():
    leaf = torch.tensor([1.5], requires_grad=True)
    x = leaf.fix_prec()
    assert x.requires_grad
    assert x.is_leaf
    assert x.float_precision().requires_grad
    with pytest.warns(UserWarning, match="history of this tensor ends here"):
        assert not (leaf * 2).fix_prec().requires_grad


def model():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))


@pytest.mark.parametrize("count", [0, 2, 3])
@pytest.mark.parametrize(
    "optimizer", [{}, {"momentum": 0.5}, {"momentum": 0.9, "nesterov": True}, {"weight_decay": 0.01}]
)
def test_training(count, optimizer, make_worker, nothing_left):
    workers = [make_worker(f"party{i}") for i in range(count)]
    provider = make_worker("dealer")
    data, target = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1.0]]), torch.tensor([[0], [0], [1], [1.0]])
    clear, secret = model(), model()
    parameters = list(secret.parameters())
    forms = {"base": 2, "precision_fractional": 16}
    assert secret.fix_precision(**forms) is secret
    x, y = data.fix_precision(**forms), target.fix_precision(**forms)
    if count:
        secret.share(*workers, crypto_provider=provider, requires_grad=True)
        x, y = (t.share(*workers, crypto_provider=provider, requires_grad=True) for t in (x, y))
    assert all(a is b for a, b in zip(parameters, secret.parameters(), strict=True))
    opt = torch.optim.SGD(secret.parameters(), lr=0.1, **optimizer)
    assert opt.fix_precision() is opt
    assert opt.float_precision() is opt
    plain = torch.optim.SGD(clear.parameters(), lr=0.1, **optimizer)
    for _ in range(4):
        losses = []
        for net, inputs, targets, step in ((secret, x, y, opt), (clear, data, target, plain)):
            step.zero_grad()
            loss = ((net(inputs) - targets) ** 2).sum()
            loss.backward()
            step.step()
            losses.append(loss)
        found = losses[0].get() if count else losses[0]
        assert abs(found.float_precision().item() - losses[1].item()) < 0.005
    if count:
        secret.get()
    secret.float_precision()
    for mine, theirs in zip(parameters, clear.parameters(), strict=True):
        assert isinstance(mine, nn.Parameter)
        assert mine.requires_grad
        assert torch.allclose(mine, theirs, atol=5e-3)
        assert torch.allclose(mine.grad, theirs.grad, atol=2e-2)
    # Every variable that reaches shares, the state of the optimizer and the loop variables included.
    del x, y, opt, step, loss, losses, found, inputs, targets, net
    nothing_left(*workers, provider)


def test_modules_with_other_names(cast):
    bob, alice, carol = cast
    net = model()
    meant = copy.deepcopy(net).state_dict()
    for name in ("fix_prec", "fix_prec_", "fix_precision", "fix_precision_"):
        getattr(net, name)(precision_fractional=6)
        getattr(net, name.replace("fix", "float"))()
    net.fix_precision(precision_fractional=6).share_(bob, alice, crypto_provider=carol)
    assert net.owner is not None
    assert net.location is None
    net.get_().float_precision_()
    for name, value in net.state_dict().items():
        assert torch.allclose(value, meant[name], atol=2e-6)
    with pytest.raises(SyftError, match=r"Encode first: model.fix_precision\(\)"):
        net.share(bob, alice)


@pytest.mark.parametrize("shared", [False, True])
def test_copies_of_modules(cast, shared, nothing_left):
    bob, alice, carol = cast
    net = model()
    meant = net[0].weight.detach().clone()
    net.fix_precision(precision_fractional=5)
    if shared:
        net.share(bob, alice, crypto_provider=carol)
    proxy = copy.deepcopy(net)
    assert isinstance(proxy[0].weight, nn.Parameter)
    assert proxy[0].weight.requires_grad
    with torch.no_grad():
        proxy[0].weight.mul_(0)
    for one in (net, proxy):
        (one.get() if shared else one).float_precision()
    assert torch.allclose(net[0].weight, meant, atol=1e-5)
    assert not proxy[0].weight.any()
    nothing_left(*cast)


@pytest.mark.parametrize("shared", [False, True])
def test_the_state_of_a_plan(cast, shared, nothing_left):
    bob, alice, carol = cast

    @sy.func2plan(args_shape=[(2,)], state=(torch.tensor([2.0, 3.0]),))
    def scale(x, state):
        (w,) = state.read()
        return (x * w).sum()

    x = torch.tensor([1.5, -1.5]).fix_precision()
    scale.fix_precision()
    if shared:
        scale.share(bob, alice, crypto_provider=carol)
        x = x.share(bob, alice, crypto_provider=carol)
    result = scale(x)
    found = (result.get() if shared else result).float_precision().item()
    assert found == pytest.approx(-1.5, abs=4e-3)
    if shared:
        scale.get()
    assert scale.float_precision()(torch.ones(2)).item() == 5
    del x, result
    nothing_left(*cast)


def test_buffers_are_encoded_and_shared_too(cast):
    bob, alice, carol = cast
    net = nn.BatchNorm1d(2)
    net.running_mean.add_(1)
    net.fix_precision().share(bob, alice, crypto_provider=carol)
    assert net.running_mean.child.is_shared
    assert type(net.num_batches_tracked) is torch.Tensor
    made = net.eval()(torch.ones(3, 2).fix_prec().share(bob, alice, crypto_provider=carol))
    assert (made.get().float_prec() - 0).abs().max() <= 0.002
    del made
    net.get().float_precision()
    assert net.running_mean.tolist() == [1, 1]


def test_unhook_removes_the_names(hook):
    hook.unhook()
    assert not hasattr(torch.Tensor, "fix_precision")
    assert not hasattr(torch.optim.Optimizer, "fix_precision")
    assert not hasattr(nn.Module, "share")
    sy.TorchHook(torch)
    assert hasattr(torch.Tensor, "fix_precision")


def test_plans_on_encoded_tensors(cast):
    bob, alice, carol = cast

    @sy.func2plan(args_shape=[(2,)], state=(torch.tensor([2.0, 3.0]),))
    def scale(x, state):
        (w,) = state.read()
        return (x * w).sum()

    x = torch.tensor([1.5, -1.0])
    assert scale(x.fix_prec()).float_precision().item() == 0
    assert scale(x.fix_prec().share(bob, alice, crypto_provider=carol)).get().float_precision().item() == pytest.approx(
        0, abs=4e-3
    )


def test_data_can_be_assigned():
    x = torch.tensor([1.0, 2.0]).fix_prec()
    x.data = torch.tensor([3.0, 4.0]).fix_prec(precision_fractional=5)
    assert x.float_prec().tolist() == [3, 4] and x.child.precision_fractional == 3
    x.data = torch.tensor([5.0, 6.0])
    assert x.float_prec().tolist() == [5, 6]
    with pytest.raises(UnsupportedOperationError, match=r"Setting .data of shape \(1,\) on shape \(2,\)"):
        x.data = torch.ones(1).fix_prec()
