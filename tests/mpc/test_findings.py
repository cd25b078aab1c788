"""What was found wrong once on encrypted tensors, each found right (or refused) from then on."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import syft as sy
from syft.exceptions import SyftError, UnsupportedOperation
from tests.mpc.running import cast_of


@pytest.fixture(scope="module")
def cast():
    """Two parties and a crypto provider, which must be empty at the end."""
    yield from cast_of("findings", 2)


@pytest.fixture(autouse=True)
def hooked(hook):
    return hook


@pytest.fixture
def share(cast):
    """Share whole numbers."""
    parties, provider = cast
    return lambda tensor: tensor.share(*parties, crypto_provider=provider)


@pytest.fixture(params=["plain", "shared"])
def fix(request, share):
    """Encode a tensor, and share it in half of the tests."""

    def encode(tensor, **options):
        encoded = tensor.fix_precision(**options)
        return share(encoded) if request.param == "shared" else encoded

    return encode


def decoded(result):
    return result.get().float_precision()


# Products and quotients with public numbers ---------------------------------------------------------------------------

WIDE = {
    "divisors": (lambda x: x / torch.tensor([1.0, 3e6]), [1.0, 3e9], [1.0, 1000.0]),
    "small and large divisors": (lambda x: x / torch.tensor([0.001, 3e6]), [1.0, 3e6], [1000.0, 1.0]),
    "factors": (lambda x: x * torch.tensor([1.0, 1 / 3e6]), [1.0, 3e6], [1.0, 1.0]),
    "a factor that is almost nothing": (lambda x: x * torch.tensor([1e-30, 1 / 3]), [5.0, 3.0], [0.0, 1.0]),
    "few digits": (lambda x: x * 0.5, [2.0**43], [2.0**42]),
    "a divisor of few digits": (lambda x: x / torch.tensor([2.5]), [1e10], [4e9]),
    "one divisor": (lambda x: x / 2.5, [1e10], [4e9]),
    "a factor of many digits": (lambda x: x * (1 / 3), [1e10, 1000.0], [1e10 / 3, 333.333]),
    "a divisor of many digits": (lambda x: x / 0.3333, [1e9, 1000.0], [1e9 / 0.3333, 3000.3]),
    "whole divisors": (lambda x: x / torch.tensor([3.0, -7.0, 4.0]), [1000.0] * 3, [333.333, -142.857, 250.0]),
    "a tiny factor": (lambda x: x * 3.14159265e-9, [1e12], [3141.59]),
    "a tiny divisor": (lambda x: x / 1e-3, [2.5], [2500.0]),
    "a matrix": (lambda x: x @ torch.tensor([[1 / 3], [1e-5]]), [[1e10, 1.0]], [[1e10 / 3]]),
}


@pytest.mark.parametrize("name", WIDE)
def test_public_factors_of_any_size(name, fix):
    call, given, meant = WIDE[name]
    found, meant = decoded(call(fix(torch.tensor(given)))), torch.tensor(meant)
    assert torch.allclose(found, meant, rtol=2e-3 if name == "a matrix" else 3e-5, atol=2e-3)


def test_public_factors_in_fine_formats(fix):
    x = fix(torch.tensor([100.125]), base=2, precision_fractional=30)
    assert decoded(x * 0.3).item() == pytest.approx(30.0375, abs=1e-5)
    assert decoded(x / 0.3).item() == pytest.approx(333.75, abs=1e-4)
    assert decoded(fix(torch.tensor([3.0]), base=10, precision_fractional=0) * 2.5).item() in (7.0, 8.0)
    assert decoded(fix(torch.tensor([[1.5, 2.0]]), precision_fractional=9) @ torch.tensor([[1 / 3], [0.1]])).item() == (
        pytest.approx(0.7, abs=1e-7)
    )


def test_exact_factors_cost_a_round_at_most(share):
    x = share(torch.tensor([1.5, 2.5]).fix_precision())
    for call, rounds in ((lambda: x * 3.0, 0), (lambda: x * 0.5, 1), (lambda: x / torch.tensor([3.0, 4.0]), 1)):
        with sy.mpc.count() as tally:
            call()
        assert tally.rounds == rounds


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x * x,
        lambda x: x * 1e6,
        lambda x: x @ x,
        lambda x: F.conv1d(x[None, None], x[None, None]),
        lambda x: x / 1e-9,
    ],
)
def test_plain_products_never_wrap(call):
    with pytest.raises(SyftError, match="no room in 6[24] bits"):
        call(torch.full((4,), 1e13).fix_precision())
    large = torch.full((4,), 1e6).fix_precision()
    assert torch.equal(decoded(large * large), torch.full((4,), 1e12))
    assert decoded(large @ large).item() == pytest.approx(4e12)


# Encoding and reading -------------------------------------------------------------------------------------------------


def test_large_unsigned_numbers_are_refused():
    with pytest.raises(SyftError, match="can't be encoded"):
        torch.tensor([2**64 - 5], dtype=torch.uint64).fix_precision()
    assert decoded(torch.tensor([5], dtype=torch.uint64).fix_precision()).item() == 5


READING = {
    "tolist": lambda x: x.tolist(),
    "numpy": lambda x: x.numpy(),
    "item": lambda x: x.item(),
    "bool": bool,
    "float": float,
    "int": int,
    "complex": complex,
    "array": lambda x: np.asarray(x),
    "index": lambda x: [1, 2, 3][x],
    "in": lambda x: 1.0 in x,
}


@pytest.mark.parametrize("shape", [(), (1,), (2, 2)])
@pytest.mark.parametrize("name", READING)
def test_values_are_never_read(name, shape, fix, share):
    with pytest.raises(ValueError, match="can't be converted to boolean values or Python numbers"):
        READING[name](fix(torch.ones(shape)))
    with pytest.raises(ValueError, match="can't be converted to boolean values or Python numbers"):
        READING[name](share(torch.ones(shape, dtype=torch.int64)))


def test_what_is_public_can_be_fetched_too(fix):
    assert torch.equal(decoded(fix(torch.ones(2)).fill_(3.0)), torch.full((2,), 3.0))
    x = fix(torch.ones(2)).requires_grad_()
    x.sum().backward()
    assert torch.equal(decoded(x.grad), torch.ones(2))
    plain = torch.ones(1).fix_precision()
    assert plain.child.get() is plain.child


# Writing --------------------------------------------------------------------------------------------------------------

COUNT = 20000


def _indices():
    return torch.arange(COUNT) % 3


REPEATED = {
    "setitem": lambda x, new: x.index_put((_indices(),), new),
    "index_put": lambda x, new: torch.index_put(x, [_indices()], new),
    "index_copy": lambda x, new: x.index_copy(0, _indices(), new),
    "scatter": lambda x, new: x.scatter(0, _indices(), new),
    "put": lambda x, new: x.put(_indices(), new),
    "put_": lambda x, new: x.clone().put_(_indices(), new),
}


@pytest.mark.parametrize("name", REPEATED)
def test_of_repeated_places_the_last_one_counts(name, fix, share):
    new = torch.arange(COUNT)
    meant = [COUNT - 2.0, COUNT - 1.0, COUNT - 3.0, 0.0]
    assert decoded(REPEATED[name](fix(torch.zeros(4)), new.float())).tolist() == meant
    assert decoded(REPEATED[name](fix(torch.zeros(4)), fix(new.float()))).tolist() == meant
    assert REPEATED[name](share(torch.zeros(4, dtype=torch.int64)), share(new)).get().tolist() == meant


def test_repeated_places_in_several_dimensions(fix):
    x, new = torch.zeros(2, 3), torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    at = torch.tensor([[1, 1], [0, 0]])
    assert decoded(fix(x).scatter(1, at, fix(new))).tolist() == [[0, 2, 0], [4, 0, 0]]
    assert decoded(fix(x).scatter(1, at, 7.5)).tolist() == [[0, 7.5, 0], [7.5, 0, 0]]
    assert decoded(fix(x).index_copy(1, torch.tensor([2, 2]), fix(new))).tolist() == [[0, 0, 2], [0, 0, 4]]
    y = fix(x)
    y[torch.tensor([0, 0]), torch.tensor([1, 1])] = fix(torch.tensor([5.0, 6.0]))
    assert decoded(y).tolist() == [[0, 6, 0], [0, 0, 0]]


def test_scatter_with_fewer_rows(fix, share):
    x = torch.arange(6.0).view(2, 3)
    at = torch.tensor([[2], [0]])
    assert torch.equal(decoded(fix(x).scatter(1, at[:1], 9.0)), x.scatter(1, at[:1], 9.0))
    assert torch.equal(decoded(fix(x).scatter(1, at[:1], fix(x) * 2)), x.scatter(1, at[:1], x * 2))
    assert torch.equal(decoded(fix(x).scatter(1, share(at), 9.0)), x.scatter(1, at, 9.0))
    with pytest.raises(UnsupportedOperation, match="encrypted index"):
        fix(x).scatter(1, share(at[:1]), 9.0)


def _floor(x):
    x //= 2
    return x


def _power(x):
    x **= 2
    return x


IN_PLACE = {
    "//=": _floor,
    "**=": _power,
    "floor_divide_": lambda x: x.floor_divide_(2),
    "pow_": lambda x: x.pow_(3),
    "hardtanh_": lambda x: F.hardtanh_(x),
    "Hardtanh": lambda x: torch.nn.Hardtanh(inplace=True)(x),
    "hardtanh": lambda x: torch.ops.aten.hardtanh.default(x),
    "hardtanh bounds": lambda x: F.hardtanh(x, -2.0, 0.5),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place_forms(name, fix):
    x = torch.tensor([-1.375, 0.25, 3.5])
    assert torch.allclose(decoded(IN_PLACE[name](fix(x))), IN_PLACE[name](x.clone()), atol=4e-2)


@pytest.mark.parametrize(
    "call", [lambda x: x.swapaxes_(0, 1), lambda x: x.t_(), lambda x: x.unsqueeze_(0), lambda x: x.normal_()]
)
def test_in_place_forms_that_are_refused(call, fix):
    with pytest.raises(UnsupportedOperation, match="in.place"):
        call(fix(torch.ones(2, 2)))


# Layers ---------------------------------------------------------------------------------------------------------------


def test_a_bias_of_finer_precision(fix):
    x, w, c = torch.tensor([[[1.5, 2.25, -3.0]]]), torch.tensor([[[0.5, -1.25]]]), torch.tensor([0.123456])
    found = F.conv1d(fix(x, precision_fractional=2), fix(w, precision_fractional=2), fix(c, precision_fractional=6))
    assert torch.allclose(decoded(found), F.conv1d(x, w, c), atol=2e-5)
    found = F.conv1d(fix(x, precision_fractional=2), w / 3, fix(c, precision_fractional=6))
    assert torch.allclose(decoded(found), F.conv1d(x, w / 3, c), atol=2e-2)


def test_windows_that_do_not_fit(fix):
    x = torch.ones(1, 1, 3, 3)
    for call in (
        lambda x: F.max_pool2d(x, 5),
        lambda x: F.avg_pool2d(x, 4),
        lambda x: F.max_pool2d(x, 2, padding=2),
        lambda x: F.avg_pool2d(x, 2, padding=2),
    ):
        with pytest.raises(RuntimeError, match="pad|small"):
            call(x)
        with pytest.raises(RuntimeError, match="pad|small"):
            call(fix(x))


def _gradients(call, *tensors):
    leaves = [tensor.requires_grad_() for tensor in tensors]
    call(*leaves).backward()
    return [leaf.grad for leaf in leaves]


def _check_gradients(call, fix, *tensors):
    meant = _gradients(call, *[tensor.clone() for tensor in tensors])
    found = _gradients(call, *[fix(tensor, base=2, precision_fractional=16) for tensor in tensors])
    for one, other in zip(found, meant, strict=True):
        assert torch.allclose(decoded(one), other, atol=1e-3)


def test_gradient_of_equal_elements_goes_to_the_first(fix):
    weights = torch.arange(1.0, 10.0).view(1, 1, 3, 3)
    _check_gradients(lambda x: (F.max_pool2d(x, 3, 2, 1) * weights).sum(), fix, torch.zeros(1, 1, 6, 5))


def test_gradient_of_a_convolution_without_padding(fix):
    x, w = torch.arange(16.0).view(1, 1, 4, 4) / 8, torch.arange(-4.0, 5.0).view(1, 1, 3, 3) / 4
    _check_gradients(lambda x, w: F.conv2d(x, w, padding="valid").pow(2).mean(), fix, x, w)
    _check_gradients(lambda x, w: F.conv2d(x, w, padding="same").pow(2).mean(), fix, x, w)


def test_gradient_of_an_embedding(fix):
    at, w = torch.tensor([[0, 2], [1, 2]]), torch.arange(6.0).view(3, 2)
    scales = torch.arange(1.0, 9.0).view(2, 2, 2)
    _check_gradients(lambda w: (F.embedding(at, w) * scales).sum(), fix, w)
    _check_gradients(lambda w: (F.embedding(at, w, padding_idx=0) * scales).sum(), fix, w)
    _check_gradients(lambda w: (F.embedding(at, w, padding_idx=-1) * scales).sum(), fix, w)
    _check_gradients(lambda w: (F.embedding(at, w, scale_grad_by_freq=True) * scales).sum(), fix, w)


def test_reductions_refuse_what_they_would_ignore(fix, share):
    x = fix(torch.tensor([[1.0, -0.5], [3.0, 2.0]]))
    for call in (lambda: x.sum(0, dtype=torch.int64), lambda: x.prod(0, dtype=torch.int64), lambda: x.cumsum(0, dtype=torch.int32)):  # fmt: skip
        with pytest.raises(UnsupportedOperation, match="reduction to torch.int"):
            call()
    with pytest.raises(UnsupportedOperation, match="reduction to torch.float64"):
        share(torch.ones(2, dtype=torch.int64)).sum(dtype=torch.float64)
    with pytest.raises(RuntimeError, match="multiple times"):
        x.sum(dim=(0, 0))
    assert decoded(x.sum(0, dtype=torch.float64)).tolist() == [4.0, 1.5]


# Private indices ------------------------------------------------------------------------------------------------------

X = torch.arange(12.0).view(4, 3) - 5.5
ROWS, GRID, COLUMN = torch.tensor([2, 0, 2]), torch.tensor([[1, 0], [2, 2]]), torch.tensor([[2], [0], [1], [1]])
INDEXED = {
    "x[i]": lambda x, i: x[i(ROWS)],
    "x[:, i]": lambda x, i: x[:, i(ROWS)],
    "x[grid]": lambda x, i: x[i(GRID)],
    "x[:, grid]": lambda x, i: x[:, i(GRID)],
    "x[..., grid]": lambda x, i: x[..., i(GRID)],
    "x[1, i]": lambda x, i: x[1, i(ROWS)],
    "x[None, i]": lambda x, i: x[None, i(ROWS)],
    "x[1:, i]": lambda x, i: x[1:, i(ROWS)],
    "index_select": lambda x, i: x.index_select(-1, i(ROWS)),
    "gather": lambda x, i: x.gather(1, i(COLUMN)),
    "gather(0)": lambda x, i: x.gather(0, i(GRID)),
}
ANY_NUMBER = {
    "x[n]": lambda x, i: x[i(torch.tensor(2))],
    "x[0, n]": lambda x, i: x[0, i(torch.tensor(2))],
    "x[:, n]": lambda x, i: x[:, i(torch.tensor(2))],
}


@pytest.mark.parametrize("name", [*INDEXED, *ANY_NUMBER])
def test_a_fixed_precision_index(name, fix):
    call = (INDEXED | ANY_NUMBER)[name]
    meant = call(X, lambda i: i)
    for x in (X, fix(X)):
        assert torch.equal(decoded(call(x, lambda i: fix(i.float()))), meant)


@pytest.mark.parametrize("name", INDEXED)
def test_a_whole_number_as_index(name, fix, share):
    meant = INDEXED[name](X, lambda i: i)
    assert torch.equal(decoded(INDEXED[name](fix(X), share)), meant)
    whole = (X - 0.5).long()
    for x in (whole, share(whole)):
        assert torch.equal(INDEXED[name](x, share).get(), INDEXED[name](whole, lambda i: i))


@pytest.mark.parametrize("name", ANY_NUMBER)
def test_a_single_whole_number_as_index(name, share):
    whole = (X - 0.5).long()
    for x in (whole, share(whole)):
        assert torch.equal(ANY_NUMBER[name](x, share).get(), ANY_NUMBER[name](whole, lambda i: i))


def test_indices_out_of_range_give_zeros(fix, share):
    assert decoded(fix(X)[share(torch.tensor([4, -1, 2]))]).tolist() == [[0.0] * 3, [0.0] * 3, [0.5, 1.5, 2.5]]


def test_argmax_picks_the_maximum(fix):
    x = fix(torch.tensor([0.5, 3.25, -1.0]))
    assert decoded(x[x.argmax()]).item() == 3.25
    assert decoded(torch.tensor([10.0, 20.0, 30.0])[x.argmax()]).item() == 20.0


def test_gradient_through_a_private_index(fix, share):
    at, scales = torch.tensor([2, 0, 2]), torch.tensor([1.0, 2.0, 3.0])
    for call in (lambda x, i: x[i] * scales[:, None], lambda x, i: x[:, i] * scales, lambda x, i: x.index_select(0, i)):
        (meant,) = _gradients(lambda x, call=call: call(x, at).sum(), X.clone())
        (found,) = _gradients(lambda x, call=call: call(x, share(at)).sum(), fix(X))
        assert torch.equal(decoded(found), meant)


def test_private_masks_and_several_indices_stay_refused(fix, share):
    x = fix(X)
    for call in (
        lambda: x[x > 0],
        lambda: X[fix(X) > 0],
        lambda: x[share(ROWS), share(ROWS)],
        lambda: x[share(ROWS), torch.tensor([0, 1, 2])],
        lambda: x.index_put((share(ROWS),), torch.tensor(1.0)),
    ):
        with pytest.raises(UnsupportedOperation, match="encrypted index"):
            call()
