"""Approximated functions: within the declared error over their whole domain, as documented."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from syft.exceptions import SyftError
from syft.mpc.protocols.exponential import edges
from syft.mpc.runtime import client
from syft.mpc.values.function_tables import SHAPES, WAVES, table_of
from tests.helpers.mpc.function_rows import FORMATS, FUNCTIONS, LIMIT, distances, encoded, numbers_of, units_of
from tests.helpers.mpc.protocols import cast_of

BITS, DECIMALS = FORMATS["16 bits"], FORMATS["3 decimals"]


@pytest.fixture(scope="module")
def cast():
    """Four parties and a crypto provider, used by all tests; they must be empty at the end."""
    yield from cast_of("functions", 4)


@pytest.fixture(autouse=True)
def hooked(hook):
    return hook


def check(function, units, form, parties, provider):
    off, allowed = distances(function, units, form, parties, provider)
    worst = int((off / allowed.clamp(min=1e-300)).argmax()) if off.numel() else 0
    assert bool((off <= allowed).all()), f"off by {off.flatten()[worst]:.3g}, allowed {allowed.flatten()[worst]:.3g}"


# --- the whole domain -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_over_the_whole_domain(name, form, cast):
    parties, provider = cast
    function, (base, precision) = FUNCTIONS[name], FORMATS[form]
    units = function.points(base**precision)
    for count in (2, 3, 4) if FORMATS[form] in (BITS, DECIMALS) else (2,):
        check(function, units, FORMATS[form], parties[:count], provider)


@pytest.mark.parametrize("form", [BITS, DECIMALS])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_on_numbers_that_are_here(name, form):
    function = FUNCTIONS[name]
    units = function.points(form[0] ** form[1])
    if units.dim() == 1:
        units = units[units.abs() < LIMIT // 2]  # more can't be encoded with the field that is usual
    check(function, units, form, (), None)


REQUIRED = {"sigmoid": 1e-3, "tanh": 1e-3, "exp": 1e-3, "log": 5e-5, "sqrt": 5e-5, "reciprocal": 1e-3, "softmax": 1e-3}


@pytest.mark.parametrize("name", REQUIRED)
def test_declared_bounds_are_tight(name):
    function = FUNCTIONS[name]
    result = torch.logspace(-6, 6, 50, dtype=torch.float64)
    assert bool((function.allowed(result, 2**16) <= REQUIRED[name] * result.clamp(min=1)).all())


@pytest.mark.parametrize("form", [BITS, DECIMALS, (3, 7)])
@pytest.mark.parametrize("name", [*SHAPES, *WAVES])
def test_the_borders_of_all_pieces(name, form, cast):
    """Each number next to where a piece begins or ends, and next to the edges."""
    parties, provider = cast
    scale = form[0] ** form[1]
    table = table_of(name, scale)
    step, (first, last) = 2 ** table.options["low"], table.options.get("edges", (-4 * scale, 4 * scale))
    if name in WAVES:
        step = max(1, round(2 * math.pi * scale / table.coefficients.shape[0] / 2))
    middles = torch.arange(first // step - 2, last // step + 3) * step
    borders = torch.cat([middles, middles + step // 2, torch.tensor([first, last])])
    units = (borders.view(-1, 1) + torch.arange(-2, 3)).view(-1)
    shape = SHAPES.get(name)
    function = shape.function if shape else WAVES[name]
    given = encoded(units, form, parties[:2], provider)
    found = given.child.like(client.run("piecewise", given.child.child, table.coefficients, **table.options)).wrap()
    off = (numbers_of(found) - function(units.double() / scale)).abs()
    assert float(off.max()) <= 1.6 / scale + 3e-4


@pytest.mark.parametrize("form", [BITS, DECIMALS, FORMATS["24 bits"]])
@given(units=st.lists(st.integers(-LIMIT, LIMIT - 1) | st.integers(-(2**24), 2**24), min_size=1, max_size=30))
@settings(max_examples=8, deadline=None)
def test_any_number(form, cast, units):
    """Whatever a number is, a function gives what it is said to give, never noise."""
    parties, provider = cast
    given = torch.tensor(units)
    for name in ("exp", "log", "sqrt", "rsqrt", "sigmoid", "tanh", "erf", "gelu", "silu", "softplus", "logsigmoid"):
        check(FUNCTIONS[name], given, form, parties[:2], provider)
    check(FUNCTIONS["reciprocal"], given[given != 0], form, parties[:3], provider)


@given(rows=st.lists(st.lists(st.integers(-(2**58), 2**58), min_size=4, max_size=4), min_size=1, max_size=4))
@settings(max_examples=8, deadline=None)
def test_softmax_of_any_numbers(cast, rows):
    parties, provider = cast
    for name in ("softmax", "log_softmax", "logsumexp"):
        check(FUNCTIONS[name], torch.tensor(rows), BITS, parties[:2], provider)


# --- outside ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 2, 3, 4])
@pytest.mark.parametrize("form", [BITS, DECIMALS, (3, 7), (2, 30)])
def test_outside_of_the_domain(form, count, cast):
    parties, provider = cast[0][:count], cast[1]
    scale = form[0] ** form[1]

    def run(function, *units):
        return units_of(function(encoded(torch.tensor(units), form, parties, provider))).tolist()

    nothing = (0, -1, -5, -scale, -(2**40), -(2**61))
    assert run(torch.sqrt, *nothing) == [0] * 6
    assert run(torch.rsqrt, *nothing) == [0] * 6
    assert all(abs(found - scale * math.log(1 / scale)) <= 1 for found in run(torch.log, *nothing))
    first, last = edges(scale, scale)
    assert run(torch.exp, first - 1, -(2**61), 1 - (2**61)) == [0] * 3
    beyond = run(torch.exp, last + 1, last + 2**30, 2**61 - 1)
    assert len(set(beyond)) == 1 and abs(beyond[0] / (math.exp(last / scale) * scale) - 1) < 2**-16
    large = 2**60  # float64, which plain ones are worked out in, has it
    assert run(torch.sigmoid, large, -large) == [scale, 0]
    assert run(torch.tanh, large, -large) == [scale, -scale]
    assert run(torch.erf, large, -large) == [scale, -scale]
    for function in (F.gelu, F.silu, F.softplus, F.mish):
        positive, negative = run(function, large, -large)
        assert (positive, negative) == (large, 0)
    assert run(F.logsigmoid, large)[0] == 0
    waves = run(torch.sin, large, -large, 2**50) + run(torch.cos, large, -large, 2**50)
    assert all(abs(wave) <= scale + 2 for wave in waves)


def test_division_by_zero(cast):
    parties, provider = cast
    for count in (0, 2):
        given = encoded(torch.tensor([0, 2**16]), BITS, parties[:count], provider)
        zero, one = units_of(given.reciprocal()).tolist()
        assert zero == 0 and abs(one - 2**16) <= 1  # rounding is random on shares


@pytest.mark.parametrize("count", [2, 3])
def test_the_largest_numbers(count, cast):
    parties, provider = cast[0][:count], cast[1]
    units = torch.tensor([LIMIT - 1, LIMIT - 2, LIMIT // 2, LIMIT // 2 + 1, LIMIT // 4 - 1])
    for name in ("log", "sqrt", "rsqrt", "reciprocal", "sigmoid", "gelu", "exp"):
        check(FUNCTIONS[name], units, BITS, parties, provider)
    check(FUNCTIONS["reciprocal"], -units, BITS, parties, provider)


# Formats that are coarser or finer than usual: there is a little more rounding on the way.
ODD = [(2, 0), (2, 1), (2, 8), (3, 7), (7, 5), (2, 30), (2, 40), (10, 12)]
EVERYWHERE = ["exp", "log", "sqrt", "rsqrt", "sigmoid", "tanh", "erf", "gelu", "silu", "softplus", "sin", "softmax"]


@pytest.mark.parametrize("form", ODD)
@pytest.mark.parametrize("name", EVERYWHERE)
def test_odd_formats(name, form, cast):
    parties, provider = cast
    function, scale = FUNCTIONS[name], form[0] ** form[1]
    units = function.points(scale)
    off, allowed = distances(function, units, form, parties[:2], provider)
    assert bool((off <= 1.7 * allowed).all())


@pytest.mark.parametrize(("form", "name"), [((2, 30), "reciprocal"), ((2, 40), "rsqrt"), ((2, 30), "rsqrt")])
def test_reciprocals_of_a_few_units_in_fine_formats(form, name, cast):
    """Results of up to 60 bits are right, though they are larger than a product that is rescaled may be."""
    parties, provider = cast
    units = torch.tensor([1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 63, 64, 65, 1000])
    check(FUNCTIONS[name], units, form, parties[:2], provider)


# --- powers -----------------------------------------------------------------------------------------------------

X = torch.tensor([[0.5, 1.25, 2.0], [3.0, 0.75, 4.5]])
POWERS = {
    "whole": (lambda x: x**4, 8),
    "zero": (lambda x: x**0, 0),
    "one": (lambda x: x**1, 0),
    "-1": (lambda x: x**-1, 2),
    "-3": (lambda x: x**-3, 12),
    "half": (lambda x: x**2.5, 4),
    "minus half": (lambda x: x**-1.5, 6),
    "any": (lambda x: x**1.7, 6),
    "minus any": (lambda x: x**-0.3, 6),
    "torch.pow": (lambda x: torch.pow(x, 2.2), 6),
    "float_power": (lambda x: torch.float_power(x, 1.2), 6),
    "a tensor": (lambda x: x ** torch.tensor([2.0, 0.5, 1.0]), 6),
    "a tensor of one": (lambda x: x ** torch.tensor([[2.0]]), 3),
    "a tensor of no dimension": (lambda x: x ** torch.tensor(0.5), 3),
    "a larger tensor": (lambda x: x ** torch.tensor([[[2.0]], [[-1.0]]]), 6),
    "private": (lambda x: x ** (x * 0.5), 6),
    "private, broadcast": (lambda x: x ** x[0] * 1, 8),
    "of a number": (lambda x: 1.5**x, 6),
    "of a plain tensor": (lambda x: torch.tensor([2.0, 0.5, 1.0], dtype=x.dtype if x.dtype == torch.float64 else None)
                          ** x, 8),
}  # fmt: skip


@pytest.mark.parametrize("form", [BITS, DECIMALS])
@pytest.mark.parametrize("name", POWERS)
def test_powers(name, form, cast):
    parties, provider = cast
    call, units = POWERS[name]
    wanted = call(X.double())
    for count in (0, 2, 3):
        x = X.fix_precision(base=form[0], precision_fractional=form[1])
        found = numbers_of(call(x.share(*parties[:count], crypto_provider=provider) if count else x))
        assert found.shape == wanted.shape
        allowed = units * wanted.abs().clamp(min=1) * X.max().log().clamp(min=1).item() / form[0] ** form[1] + 1e-9
        assert bool(((found - wanted).abs() <= allowed).all())


def test_powers_of_negative_numbers(cast):
    parties, provider = cast
    x = torch.tensor([-2.0, -0.5, 3.0]).fix_precision().share(*parties[:2], crypto_provider=provider)
    assert numbers_of(x**3).sub(torch.tensor([-8.0, -0.125, 27.0])).abs().max() < 0.03
    assert numbers_of(x**-1).sub(torch.tensor([-0.5, -2.0, 1 / 3])).abs().max() < 0.003
    assert numbers_of(x**1.5).tolist()[:2] == [0, 0]
    assert numbers_of(x**0.3).tolist()[:2] == [0, 0]
    with pytest.raises(SyftError, match="must be positive"):
        (-2) ** x


@pytest.mark.parametrize("exponent", [0.3, 3.3, 10.3, 100.0])
def test_private_powers_of_numbers_that_are_not_positive(exponent, cast):
    parties, provider = cast
    x = encoded(torch.tensor([0, -1, -(2**16), -(2**20)] * 20), BITS, parties[:2], provider)
    y = encoded(torch.full((80,), round(exponent * 2**16)), BITS, parties[:2], provider)
    assert set(units_of(x**y).tolist()) == {0}
    largest = units_of(encoded(torch.tensor([2**40]), BITS, parties[:2], provider).exp()).item()
    assert set(units_of(x ** (0 - y)).tolist()) == {largest}


def test_norms_of_zeros(cast):
    parties, provider = cast
    x = encoded(torch.zeros(2, 3, dtype=torch.int64), BITS, parties[:2], provider)
    for order in (0, 0.5, 1, 2, 3, 2.5, math.inf):
        assert units_of(torch.linalg.vector_norm(x, order, 1)).tolist() == [0, 0]


# --- shapes and forms -------------------------------------------------------------------------------------------

ELEMENTWISE = [name for name in FUNCTIONS if "norm" not in name and "soft" not in name and name not in ("std", "var",
               "logsumexp")]  # fmt: skip
ELEMENTWISE += ["softplus"]


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_shapes(name, cast):
    parties, provider = cast
    call = FUNCTIONS[name].call
    base = torch.tensor([[1.0, 0.5, 0.25], [1.25, 0.75, 0.125]])
    for x in (torch.tensor(0.5), torch.zeros(0), torch.zeros(2, 0, 3), base, base.view(1, 2, 3, 1)):
        given = x.fix_precision(base=2, precision_fractional=16).share(*parties[:2], crypto_provider=provider)
        found = call(given)
        assert found.shape == x.shape
        assert torch.allclose(numbers_of(found), call(x.double()), atol=3e-4, rtol=3e-4)
    given = base.fix_precision(base=2, precision_fractional=16).share(*parties[:2], crypto_provider=provider)
    for view in (lambda x: x.t(), lambda x: x[:, ::2], lambda x: x[1:].expand(3, 3)):
        assert torch.allclose(numbers_of(call(view(given))), call(view(base.double())), atol=3e-4, rtol=3e-4)


DIMENSIONS = {
    "softmax(0)": lambda x: x.softmax(0),
    "softmax(-1)": lambda x: x.softmax(-1),
    "F.softmax": lambda x: F.softmax(x, dim=1),
    "softmin": lambda x: F.softmin(x, dim=1),
    "one element": lambda x: x[:, :1].softmax(1),
    "log_softmax(-2)": lambda x: x.log_softmax(-2),
    "no dimension": lambda x: x[0, 0, 0].softmax(0) + x[0, 0, 0].log_softmax(-1),
    "logsumexp(1)": lambda x: x.logsumexp(1),
    "logsumexp of several": lambda x: x.logsumexp((0, -1)),
    "logsumexp(keepdim)": lambda x: x.logsumexp((0, 2), keepdim=True),
    "std": lambda x: x.std(),
    "std(0)": lambda x: x.std(0, unbiased=False),
    "std of several": lambda x: x.std((0, 2), keepdim=True),
    "std(correction)": lambda x: x.std(1, correction=2),
    "std_mean": lambda x: torch.stack(torch.std_mean(x, 1)),
    "var": lambda x: x.var(),
    "var of several": lambda x: x.var((0, -1), keepdim=True),
    "var_mean": lambda x: torch.stack(torch.var_mean(x, 2)),
    "norm": lambda x: x.norm(),
    "norm(dim)": lambda x: x.norm(dim=1),
    "norm(p=1)": lambda x: x.norm(1, dim=(0, 2), keepdim=True),
    "norm(inf)": lambda x: x.norm(math.inf),
    "norm(-inf)": lambda x: x.norm(-math.inf, dim=-1),
    "norm(0)": lambda x: x.norm(0),
    "norm(3)": lambda x: x.norm(3, dim=-1),
    "linalg.norm": lambda x: torch.linalg.norm(x, dim=1),
    "vector_norm": lambda x: torch.linalg.vector_norm(x, 2, (0, 1), keepdim=True),
    "normalize": lambda x: F.normalize(x, dim=1),
    "cosine_similarity": lambda x: F.cosine_similarity(x[0], x[1], dim=0),
    "pairwise_distance": lambda x: F.pairwise_distance(x[0], x[1]),
}


@pytest.mark.parametrize("count", [0, 2, 3])
@pytest.mark.parametrize("name", DIMENSIONS)
def test_dimensions(name, count, cast):
    parties, provider = cast
    call = DIMENSIONS[name]
    x = (torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(2)) * 64).round() / 32
    given = x.fix_precision(base=2, precision_fractional=16)
    found = call(given.share(*parties[:count], crypto_provider=provider) if count else given)
    wanted = call(x.double())
    assert found.shape == wanted.shape
    assert torch.allclose(numbers_of(found), wanted, atol=2e-4)


def test_reductions_over_an_empty_dimension(cast):
    parties, provider = cast
    x = torch.zeros(2, 0).fix_precision().share(*parties[:2], crypto_provider=provider)
    assert x.softmax(0).shape == (2, 0) and x.softmax(1).shape == (2, 0) and x.log_softmax(0).shape == (2, 0)
    assert numbers_of(x.norm(dim=1)).tolist() == [0, 0]
    for call in (lambda: x.logsumexp(1), lambda: x.std(1), lambda: x.norm(math.inf, dim=1)):
        with pytest.raises(ValueError, match="has no largest|more elements"):
            call()


IN_PLACE = ["exp_", "exp2_", "expm1_", "log_", "log2_", "log10_", "log1p_", "sqrt_", "rsqrt_", "reciprocal_",
            "sigmoid_", "tanh_", "erf_", "erfc_", "sin_", "cos_", "tan_", "sinh_", "cosh_"]  # fmt: skip


@pytest.mark.parametrize("count", [0, 2])
@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place(name, count, cast):
    parties, provider = cast
    x = encoded(torch.tensor([2**15, 2**16, 2**17]), BITS, parties[:count], provider)
    same = getattr(x, name)()
    assert same is x
    assert torch.allclose(numbers_of(x), getattr(torch.tensor([0.5, 1.0, 2.0]).double(), name)(), atol=2e-4, rtol=1e-4)


@pytest.mark.parametrize("call", [F.silu, F.mish])
def test_in_place_by_option(call, cast):
    parties, provider = cast
    x = encoded(torch.tensor([2**15, -(2**17)]), BITS, parties[:2], provider)
    assert call(x, inplace=True) is x
    assert torch.allclose(numbers_of(x), call(torch.tensor([0.5, -2.0]).double()), atol=2e-4)


@pytest.mark.parametrize("exponent", [2, 0.5, -1, 1.7])
def test_powers_in_place(exponent, cast):
    parties, provider = cast
    x = encoded(torch.tensor([2**15, 2**17]), BITS, parties[:2], provider)
    assert x.pow_(exponent) is x
    assert torch.allclose(numbers_of(x), torch.tensor([0.5, 2.0]).double() ** exponent, atol=2e-4)


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "x ** 3"])
def test_whole_numbers_are_refused(name, cast):
    parties, provider = cast
    x = torch.tensor([[3, 2, 5], [1, 2, 3]]).share(*parties[:2], crypto_provider=provider)
    with pytest.raises(SyftError, match=r"Encode before sharing"):
        FUNCTIONS[name].call(x)


# --- gradients --------------------------------------------------------------------------------------------------

ANY = torch.tensor([[0.5, 1.25, -2.0], [3.0, -0.75, 0.125]])
ABOVE = ANY.abs() + 0.25
WEIGHT = torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])
OF_POSITIVE = {
    "log",
    "log2",
    "log10",
    "log1p",
    "sqrt",
    "rsqrt",
    *(name for name in FUNCTIONS if name.startswith("x ** ")),
}
GRADIENTS = {name: row.call for name, row in FUNCTIONS.items() if name != "norm of order 0"}
GRADIENTS |= {
    "x ** y": lambda x: x ** (x * 0.5),
    "x ** tensor": lambda x: x ** torch.tensor([2.0, 0.5, 1.0]),
    "normalize": lambda x: F.normalize(x),
}
OF_POSITIVE |= {"x ** y", "x ** tensor"}


@pytest.mark.parametrize("form", [BITS, DECIMALS])
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name, form, cast):
    parties, provider = cast
    call, scale = GRADIENTS[name], form[0] ** form[1]
    start = ABOVE if name in OF_POSITIVE else ANY / 3 if name == "tan" else ANY

    def loss(x):
        made = call(x)
        return (made * WEIGHT if made.dim() == 2 else made).sum()

    plain = start.double().requires_grad_()
    loss(plain).backward()
    for count in (0, 2, 3) if form == BITS else (2,):
        x = start.fix_precision(base=form[0], precision_fractional=form[1])
        x = (x.share(*parties[:count], crypto_provider=provider) if count else x).requires_grad_()
        loss(x).backward()
        off = (numbers_of(x.grad) - plain.grad).abs()
        assert float(off.max()) <= 12 / scale * max(1, float(plain.grad.abs().max())) + 2e-4


def test_gradients_at_the_edges_are_no_noise(cast):
    """Where torch has infinity, or nothing at all, a number that is not there counts as nothing."""
    parties, provider = cast

    def gradient(call, *numbers):
        x = torch.tensor(numbers).fix_precision(base=2, precision_fractional=16)
        x = x.share(*parties[:2], crypto_provider=provider).requires_grad_()
        call(x).sum().backward()
        return numbers_of(x.grad).tolist()

    assert gradient(torch.sqrt, 0.0, -1.0, 0.25) == pytest.approx([0, 0, 1], abs=1e-4)
    assert gradient(torch.rsqrt, 0.0, -1.0, 4.0) == pytest.approx([0, 0, -1 / 16], abs=1e-4)
    assert gradient(torch.log, 0.0, 2.0) == pytest.approx([0, 0.5], abs=1e-4)
    assert gradient(lambda x: x.norm(), 0.0, 0.0) == [0, 0]
    assert gradient(lambda x: x.std(), 1.0, 1.0) == [0, 0]
    assert gradient(torch.sigmoid, 30.0, -30.0) == [0, 0]
    assert gradient(F.gelu, 30.0, -30.0) == [1, 0]
