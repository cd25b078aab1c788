"""PolynomialTensor: fitting functions and samples, and their values on plain, encoded and shared numbers."""

import math

import pytest
import torch

import syft as sy
from syft.exceptions import SerdeError, SyftError
from syft.frameworks.torch.tensors.interpreters import Polynomial as documented
from tests.helpers.fixed_randomness import repeatable
from tests.helpers.mpc.protocols import cast_of

X = torch.linspace(-10, 10, 201)
FORMATS = {"16 bits": {"base": 2, "precision_fractional": 16}, "3 decimals": {"base": 10, "precision_fractional": 3}}


@pytest.fixture(autouse=True)
def hooked(hook):
    """Rounding on shares is random: it is the same in each run."""
    with repeatable():
        yield hook


@pytest.fixture(scope="module")
def cast():
    yield from cast_of("polynomial", 4)


def encoded(x, form, cast, count):
    made = x.fix_precision(**FORMATS[form])
    return made.share(*cast[0][:count], crypto_provider=cast[1]) if count else made


def decoded(x):
    return (x.get() if x.child.is_shared else x).float_precision()


def sigmoid(degree=10, intervals=((-8, 0), (0, 8)), fit_type="interp"):
    return sy.PolynomialTensor().add_function("sigmoid", degree, intervals, fit_type, torch.sigmoid)


def test_the_documented_path():
    assert documented.PolynomialTensor is sy.PolynomialTensor
    assert sy.PolynomialTensor.__module__ == "syft"


def test_fields(bob):
    link = sy.PolynomialTensor(owner=bob, id=3, tags=["t"], description="d")
    assert (link.owner, link.id, link.tags, link.description) == (bob, 3, {"t"}, "d")


# --- fitting ----------------------------------------------------------------------------------------------------

FUNCTIONS = {
    "sigmoid": (torch.sigmoid, 10, [[-8, 0], [0, 8]], 1e-4),
    "tanh": (torch.tanh, 9, [[-6, -2], [-2, 2], [2, 6]], 1e-3),
    "exp": (torch.exp, 8, [[-3, 3]], 1e-3),
    "log": (torch.log, 8, [[0.5, 1], [1, 2], [2, 4]], 1e-5),
    "sin": (torch.sin, 9, [[-4, 4]], 1e-2),
    "cube": (lambda x: x**3 - x, 3, [[-2, 2]], 1e-12),
    "line": (lambda x: 2 * x + 1, 1, [[0, 5]], 1e-12),
    "constant": (lambda x: torch.full_like(x, 3.5), 0, [[-1, 1]], 1e-12),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_plain_values(name):
    function, degree, intervals, bound = FUNCTIONS[name]
    p = sy.PolynomialTensor().add_function(name, degree, intervals, "interp", function)
    assert p.error(name) <= bound
    places = torch.linspace(intervals[0][0], intervals[-1][1], 777, dtype=torch.float64)
    assert float((p.get_val(name, places) - function(places)).abs().max()) <= p.error(name) * 1.01 + 1e-12


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("count", [0, 2, 3, 4])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_encrypted_values(name, count, form, cast):
    function, degree, intervals, _ = FUNCTIONS[name]
    p = sy.PolynomialTensor().add_function(name, degree, intervals, "interp", function)
    start, stop = intervals[0][0], intervals[-1][1]
    places = (torch.linspace(start, stop, 150) * 256).round() / 256 if form == "16 bits" else (
        torch.linspace(start, stop, 150) * 1000).round() / 1000  # fmt: skip
    x = encoded(places, form, cast, count)
    error = p.error(name, x)
    assert p.error(name) < error < p.error(name) * 4 + 4e-3
    found = decoded(p.get_val(name, x)).double()
    assert float((found - function(places.double())).abs().max()) <= error + 1e-6


def test_outside_it_stays_as_it_is_at_the_ends(cast):
    p = sigmoid()
    ends = p.get_val("sigmoid", torch.tensor([-8.0, 8.0]))
    far = torch.tensor([-9.0, -1e6, 9.0, 1e6])
    wanted = ends.repeat_interleave(2)
    assert torch.equal(p.get_val("sigmoid", far), wanted)
    for count in (0, 2, 3):
        found = decoded(p.get_val("sigmoid", encoded(far, "16 bits", cast, count)))
        assert torch.allclose(found, wanted, atol=2**-16)


@pytest.mark.parametrize("degree", [1, 2, 5, 12])
def test_taylor(degree):
    p = sy.PolynomialTensor().add_function("exp", degree, [[-1, 1]], "taylor", torch.exp)
    found = p.fit_function(torch.exp, [-1, 1], degree, "taylor")
    assert found == pytest.approx([1 / math.factorial(power) for power in range(degree + 1)])
    assert p.error("exp") == pytest.approx(math.e - sum(1 / math.factorial(n) for n in range(degree + 1)), rel=1e-6)
    around = p.fit_function(lambda x: x**2, [0, 4], 2, "taylor")  # (2 + 2 u)^2
    assert around == pytest.approx([4, 8, 4])


def test_taylor_of_functions_without_further_derivatives():
    p = sy.PolynomialTensor()
    assert p.fit_function(lambda x: 3 * x + 1, [-1, 1], 5, "taylor") == pytest.approx([1, 3, 0, 0, 0, 0])
    assert p.fit_function(torch.ones_like, [-1, 1], 2, "taylor") == pytest.approx([1, 0, 0])


def test_taylor_exp(cast):
    p = sy.PolynomialTensor()
    x = torch.tensor([0.5, -1.0, 0.0])
    assert torch.allclose(p.taylor_exp(x), x.exp(), atol=1e-6)
    for count in (0, 2, 3):
        assert torch.allclose(decoded(p.taylor_exp(encoded(x, "16 bits", cast, count))), x.exp(), atol=2e-4)
    assert p.taylor_exp(1.0, degree=2) == 2.5


def test_samples(cast):
    places = torch.linspace(-3, 3, 50, dtype=torch.float64)
    p = sy.PolynomialTensor().interpolate("wave", places, torch.sin(places), degree=9)
    assert p.fitted("wave").ends == (-3, 3)
    assert p.error("wave") < 1e-4
    assert torch.allclose(p.get_val("wave", places), torch.sin(places), atol=1e-4)
    x = torch.tensor([-2.5, 0.25, 1.0])
    assert torch.allclose(decoded(p.get_val("wave", encoded(x, "16 bits", cast, 2))), x.sin(), atol=4e-4)


def test_samples_in_pieces_and_in_any_order():
    places = torch.randperm(101).double() / 10 - 5
    p = sy.PolynomialTensor().add_function("abs", 1, [[-5, 0], [0, 5]], "interp", (places, places.abs()))
    assert p.error("abs") < 1e-9
    assert p.get_val("abs", torch.tensor([-3.3, 2.5])).tolist() == pytest.approx([3.3, 2.5])


def test_samples_with_noise_are_smoothed():
    generator = torch.Generator().manual_seed(1)
    places = torch.linspace(-1, 1, 400, dtype=torch.float64)
    noisy = places**2 + torch.randn(400, generator=generator).double() * 0.1
    p = sy.PolynomialTensor().interpolate("square", places, noisy, degree=2)
    assert float((p.get_val("square", places) - places**2).abs().max()) < 0.05
    assert p.error("square") > 0.1  # the largest distance from a sample


def test_a_function_of_torch_is_found_by_its_name():
    p = sy.PolynomialTensor().add_function("tanh", 9, [[-2, 2]]).add_function("softplus", 8, [[-4, 4]])
    assert p.get_val("tanh", 0.5) == pytest.approx(math.tanh(0.5), abs=1e-3)
    assert p.get_val("softplus", 0) == pytest.approx(math.log(2), abs=1e-3)


def test_a_known_name_is_replaced():
    p = sigmoid(degree=3)
    coarse = p.error("sigmoid")
    assert p.add_function("sigmoid", 12, [[-8, 0], [0, 8]], "interp", torch.sigmoid) is p
    assert p.error("sigmoid") < coarse / 10


# --- what it is asked with --------------------------------------------------------------------------------------


def test_kinds_of_numbers():
    p = sigmoid()
    assert isinstance(p.get_val("sigmoid", 1), float)
    assert p.get_val("sigmoid", 1.5) == pytest.approx(torch.sigmoid(torch.tensor(1.5)).item(), abs=1e-4)
    for dtype in (torch.float32, torch.float64, torch.float16):
        assert p.get_val("sigmoid", torch.zeros(2, 3, dtype=dtype)).dtype is dtype
    assert p.get_val("sigmoid", torch.tensor([1, 2])).dtype is torch.float32
    for shape in ((), (0,), (2, 0, 3), (2, 1)):
        assert p.get_val("sigmoid", torch.zeros(shape)).shape == torch.Size(shape)


@pytest.mark.parametrize("count", [0, 2, 3])
@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (2, 3, 1)])
def test_shapes_of_encrypted_numbers(shape, count, cast):
    found = sigmoid().get_val("sigmoid", encoded(torch.zeros(shape), "16 bits", cast, count))
    assert found.shape == torch.Size(shape)
    assert torch.allclose(decoded(found), torch.full(shape, 0.5), atol=4e-4)


@pytest.mark.parametrize("count", [0, 2, 3])
def test_gradients(count, cast):
    p = sigmoid()
    start = torch.tensor([-20.0, -3.0, 0.5, 2.0, 20.0])
    weight = torch.tensor([1.0, 2.0, -1.0, 0.5, 3.0])
    plain = start.clone().requires_grad_()
    (p.get_val("sigmoid", plain) * weight).sum().backward()
    wanted = weight * torch.sigmoid(start) * (1 - torch.sigmoid(start)) * (start.abs() < 8)
    assert torch.allclose(plain.grad, wanted, atol=1e-3)
    x = encoded(start, "16 bits", cast, count).requires_grad_()
    (p.get_val("sigmoid", x) * weight).sum().backward()
    assert torch.allclose(decoded(x.grad), plain.grad, atol=1e-3)


def test_as_a_link(cast):
    p = sigmoid()
    x = torch.tensor([0.5, -1.0])
    link = p.on(x)
    assert isinstance(link.child, sy.PolynomialTensor)
    assert "child" not in p.__dict__
    assert torch.equal(torch.sigmoid(link).child.child, p.get_val("sigmoid", x))
    assert torch.equal((link.sigmoid() * 2).child.child, p.get_val("sigmoid", x) * 2)
    assert torch.equal(link.tanh().child.child, x.tanh())  # it has no such function
    assert torch.equal(p.get_val("sigmoid", link).child.child, p.get_val("sigmoid", x))
    for count in (0, 2):
        shared = p.on(encoded(x, "16 bits", cast, count)).sigmoid()
        assert isinstance(shared.child.child, sy.FixedPrecisionTensor)
        below = shared.child.child.get() if count else shared.child.child
        assert torch.allclose(below.float_precision(), x.sigmoid(), atol=1e-3)


def test_it_travels_without_the_function(bob):
    x = sigmoid().on(torch.tensor([0.5, -1.0]))
    pointer = x.send(bob)
    back = pointer.sigmoid().get()
    assert torch.allclose(back.child.child, torch.tensor([0.5, -1.0]).sigmoid(), atol=1e-3)
    copy = sy.deserialize(sy.serialize(sigmoid()))
    assert copy.functions == sigmoid().functions
    assert repr(copy) == repr(sigmoid())


FORGED = {
    "degree": lambda fit: (10**6, *fit[1:]),
    "intervals": lambda fit: (fit[0], [[0, 0]], *fit[2:]),
    "type": lambda fit: (*fit[:2], "eval", *fit[3:]),
    "rows": lambda fit: (*fit[:3], fit[3][:1], fit[4]),
    "numbers": lambda fit: (*fit[:3], tuple((math.nan,) * 11 for _ in fit[3]), fit[4]),
    "error": lambda fit: (*fit[:4], "x"),
    "parts": lambda fit: fit[:3],
}


@pytest.mark.parametrize("name", FORGED)
def test_received_tensors_are_checked(name, hook):
    good = sigmoid().get_class_attributes()["functions"]["sigmoid"]
    payload = (1, None, None, {"functions": {"sigmoid": FORGED[name](good)}}, None)
    with pytest.raises((TypeError, SyftError, SerdeError)):
        sy.PolynomialTensor.detail(hook.local_worker, payload)
    with pytest.raises((TypeError, SyftError)):
        sy.PolynomialTensor(functions={"a b": good})


# --- what is refused --------------------------------------------------------------------------------------------

REFUSED = {
    "an unknown name": (lambda p: p.get_val("nothing", 1.0), "no function 'nothing'.*'sigmoid'"),
    "no name": (lambda p: p.add_function("a b", 3, [[0, 1]], "interp", torch.exp), "an identifier"),
    "not a function of torch": (lambda p: p.add_function("mysterious", 3, [[0, 1]]), "torch has no function"),
    "an empty interval": (lambda p: p.add_function("f", 3, [[1, 1]], "interp", torch.exp), r"\[1, 1\] is empty"),
    "a turned interval": (lambda p: p.add_function("f", 3, [[2, 1]], "interp", torch.exp), r"\[2, 1\] is empty"),
    "no interval": (lambda p: p.add_function("f", 3, [], "interp", torch.exp), "pairs of finite numbers"),
    "an endless interval": (lambda p: p.add_function("f", 3, [[0, math.inf]], "interp", torch.exp), "pairs of finite"),
    "a word": (lambda p: p.add_function("f", 3, "0, 1", "interp", torch.exp), "pairs of finite numbers"),
    "overlap": (lambda p: p.add_function("f", 3, [[0, 2], [1, 3]], "interp", torch.exp), "overlap between 2 and 1"),
    "a gap": (lambda p: p.add_function("f", 3, [[0, 1], [2, 3]], "interp", torch.exp), "leave a gap between 1 and 2"),
    "several": (lambda p: p.fit_function(torch.exp, [[0, 1], [1, 2]]), "single interval"),
    "a degree": (lambda p: p.add_function("f", 21, [[0, 1]], "interp", torch.exp), "from 0 to 20"),
    "half a degree": (lambda p: p.add_function("f", 2.5, [[0, 1]], "interp", torch.exp), "from 0 to 20"),
    "a type": (lambda p: p.add_function("f", 3, [[0, 1]], "spline", torch.exp), "'interp', 'taylor', got 'spline'"),
    "not finite": (lambda p: p.add_function("f", 3, [[-1, 1]], "interp", lambda x: x.log()), r"not finite on \[-1, 1\]"),
    "not finite in the middle": (
        lambda p: p.add_function("f", 3, [[-1, 1]], "taylor", lambda x: 1 / x),
        r"not finite on \[-1, 1\]",
    ),
    "no derivative": (lambda p: p.add_function("f", 3, [[-1, 1]], "taylor", lambda x: (x**2).sqrt()), "not finite at 0"),
    "another shape": (lambda p: p.add_function("f", 3, [[0, 1]], "interp", lambda x: x.sum()), "one real number"),
    "samples": (lambda p: p.interpolate("f", torch.zeros(3), torch.zeros(4), 1, [[0, 1]]), "as many points as values, got 3 and 4"),
    "few samples": (lambda p: p.interpolate("f", torch.tensor([0.0, 1.0]), torch.zeros(2), 5), "Degree 5 needs samples at 6 points"),
    "samples at one place": (lambda p: p.interpolate("f", torch.zeros(9), torch.zeros(9), 1, [[-1, 1]]), "at 2 points of .* got 1"),
    "no samples": (lambda p: p.interpolate("f", torch.zeros(0), torch.zeros(0), 1), "two points at least"),
    "NaN": (lambda p: p.interpolate("f", torch.arange(3.0), torch.tensor([0, math.nan, 1]), 1), "finite numbers"),
    "infinity": (lambda p: p.interpolate("f", torch.tensor([0, math.inf]), torch.zeros(2), 1), "finite numbers"),
    "samples and taylor": (
        lambda p: p.add_function("f", 1, [[0, 1]], "taylor", (torch.arange(2), torch.arange(2))),
        "needs a function",
    ),
    "nothing to fit": (lambda p: p.add_function("f", 1, [[0, 1]], "interp", 3.0), "a function of tensors, or samples"),
    "text": (lambda p: p.get_val("sigmoid", "1.0"), "got a str"),
    "complex": (lambda p: p.get_val("sigmoid", torch.zeros(1, dtype=torch.complex64)), "real numbers"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    p = sigmoid()
    call, text = REFUSED[name]
    with pytest.raises(SyftError, match=text):
        call(p)
    assert set(p.functions) == {"sigmoid"}


def test_refused_on_shares(cast, bob):
    p = sigmoid()
    whole = torch.tensor([1, 2]).share(*cast[0][:2], crypto_provider=cast[1])
    with pytest.raises(SyftError, match=r"fix_precision\(\).share"):
        p.get_val("sigmoid", whole)
    with pytest.raises(SyftError, match=r"fetch it first"):
        p.get_val("sigmoid", torch.tensor([1.0]).send(bob))
    p.add_function("exp", 8, [[0, 60]], "interp", torch.exp)
    with pytest.raises(SyftError, match="no room with 65536 units"):
        p.get_val("exp", encoded(torch.tensor([1.0]), "16 bits", cast, 2))


def test_too_many_functions():
    p = sy.PolynomialTensor()
    for number in range(64):
        p.add_function(f"f{number}", 1, [[0, 1]], "interp", torch.exp)
    with pytest.raises(SyftError, match="at most 64"):
        p.add_function("more", 1, [[0, 1]], "interp", torch.exp)


def test_repr():
    p = sy.PolynomialTensor()
    assert repr(p) == "PolynomialTensor()"
    p.add_function("line", 1, [0, 5], "interp", lambda x: 2 * x)
    assert repr(p).startswith("PolynomialTensor(line: degree 1 on [0, 5], off by ")
    assert "in 2 pieces" in repr(sigmoid())
