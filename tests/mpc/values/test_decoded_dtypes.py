"""Encoded tensors are decoded to their original dtype; results to the dtype that torch promotes to."""

from __future__ import annotations

import copy
import operator

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import syft as sy
from syft.exceptions import SyftError
from syft.mpc.program.program import as_program
from syft.mpc.serving.invitation import Invitation, ServingParty
from syft.mpc.serving.tensor_encoding import TensorEncoding
from syft.serde import protobuf
from syft.tensors.precision import FLOATS
from tests.helpers.mpc.protocols import cast_of

BITS = {"base": 2, "precision_fractional": 16}


@pytest.fixture(scope="module")
def cast():
    yield from cast_of("dtypes", 4)


@pytest.fixture(params=[2, 3, 4])
def share(request, cast):
    parties, provider = cast
    return lambda x: x.fix_precision(**BITS).share(*parties[: request.param], crypto_provider=provider)


@pytest.fixture
def fix(cast):
    return lambda x: x.fix_precision(**BITS)


def opened(x):
    """Decode a result; its dtype must be the one that was announced."""
    decoded = (x.detach().copy().get() if x.child.is_shared else x.detach()).float_precision()
    assert decoded.dtype is x.dtype
    return decoded


def test_digits_beyond_float32_survive(cast):
    parties, provider = cast
    x = torch.tensor([123456789.123], dtype=torch.float64)
    assert x.fix_prec().float_prec().item() == 123456789.123
    assert x.fix_prec().share(*parties, crypto_provider=provider).get().float_prec().item() == 123456789.123
    assert x.encrypt(workers=parties, crypto_provider=provider).decrypt().item() == 123456789.123
    shared = x.fix_prec().share(*parties, crypto_provider=provider)
    assert (shared + shared).get().float_prec().item() == 246913578.246
    del shared


@given(
    st.lists(st.floats(-(2.0**52) / 1000, 2.0**52 / 1000), min_size=1, max_size=8),
    st.sampled_from([1, 10, 1000]),
)
def test_float64_comes_back_to_half_a_unit(values, scale):
    sy.TorchHook(torch)
    x = torch.tensor(values, dtype=torch.float64)
    digits = {1: 0, 10: 1, 1000: 3}[scale]
    back = x.fix_precision(precision_fractional=digits).float_precision()
    assert back.dtype is torch.float64
    assert ((back - x).abs() <= 0.5 / scale * (1 + 1e-3)).all()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_round_trips(dtype, share, fix):
    x = torch.tensor([[0.5, -2.25], [3.0, 0.0]], dtype=dtype)
    for encoded in (fix(x), share(x)):
        assert encoded.dtype is dtype
        assert torch.equal(opened(encoded), x)


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool, torch.int32], ids=str)
def test_whole_numbers_are_decoded_to_float32(dtype, share):
    x = torch.tensor([0, 1]).to(dtype)
    assert share(x).dtype is torch.float32
    assert torch.equal(opened(share(x)), x.float())


# --- promotion --------------------------------------------------------------------------------------------------------

BINARY = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "truediv": operator.truediv,
    "maximum": torch.maximum,
    "where": lambda x, y: torch.where(torch.tensor([True, False]), x, y),
    "cat": lambda x, y: torch.cat([x.reshape(-1), y.reshape(-1)]),
}


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("one", FLOATS, ids=str)
@pytest.mark.parametrize("other", [torch.float16, torch.float32, torch.float64], ids=str)
def test_mixtures_promote_as_in_torch(name, one, other, fix, cast):
    parties, provider = cast
    call = BINARY[name]
    x, y = torch.tensor([1.5, -2.0], dtype=one), torch.tensor([0.5, 4.0], dtype=other)
    shared = fix(x).share(*parties[:2], crypto_provider=provider)
    for made, wanted in (
        (call(shared, fix(y).share(*parties[:2], crypto_provider=provider)), call(x, y)),
        (call(shared, y), call(x, y)),
        (call(y, shared), call(y, x)),
        (call(shared, fix(y)), call(x, y)),
        (call(fix(x), y), call(x, y)),
    ):
        assert made.dtype is wanted.dtype
        assert torch.allclose(opened(made).double(), wanted.double(), atol=1e-2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16], ids=str)
def test_numbers_and_tensors_without_dimensions_promote_nothing(dtype, share):
    x = share(torch.tensor([1.5, -2.0], dtype=dtype))
    assert opened(x * 2.5).dtype is dtype
    assert opened(x.sum() * 2.5).dtype is dtype
    assert opened(x * torch.tensor(2.5, dtype=torch.float64)).dtype is dtype
    assert opened(x * share(torch.tensor(2.5, dtype=torch.float64))).dtype is dtype
    assert opened(x.sum() + share(torch.tensor(2.5, dtype=torch.float64))).dtype is torch.promote_types(
        dtype, torch.float64
    )


SINGLE = {
    "exp": lambda x: x.exp(),
    "sigmoid": torch.sigmoid,
    "gelu": F.gelu,
    "softmax": lambda x: x.softmax(0),
    "log": lambda x: x.abs().log(),
    "pow": lambda x: x.abs() ** 1.7,
    "pow of a number": lambda x: 2**x,
    "square": lambda x: x**2,
    "relu": F.relu,
    "max": lambda x: x.max(),
    "mean": lambda x: x.mean(),
    "var": lambda x: x.var(),
    "matmul": lambda x: x @ x,
    "index": lambda x: x[0],
    "reciprocal": torch.reciprocal,
    "logaddexp": lambda x: torch.logaddexp(x, x),
    "clamp": lambda x: x.clamp(-1, 1),
    "reshape": lambda x: x.view(2, 1).t(),
    "stack": lambda x: torch.stack([x, x]),
    "zeros_like": torch.zeros_like,
    "norm": lambda x: x.norm(),
}


@pytest.mark.parametrize("name", SINGLE)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_results_keep_the_dtype_of_their_operand(name, dtype, fix, cast):
    parties, provider = cast
    x = torch.tensor([1.5, -2.0], dtype=dtype)
    wanted = SINGLE[name](x.double())
    for encoded in (fix(x), fix(x).share(*parties[:3], crypto_provider=provider)):
        made = opened(SINGLE[name](encoded))
        assert made.dtype is dtype
        assert torch.allclose(made.double(), wanted, atol=3e-2)


def test_conversions_between_floats(share):
    x = share(torch.tensor([1.5, -2.0]))
    assert opened(x.double()).dtype is torch.float64
    assert opened(x.double().float()).dtype is torch.float32
    assert opened(x.to(torch.float16)).dtype is torch.float16
    assert opened(x.sum(dtype=torch.float64)).dtype is torch.float64
    assert opened(x).dtype is torch.float32


def test_in_place_writes_keep_the_dtype(share):
    x = share(torch.tensor([1.5, -2.0]))
    x.add_(share(torch.tensor([1.0, 1.0], dtype=torch.float64)))
    x[0] = 7.0
    assert opened(x).dtype is torch.float32
    assert opened(x).tolist() == [7.0, -1.0]


# --- training, plans, serving, and the wire ---------------------------------------------------------------------------


@pytest.mark.parametrize("data", [torch.float64, torch.float32])
@pytest.mark.parametrize("weights", [torch.float64, torch.float32])
def test_training(data, weights, share):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1)).to(weights)
    proxy = copy.deepcopy(model).double()
    for parameter in model.parameters():
        parameter.data = parameter.data  # nothing else holds on to them
    x, y = torch.randn(8, 3, dtype=data), torch.randn(8, 1, dtype=data)
    shared_x, shared_y = share(x), share(y)
    parties, provider = shared_x.child.child.locations, shared_x.child.child.crypto_provider
    model.fix_precision(**BITS).share(*parties, crypto_provider=provider).requires_grad_()
    for module, batch in ((model, (shared_x, shared_y)), (proxy, (x.double(), y.double()))):
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
        for _ in range(3):
            optimizer.zero_grad()
            loss = F.mse_loss(module(batch[0]), batch[1])
            loss.backward()
            optimizer.step()
    for mine, theirs in zip(model.parameters(), proxy.parameters(), strict=True):
        assert opened(mine.grad).dtype is weights
        assert opened(mine).dtype is weights
        assert torch.allclose(opened(mine).double(), theirs.detach(), atol=2e-3)
    assert opened(model(shared_x)).dtype is torch.promote_types(data, weights)
    assert next(model.get().float_precision().parameters()).dtype is weights


def test_a_plan_on_shares(share):
    @sy.func2plan()
    def plan(x, y):
        return x * y + 1

    for dtype in (torch.float64, torch.float32):
        x, y = share(torch.tensor([1.5, 2.0], dtype=dtype)), share(torch.tensor([2.0, 4.0], dtype=dtype))
        assert opened(plan(x, y)).dtype is dtype


def test_a_recorded_function_notices_another_dtype(share):
    run = as_program(lambda x: x * x + 1)
    for dtype in (torch.float32, torch.float64, torch.float32):
        assert opened(run(share(torch.tensor([1.5, 2.0], dtype=dtype)))).dtype is dtype


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_through_the_wire(dtype, make_worker, kind, nothing_left):
    bob, alice, carol = (make_worker(name, kind) for name in ("bob", "alice", "carol"))
    x = torch.tensor([1.5, -2.25], dtype=dtype)
    for back in (
        x.fix_precision().send(bob).get().float_precision(),
        x.send(bob).fix_precision().get().float_precision(),
        x.send(bob).fix_precision().float_precision().get(),
    ):
        assert back.dtype is dtype
        assert torch.equal(back, x)
    shared = x.send(bob).fix_precision().share(bob, alice, crypto_provider=carol).get()
    assert opened(shared).dtype is dtype
    assert torch.equal(opened(shared), x)
    del shared
    nothing_left(bob, alice, carol)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_through_protobuf(dtype, hook):
    x = torch.tensor([1.5, -2.25], dtype=dtype)
    written = sy.serialize(x.fix_precision(), strategy=protobuf.serialize)
    back = sy.deserialize(written, strategy=protobuf.deserialize).float_precision()
    assert back.dtype is dtype
    assert torch.equal(back, x)


def test_float32_is_serialized_as_before_and_unknown_dtypes_are_refused(hook):
    link = torch.tensor([1.0]).fix_precision().child
    assert set(link.get_class_attributes()) == {"field", "base", "precision_fractional", "kappa"}
    double = torch.tensor([1.0], dtype=torch.float64).fix_precision().child
    assert double.get_class_attributes()["dtype"] is torch.float64
    parts = sy.FixedPrecisionTensor.simplify(None, link)
    assert sy.FixedPrecisionTensor.detail(None, parts).decodes_to is torch.float32
    for bad in (torch.int64, torch.complex64, "float64", 5):
        with pytest.raises((SyftError, TypeError)):
            sy.FixedPrecisionTensor.detail(None, (*parts[:3], {**parts[3], "dtype": bad}, parts[4]))


def test_invitations_contain_dtypes():
    plain, double = TensorEncoding((1,), 1000, 2**62), TensorEncoding((1,), 1000, 2**62, dtype="float64")
    assert len(plain.to_row()) == 4  # as earlier releases read it
    assert double.decode(torch.tensor([123456789123])).item() == 123456789.123
    made = Invitation("0" * 32, "client", (ServingParty("a"), ServingParty("b")), "c", (plain,), (double,))
    assert Invitation.from_text(made.to_text()) == made
    odd = Invitation(
        "0" * 32,
        "client",
        (ServingParty("a"), ServingParty("b")),
        "c",
        (plain,),
        (TensorEncoding((1,), 1, 4, dtype="int8"),),
    )
    with pytest.raises(SyftError, match="damaged"):
        Invitation.from_text(odd.to_text())


def test_a_served_model_of_float64(cast):
    parties, provider = cast
    model = nn.Linear(2, 1).double()
    proxy = copy.deepcopy(model)
    served = model.fix_precision(**BITS).share(*parties[:2], crypto_provider=provider).serve(in_shape=(1, 2))
    x = torch.tensor([[1.5, -2.0]], dtype=torch.float64)
    with sy.mpc.connect(served.invite()) as client:
        answer = client.query_model(x)
    assert answer.dtype is torch.float64
    assert torch.allclose(answer, proxy(x).detach(), atol=1e-3)
    served.stop()
    model.get()
