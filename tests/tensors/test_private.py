"""PrivateTensor: computes like any tensor, and is given only to the users it names."""

from __future__ import annotations

import copy
import pickle
import re

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import syft as sy
from syft.exceptions import (
    CommandNotAllowedError,
    GetNotPermittedError,
    SendNotPermittedError,
    SerdeError,
    SyftError,
)
from tests.helpers.nodes import forget
from tests.helpers.nodes import node as node_process

A = torch.tensor([[1.5, -2.0, 3.0], [0.5, 4.0, -1.0]])
B = torch.tensor([[2.0, 1.0, -1.5], [3.0, -0.5, 2.0]])
SECRET = 41.4375


def shows(text):
    """Say whether a text contains a private number; ids are random digits."""
    return re.search(r"41\.4|7341", re.sub(r"\d{20,}", "<id>", str(text))) is not None


def private(tensor, *users):
    return tensor.clone().private_tensor(allowed_users=users or ("alice",))


@pytest.fixture
def x(hook):
    return private(A)


@pytest.fixture
def secret(hook):
    return torch.tensor([SECRET, -7341.625]).private_tensor(allowed_users=["alice"])


# --- operations -----------------------------------------------------------------------------------------------------

OPERATIONS = {
    "a+b": lambda a, b: a + b, "a-b": lambda a, b: a - b, "a+2": lambda a, b: a + 2, "2+a": lambda a, b: 2 + a,
    "1-a": lambda a, b: 1 - a, "a+1.5": lambda a, b: a + 1.5, "a+plain": lambda a, b: a + B, "plain+a": lambda a, b: B + a,
    "a*b": lambda a, b: a * b, "a*3": lambda a, b: a * 3, "a*0.5": lambda a, b: a * 0.5, "a*plain": lambda a, b: a * B,
    "a/2": lambda a, b: a / 2, "a/b": lambda a, b: a / b, "sum/2": lambda a, b: a.sum() / 2, "a@b": lambda a, b: a @ b.t(),
    "torch.matmul": lambda a, b: torch.matmul(a, b.t()), "a**2": lambda a, b: a**2, "-a": lambda a, b: -a,
    "a>b": lambda a, b: a > b, "a<=b": lambda a, b: a <= b, "a==a": lambda a, b: a == a, "F.relu": lambda a, b: F.relu(a),
    "torch.relu": lambda a, b: torch.relu(a), "nn.ReLU": lambda a, b: torch.nn.ReLU()(a), "sum": lambda a, b: a.sum(),
    "sum(0)": lambda a, b: a.sum(0), "sum(dim=0)": lambda a, b: a.sum(dim=0), "mean": lambda a, b: a.mean(),
    "torch.mean": lambda a, b: torch.mean(a), "view": lambda a, b: a.view(3, 2), "t": lambda a, b: a.t(),
    "index": lambda a, b: a[0], "cat": lambda a, b: torch.cat([a, b]), "cat dim kw": lambda a, b: torch.cat([a, b], dim=1),
    "stack": lambda a, b: torch.stack([a, b]), "squeeze": lambda a, b: a[:1].squeeze(), "max": lambda a, b: a.max(),
    "min": lambda a, b: a.min(), "argmax(dim=1)": lambda a, b: a.argmax(dim=1), "abs": lambda a, b: a.abs(),
    "clamp": lambda a, b: a.clamp(-1, 1), "prod": lambda a, b: a.prod(), "sign": lambda a, b: a.sign(),
    "exp": lambda a, b: a.exp(), "log": lambda a, b: a.abs().log(), "sigmoid": lambda a, b: a.sigmoid(),
    "tanh": lambda a, b: a.tanh(), "sqrt": lambda a, b: a.abs().sqrt(), "reciprocal": lambda a, b: a.reciprocal(),
    "softmax": lambda a, b: a.softmax(1), "log_softmax": lambda a, b: F.log_softmax(a, dim=1),
    "mse_loss": lambda a, b: F.mse_loss(a, b), "norm": lambda a, b: a.norm(), "var": lambda a, b: a.var(),
    "bmm": lambda a, b: torch.bmm(a[None], b.t()[None]), "dot": lambda a, b: a[0].dot(b[0]),
    "conv2d": lambda a, b: F.conv2d(a[None, None], b[None, None, :, :2]), "linear": lambda a, b: F.linear(a, b),
    "max_pool2d": lambda a, b: F.max_pool2d(a[None], 2), "avg_pool2d": lambda a, b: F.avg_pool2d(a[None], 2),
    "dropout eval": lambda a, b: F.dropout(a, training=False), "where": lambda a, b: torch.where(a > 0, a, b),
    "einsum": lambda a, b: torch.einsum("ij,kj->ik", a, b),
}  # fmt: skip


@pytest.mark.parametrize("name", list(OPERATIONS))
def test_operations_of_the_matrix(hook, name):
    result = OPERATIONS[name](private(A, "alice", "bob"), private(B, "bob", "carol"))
    expected = OPERATIONS[name](A, B)
    assert result.shape == expected.shape and result.dtype == expected.dtype
    link = result.child
    assert isinstance(link, sy.PrivateTensor)
    assert link.allowed_users == (("bob",) if _takes_both(name) else ("alice", "bob"))
    assert torch.equal(result.get(user="bob"), expected)


def _takes_both(name):
    both = "a+b a-b a*b a/b a@b torch.matmul a>b a<=b cat stack mse_loss bmm dot conv2d linear where einsum"
    return name in both.split() or name == "cat dim kw"


def test_results_are_for_the_users_that_all_operands_name(hook):
    a, b, c = private(A, "alice", "bob"), private(A, "bob", "carol"), private(A, "carol")
    assert (a + b).child.allowed_users == ("bob",) and (a + b + c).child.allowed_users == ()
    assert (a + A).child.allowed_users == ("alice", "bob")
    assert [part.child.allowed_users for part in a.sort(1)] == [("alice", "bob")] * 2
    assert torch.cat([a, b]).child.allowed_users == ("bob",)


def test_in_place_calls_keep_the_object_and_lose_users(hook):
    a, b = private(A, "alice", "bob"), private(B, "bob")
    same = a.add_(b)
    assert same is a and a.child.allowed_users == ("bob",) and torch.equal(a.get(user="bob"), A + B)
    a[0] = private(torch.zeros(3), "nobody")[:]
    assert a.child.allowed_users == ()


def test_private_values_are_not_written_into_open_tensors(hook, x):
    open_one = torch.zeros(2, 3)
    for write in (
        lambda: open_one.add_(x), lambda: open_one.copy_(x), lambda: open_one.__setitem__(0, x[0]),
        lambda: torch.neg(x, out=open_one), lambda: open_one.__iadd__(x),
    ):  # fmt: skip
        with pytest.raises(GetNotPermittedError, match="would write a private tensor"):
            write()
    assert torch.equal(open_one, torch.zeros(2, 3))


def test_gradients_are_private(hook):
    x = A.clone().requires_grad_().private_tensor(allowed_users="alice")
    (x * x).sum().backward()
    assert isinstance(x.grad.child, sy.PrivateTensor) and x.grad.allow("alice") and not x.grad.allow("bob")
    assert torch.equal(x.grad.get(user="alice"), 2 * A)


def test_a_module_takes_it(hook, x):
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
    result = model(x)
    assert torch.allclose(result.get(user="alice"), model(A)) and not result.allow("bob")


# --- users ----------------------------------------------------------------------------------------------------------


def test_users(hook):
    link = sy.PrivateTensor(allowed_users=("alice", "bob"), tags={"#x"}, description="d", parents=(1,), command="add")
    assert link.allow("alice") and not link.allow("carol") and not link.allow(None) and not link.allow(["alice"])
    assert link.get_class_attributes() == {"allowed_users": ("alice", "bob")}
    assert link.register_credentials("carol") is link and link.allow("carol")
    assert link.register_credentials(["dora", "alice"]).allowed_users == ("alice", "bob", "carol", "dora")
    assert link.tags == {"#x"} and link.description == "d" and link.parents == (1,) and link.command == "add"


@pytest.mark.parametrize("users", ["Alice", ("Alice"), ["Alice"], {"Alice"}, ("Alice", "Alice")])
def test_a_text_is_one_user(hook, users):
    x = A.private_tensor(allowed_users=users)
    assert x.child.allowed_users == ("Alice",) and x.allow("Alice")
    assert not any(x.allow(letter) for letter in "Alice")
    assert sy.PrivateTensor(allowed_users=users).allowed_users == ("Alice",)


def test_invalid_users_are_refused(hook):
    for users in ([None], [["alice"]], [3.5], [b"alice"], ["x" * 1000], [object()]):
        with pytest.raises(TypeError, match="allowed_users"):
            A.private_tensor(allowed_users=users)
    assert A.private_tensor().child.allowed_users == ()
    with pytest.raises(GetNotPermittedError, match="no allowed users"):
        A.private_tensor().get(user="alice")


def test_private_tensor_and_allow_of_tensors(hook, x):
    assert x.allow("alice") and not x.allow("bob") and not x.allow() and A.allow() and A.allow("anybody")
    assert isinstance(A.private_tensor("alice", no_wrap=True), sy.PrivateTensor)
    assert A.private_tensor("alice", "bob", allowed_users="carol").child.allowed_users == ("carol", "alice", "bob")
    assert x.register_credentials("bob") is x and x.allow("bob")
    with pytest.raises(TypeError, match="not private"):
        A.clone().register_credentials("bob")
    tagged = A.clone().tag("#a").describe("about").private_tensor(allowed_users="alice")
    assert tagged.tags == {"#a"} and tagged.description == "about"


# --- nothing shown contains values --------------------------------------------------------------------------------

VALUES = {
    "item": lambda s: s[0].item(), "float": lambda s: float(s[0]), "int": lambda s: int(s[0]), "bool": lambda s: bool(s[0]),
    "tolist": lambda s: s.tolist(), "numpy": lambda s: s.numpy(), "asarray": lambda s: np.asarray(s),
    "equal": lambda s: torch.equal(s, s), "allclose": lambda s: torch.allclose(s, s), "is_nonzero": lambda s: s[0].is_nonzero(),
    "contains": lambda s: SECRET in s, "get": lambda s: s.get(), "get by another": lambda s: s.get(user="bob"),
    "get of a result": lambda s: (s + 0).get(user="eve"), "get_": lambda s: s.get_(user="bob"),
    "pickle": lambda s: pickle.dumps(s), "pickle of the link": lambda s: pickle.dumps(s.child),
}  # fmt: skip


@pytest.mark.parametrize("way", list(VALUES))
def test_values_are_not_given(secret, way):
    with pytest.raises((GetNotPermittedError, TypeError, SyftError)) as caught:
        VALUES[way](secret)
    assert not shows(caught.value)
    assert secret.get(user="alice").tolist() == [SECRET, -7341.625]


def test_nothing_shown_contains_values(secret):
    for shown in (
        repr(secret), str(secret), f"{secret}", f"{secret!r:>80}", repr(secret.child), str(secret.child), repr([secret]),
        repr(copy.copy(secret)), repr(secret + 1), repr(secret.child.get_class_attributes()), secret._repr_html_(),
    ):  # fmt: skip
        assert not shows(shown), shown
    assert "alice" in repr(secret) and "(2,)" in repr(secret)


# --- sending --------------------------------------------------------------------------------------------------------


def test_sending_and_getting_in_a_sandbox(make_worker, kind, hook, x):
    bob = make_worker("bob", kind)
    for user in (None, "bob", "alic", 3):
        with pytest.raises(SendNotPermittedError, match="private"):
            x.send(bob, user=user)
    pointer = x.send(bob, user="alice")
    result = pointer * 2 + pointer
    for user in (None, "bob", ["alice"]):
        with pytest.raises(
            (GetNotPermittedError, SerdeError),
            match="is private, and not released to|can't be a tuple of int, list, str",
        ):
            result.get(user=user)
            bob.synchronize()
    with pytest.raises(GetNotPermittedError, match="Name an allowed user"):
        pointer.get(user="eve")
    fetched = result.get(user="alice")
    assert isinstance(fetched.child, sy.PrivateTensor) and torch.equal(fetched.get(user="alice"), A * 3)
    assert pointer.get(user="alice").allow("alice")


def test_both_historic_ways_in(make_worker, kind, hook, secret):
    """Values must not leave through __str__ of remote objects, the attribute child.child, or lists of objects."""
    bob = make_worker("bob", kind)
    pointer = secret.send(bob, user="alice")
    bob.synchronize()
    for way in (
        lambda: pointer.attr("child").attr("child").get(), lambda: pointer.attr("child.child").copy().get(),
        lambda: pointer.child.attr("child").get(), lambda: sy.PointerTensor(
            location=bob, id_at_location=pointer.id_at_location, point_to_attr="child.child", garbage_collect_data=False
        ).wrap().copy().get(),
    ):  # fmt: skip
        with pytest.raises((AttributeError, CommandNotAllowedError), match="attribute 'child"):
            way()
            bob.synchronize()
    shown = [repr(bob._objects), str(list(bob._objects.values())), repr(bob.search([])), repr(bob), repr(pointer)]
    assert not any(map(shows, shown))
    for way in (
        lambda: pointer[0].item(),
        lambda: pointer.tolist(),
        lambda: float(pointer.sum()),
        lambda: bool(pointer[0]),
    ):
        with pytest.raises(GetNotPermittedError):
            way()


def test_at_a_node_the_connection_identifies_the_user(hook, secret):
    """The link is taken off there: the users that it names may read the published tensor, known by their tokens."""
    users = {"owner": "owner", "sender": "user", "alice": "user", "bob": "user"}
    with node_process("private", users=users) as process:
        sender, alice, bob = (process.connect(hook, name) for name in ("sender", "alice", "bob"))
        secret.tag("#secret").send(sender, user="alice", garbage_collect_data=False)
        sender.synchronize()
        (theirs,) = bob.search("#secret")
        for user in ("alice", "sender", None):
            with pytest.raises(GetNotPermittedError):
                theirs.copy().get(user=user)
        (mine,) = alice.search("#secret")
        assert (mine * 2).get().tolist() == [2 * SECRET, 2 * -7341.625]
        assert mine.get().tolist() == [SECRET, -7341.625]
        (own,) = sender.search("#secret")
        assert own.get().tolist() == [SECRET, -7341.625]
        forget(hook, sender, alice, bob)


def test_it_survives_bytes(hook, x):
    again = sy.deserialize(sy.serialize(x))
    assert again.child.allowed_users == ("alice",) and torch.equal(again.get(user="alice"), A)
    assert not re.search(rb"parents|command", sy.serialize(x))
    link = sy.PrivateTensor.detail(None, sy.PrivateTensor.simplify(None, x.child))
    assert link.allowed_users == ("alice",)
    for forged in (
        (1, ["alice"], set(), None, A),
        (1, ("alice",), set(), None, "no tensor"),
        (1, (None,), set(), None, A),
    ):
        with pytest.raises(TypeError):
            sy.PrivateTensor.detail(None, forged)


def test_over_pointers(bob, hook):
    pointer = A.send(bob).private_tensor(allowed_users="alice")
    doubled = pointer + pointer
    assert doubled.location is bob and "alice" in repr(doubled)
    with pytest.raises(GetNotPermittedError):
        doubled.get(user="bob")
    assert torch.equal(doubled.get(user="alice").get(user="alice"), 2 * A)


def test_fixed_precision_below(hook):
    x = A.fix_precision().private_tensor(allowed_users="alice")
    doubled = x + x
    decoded = doubled.child.float_precision()
    assert isinstance(decoded, sy.PrivateTensor) and decoded.allow("alice")
    assert torch.allclose(decoded.get(user="alice"), 2 * A, atol=1e-3)
