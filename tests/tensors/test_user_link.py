"""A link type of a user's own: rules, registration for the wire, refusals that help."""

import pytest
import torch
from torch import nn

import syft as sy
from syft.core.dispatch import find_rule, rules_of, run
from syft.core.tensor import AbstractTensor, Level
from syft.exceptions import SerdeError, SyftError, UnsupportedOperationError
from syft.serde.registry import BY_TYPE

aten = torch.ops.aten


class Money(AbstractTensor):
    """Whole cents of a currency: what is below is an integer tensor, and unlike currencies never mix."""

    def __init__(self, currency="EUR", **kwargs):
        super().__init__(**kwargs)
        self.currency = currency

    def get_class_attributes(self):
        return {"currency": self.currency}

    def same(self, other):
        if isinstance(other, Money) and other.currency != self.currency:
            raise ValueError(f"{self.currency} and {other.currency} do not add up")
        return other.child if isinstance(other, Money) else other

    def like(self, below):
        return Money(self.currency).on(below, wrap=False)


@Money.implements(torch.Tensor.add, torch.add)
def add(input, other, *, alpha=1):
    x = input if isinstance(input, Money) else other
    other = other if x is input else input
    return x.like(run(torch.add, (x.child, x.same(other)), {"alpha": alpha}))


@Money.implements(torch.Tensor.mul, torch.mul)
def mul(x, factor):
    if isinstance(factor, Money):
        raise ValueError("money times money is no money")
    return x.like(run(torch.mul, (x.child, factor)))


@Money.implements(torch.Tensor.sum, torch.sum)
def total(x, *args, **kwargs):
    return x.like(run(torch.sum, (x.child, *args), kwargs))


@Money.implements(torch.cat)
def cat(parts, dim=0):
    return parts[0].like(torch.cat([parts[0].same(part) for part in parts], dim=dim))


@Money.implements(torch.Tensor.add_)
def add_(x, other):
    x.child.add_(x.same(other))
    return x


class Halved(AbstractTensor):
    """An ATen-level link that refuses what it has no rule for."""

    level = Level.ATEN


@Halved.implements(aten.mul.Tensor)
def halved_mul(x, y):
    plain = [part.child if isinstance(part, Halved) else part for part in (x, y)]
    return Halved().on(plain[0] * plain[1] / 2, wrap=False)


@Halved.implements(aten.sum)  # all forms of sum
def halved_sum(x, *args, **kwargs):
    return Halved().on(x.child.sum(*args, **kwargs), wrap=False)


@Halved.implements(aten.expand.default, aten.ones_like.default)
def halved_rest(x, *args, **kwargs):
    shape = args[0] if args else x.child.shape
    return Halved().on(x.child.expand(shape) if args else torch.ones(shape), wrap=False)


@pytest.fixture(autouse=True)
def registered(hook):
    sy.serde.register(Money, code=1000)
    sy.serde.register(Halved, code=1001)
    yield
    for kind in (Money, Halved):
        sy.serde.unregister(kind)
    assert Money not in BY_TYPE


def cents(*values, currency="EUR"):
    return Money(currency).on(torch.tensor(values))


def below(tensor):
    return tensor.child.child


def test_rules_are_used():
    x, y = cents(150, 250), cents(1, 2)
    for result in (x + y, x.add(y), torch.add(x, y), torch.add(input=x, other=y), y + x, torch.tensor([150, 250]) + y):
        assert below(result).tolist() == [151, 252]
        assert result.child.currency == "EUR"
    assert below(x + 1).tolist() == [151, 251]
    assert below(1 + x).tolist() == [151, 251]
    assert below(3 * x).tolist() == [450, 750]
    assert below(torch.add(x, y, alpha=10)).tolist() == [160, 270]
    assert below(x.sum()).item() == 400
    assert below(x.sum(dim=0, keepdim=True)).tolist() == [400]
    assert below(torch.cat([x, y])).tolist() == [150, 250, 1, 2]


def test_rules_may_refuse():
    with pytest.raises(ValueError, match="EUR and USD do not add up"):
        cents(1) + cents(1, currency="USD")
    with pytest.raises(ValueError, match="EUR and USD"):
        torch.cat([cents(1), cents(1, currency="USD")])


def test_in_place():
    x = same = cents(150)
    x += cents(1)
    assert x is same
    assert below(x).tolist() == [151]


def test_rules_are_listed_by_name():
    names = [name for name, _ in rules_of(Money)]
    assert names == sorted(names)
    assert {"torch.Tensor.add", "torch.add", "torch.cat", "torch.Tensor.sum"} <= set(names)
    assert dict(rules_of(Money))["torch.add"] is add


@pytest.mark.parametrize(
    ("call", "operation", "nearest"),
    [
        (lambda x: torch.mm(x, x), r"torch\.\w+", r"torch\.\S+"),
        (lambda x: x.cumsum(0), r"torch\.Tensor\.cumsum", r"torch\.Tensor\.sum"),
        (lambda x: torch.cumsum(x, 0), r"torch\.cumsum", r"torch\.sum"),
        (lambda x: x.mul_(2), r"torch\.Tensor\.mul_", r"torch\.Tensor\.mul"),
        (lambda x: x.addmm(x, x), r"torch\.Tensor\.addmm", r"torch\.Tensor\.add"),
        (lambda x: torch.nn.functional.relu(x), r"torch\.nn\.functional\.relu", r"torch\.\S+"),
    ],
)
def test_calls_without_a_rule_are_refused_with_the_nearest_call(call, operation, nearest):
    with pytest.raises(
        UnsupportedOperationError,
        match=rf"^{operation} is not supported on Money\. The nearest supported call is {nearest}\. "
        r'Set unregistered = "forward" in Money to run other calls on the tensor below\.$',
    ) as caught:
        call(cents(1, 2))
    assert caught.value.link == "Money"
    assert isinstance(caught.value, NotImplementedError)
    assert isinstance(caught.value, SyftError)


def test_errors_of_a_link_without_rules_say_how_to_add_one():
    class Bare(AbstractTensor):
        pass

    with pytest.raises(UnsupportedOperationError, match=r"It has no rules yet; add one with implements\(\)"):
        Bare().on(torch.ones(1)) + 1


def test_nothing_is_forwarded_by_default():
    x = cents(1, 2)
    before = below(x).clone()
    for call in (lambda: x.zero_(), lambda: x.exp(), lambda: torch.stack([x, x]), lambda: x.item(), lambda: x.tolist()):
        with pytest.raises(UnsupportedOperationError):
            call()
    assert torch.equal(below(x), before)


def test_duplicates_are_refused():
    with pytest.raises(SyftError, match=r"Money already has a rule for .*add"):
        Money.implements(torch.add)(lambda *args: None)
    assert find_rule(Money, torch.add) is dict(rules_of(Money))["torch.add"] is add


def test_subclasses_inherit_and_may_override():
    class Coins(Money):
        pass

    x = Coins("EUR").on(torch.tensor([5]))
    assert below(x + 1).tolist() == [6]

    @Coins.implements(torch.Tensor.add)
    def clink(x, other):
        return "clink"

    assert x + 1 == "clink"
    assert below(cents(5) + 1).tolist() == [6]
    assert find_rule(Coins, torch.Tensor.add) is dict(rules_of(Coins))["torch.Tensor.add"] is clink
    assert find_rule(Coins, torch.cat) is dict(rules_of(Coins))["torch.cat"] is cat


def test_a_rule_added_after_a_refusal_is_used():
    class Late(AbstractTensor):
        pass

    x = Late().on(torch.ones(1))
    with pytest.raises(UnsupportedOperationError):
        x.neg()
    Late.implements(torch.Tensor.neg)(lambda x: "now")
    assert x.neg() == "now"


def test_aten_level():
    x = Halved().on(torch.tensor([4.0, 6.0], requires_grad=True))
    y = Halved().on(torch.tensor([2.0, 2.0]))
    result = (x * y).sum()
    assert below(result).item() == 10
    result.backward()
    assert below(x.grad).tolist() == [1, 1]
    with pytest.raises(
        UnsupportedOperationError, match=r"aten.*is not supported on Halved.*nearest supported call is aten\.mul"
    ):
        x.div(y)


def test_two_levels_in_one_chain(capsys):
    x = sy.LoggingTensor().on(cents(150))
    assert (x + x).child.child.child.tolist() == [300]
    with pytest.raises(UnsupportedOperationError, match="Money"):
        x.exp()


# Travelling ---------------------------------------------------------------------------------------------


def test_sent_computed_on_and_got_back(make_worker, kind, nothing_left):
    bob = make_worker("bob", kind)
    x, y = cents(150, 250).send(bob), cents(1, 2).send(bob)
    assert x.location is bob
    assert x.shape == (2,)
    result = (x + y).sum()
    back = result.get()
    assert isinstance(back.child, Money)
    assert back.child.currency == "EUR"
    assert below(back).item() == 403
    original = x.get()
    assert below(original).tolist() == [150, 250]
    del x, y, result
    bob.synchronize()
    nothing_left(bob)


def test_refusals_at_the_worker_come_back(make_worker, kind):
    bob = make_worker("bob", kind)
    x, dollars = cents(150).send(bob), cents(1, currency="USD").send(bob)
    with pytest.raises(UnsupportedOperationError, match="is not supported on Money"):
        x.exp().get()
    with pytest.raises(ValueError, match="EUR and USD do not add up"):
        (x + dollars).get()


def test_on_a_pointer(bob, nothing_left):
    x = Money("CHF").on(torch.tensor([150, 250]).send(bob))
    result = x + x
    assert result.child.child.location is bob
    back = result.get()
    assert back.child.currency == "CHF"
    assert below(back).tolist() == [300, 500]
    del x, result, back
    nothing_left(bob)


def test_bytes_and_labels():
    x = cents(1, 2, currency="JPY")
    x.child.tag("#cash").describe("under the mattress")
    back = sy.deserialize(sy.serialize(x))
    assert (back.child.currency, back.child.tags, back.child.description) == ("JPY", {"#cash"}, "under the mattress")
    assert torch.equal(below(back), below(x))


def test_codes_are_given_once():
    with pytest.raises(SerdeError, match="already registered with code 1000"):
        sy.serde.register(Money, code=1002)
    with pytest.raises(SerdeError, match=r"Code 1000 of .* belongs to .*Money"):
        sy.serde.register(type("Other", (Money,), {}), code=1000)


def test_a_type_without_a_code_is_refused_with_instructions(bob):
    class Unknown(AbstractTensor):
        pass

    with pytest.raises(SerdeError, match=r"syft\.serde\.register\(Unknown, code=<1000 or more>"):
        Unknown().on(torch.ones(1)).send(bob)
    assert bob._objects == {}


def test_as_a_parameter_of_a_module(bob):
    class Till(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("cash", cents(100, 200))

        def forward(self, x):
            return self.cash + x

    till = Till()
    assert below(till(cents(1, 1))).tolist() == [101, 201]
    till.send(bob)
    assert till.cash.location is bob
    out = till(cents(1, 1).send(bob)).get()
    assert below(out).tolist() == [101, 201]
    till.get()
    assert isinstance(till.cash.child, Money)
