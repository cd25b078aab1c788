"""AbstractObject and AbstractTensor: ids, owners, labels, bytes, chains."""

import pytest
import torch

import syft as sy
from syft.core.object import AbstractObject, initialize_object
from syft.core.tensor import AbstractTensor, initialize_tensor
from syft.exceptions import InvalidTensorForRemoteGetError, UnsupportedOperationError
from syft.generic import object as documented_object
from syft.generic import tensor as documented_tensor

ROWS = {
    documented_object: (
        "AbstractObject AbstractObject.describe AbstractObject.tag AbstractObject.serialize AbstractObject.ser "
        "AbstractObject.get AbstractObject.mid_get AbstractObject.get_class_attributes "
        "AbstractObject.on_function_call AbstractObject.handle_func_command AbstractObject.rgetattr initialize_object"
    ).split(),
    documented_tensor: (
        "AbstractTensor AbstractTensor.wrap AbstractTensor.on AbstractTensor.copy AbstractTensor.clone "
        "AbstractTensor.refresh AbstractTensor.shape AbstractTensor.grad initialize_tensor"
    ).split(),
}


class Forwarding(AbstractTensor):
    """The smallest link: every call goes on to what is below."""

    unregistered = "forward"

    def __init__(self, scale=1, **kwargs):
        super().__init__(**kwargs)
        self.scale = scale

    def get_class_attributes(self):
        return {"scale": self.scale}


@pytest.mark.parametrize(("module", "row"), [(m, r) for m, rows in ROWS.items() for r in rows])
def test_documented_names_are_there(module, row):
    """Rows: every name of syft.generic.object and syft.generic.tensor."""
    found = module
    for part in row.split("."):
        found = getattr(found, part)
    assert found.__doc__


def test_fields(hook, bob):
    """Row: AbstractObject(id, owner, tags, description, child)."""
    obj = AbstractObject(id="i", owner=bob, tags=["a", "a", "b"], description="d", child=3)
    assert (obj.id, obj.owner, obj.tags, obj.description, obj.child) == ("i", bob, {"a", "b"}, "d", 3)
    bare = AbstractObject()
    assert bare.owner is hook.local_worker
    assert (bare.tags, bare.description, bare.has_child()) == (set(), None, False)
    assert bare.id == bare.id
    assert bare.id != AbstractObject().id
    bare.id, bare.owner = 5, bob
    assert (bare.id, bare.owner) == (5, bob)


def test_zero_is_an_id():
    assert AbstractObject(id=0).id == 0


def test_labels_chain():
    """Rows: AbstractObject.tag, AbstractObject.describe."""
    obj = AbstractObject()
    assert obj.tag("a", "b").tag("c").describe("text") is obj
    assert (obj.tags, obj.description) == ({"a", "b", "c"}, "text")
    tags = {"x"}
    AbstractObject(tags=tags).tag("y")
    assert tags == {"x"}, "the caller's set stays the caller's"


@pytest.mark.parametrize("name", ["serialize", "ser"])
def test_bytes(hook, name):
    """Rows: AbstractObject.serialize, AbstractObject.ser, and the same on tensors."""
    for value in (sy.String("abc"), sy.LoggingTensor().on(torch.ones(2), wrap=False)):
        binary = getattr(value, name)()
        assert isinstance(binary, bytes)
        assert type(sy.deserialize(binary)) is type(value)
    plain = getattr(torch.ones(2), name)()
    assert torch.equal(sy.deserialize(plain), torch.ones(2))
    chain = sy.deserialize(getattr(sy.LoggingTensor().on(torch.ones(2)), name)())
    assert torch.equal(chain.child.child, torch.ones(2))


def test_get_fetches_the_wrapped_object(hook, bob, nothing_left):
    """Row: AbstractObject.get."""
    link = Forwarding(scale=3).on(torch.ones(2).send(bob), wrap=False)
    assert link.get() is link
    assert torch.equal(link.child, torch.ones(2))
    chain = Forwarding().on(torch.ones(2).send(bob))
    back = chain.get()
    assert torch.equal(back.child.child, torch.ones(2))
    del chain, back
    nothing_left(bob)


@pytest.mark.parametrize("obj", [AbstractObject(), AbstractObject(child=3)], ids=["no-child", "plain-child"])
@pytest.mark.parametrize("name", ["get", "mid_get"])
def test_nothing_to_get(obj, name):
    """Rows: AbstractObject.get, AbstractObject.mid_get -> InvalidTensorForRemoteGetError."""
    with pytest.raises(InvalidTensorForRemoteGetError, match="AbstractObject is not a pointer"):
        getattr(obj, name)()


def test_defaults_to_override():
    """Rows: get_class_attributes, on_function_call, handle_func_command."""
    assert AbstractObject().get_class_attributes() == {}
    assert AbstractObject.on_function_call(("torch.add", None, (), {})) is None
    with pytest.raises(UnsupportedOperationError, match=r"torch\.add is not supported on AbstractObject"):
        AbstractObject.handle_func_command(("torch.add", None, (), {}))


def test_dotted_attributes():
    """Row: AbstractObject.rgetattr."""
    obj = AbstractObject(child=AbstractObject(description="deep"))
    assert AbstractObject.rgetattr(obj, "child.description") == "deep"
    assert AbstractObject.rgetattr(obj, "nothing", 3) == 3
    with pytest.raises(AttributeError):
        AbstractObject.rgetattr(obj, "child.nothing")
    for path in ("__class__", "child.__class__.__mro__", "_id"):
        with pytest.raises(AttributeError, match="private"):
            AbstractObject.rgetattr(obj, path)
        with pytest.raises(AttributeError, match="private"):
            AbstractObject.rgetattr(obj, path, None)


def test_initialize_object(hook, bob):
    """Row: initialize_object."""
    text = sy.String("a")
    assert initialize_object(hook, text, owner=bob, id="i", init_args=("b",)) is text
    assert (text.child, text.id, text.owner) == ("b", "i", bob)
    initialize_object(hook, text, reinitialize=False)
    assert text.child == "b"
    assert text.owner is hook.local_worker
    assert text.id != "i"
    initialize_object(hook, text, init_kwargs={"object": "c"})
    assert text.child == "c"


def test_initialize_tensor(hook, bob):
    """Row: initialize_tensor."""
    tensor = torch.ones(1)
    assert initialize_tensor(hook, tensor, owner=bob, id=4) is tensor
    assert (tensor.id, tensor.owner) == (4, bob)
    initialize_tensor(hook, tensor)
    assert tensor.owner is hook.local_worker
    assert tensor.id != 4


# AbstractTensor -----------------------------------------------------------------------------------------


def test_on_and_wrap(hook):
    """Rows: AbstractTensor.on, AbstractTensor.wrap."""
    below = torch.ones(2, 3, dtype=torch.float64)
    bare = Forwarding().on(below, wrap=False)
    assert isinstance(bare, Forwarding)
    assert bare.child is below
    shell = bare.wrap()
    assert isinstance(shell, torch.Tensor)
    assert shell.child is bare
    assert (shell.shape, shell.dtype) == (torch.Size([2, 3]), torch.float64)
    assert shell.is_wrapper
    assert not below.is_wrapper
    chain = Forwarding().on(Forwarding().on(below))
    assert chain.child.child.child is below
    assert repr(chain).startswith("(Wrapper)>Forwarding>Forwarding>")


def test_shape_dtype_and_dim_of_a_chain(hook):
    """Row: AbstractTensor.shape."""
    chain = Forwarding().on(Forwarding().on(torch.ones(2, 3, dtype=torch.int32)))
    for value in (chain, chain.child, chain.child.child):
        assert value.shape == torch.Size([2, 3])
        assert value.dtype is torch.int32
    assert chain.dim() == 2
    assert chain.size() == torch.Size([2, 3])
    assert chain.T.shape == torch.Size([3, 2])


@pytest.mark.parametrize("name", ["copy", "clone"])
def test_copies_share_nothing_and_inherit(hook, name):
    """Rows: AbstractTensor.copy, AbstractTensor.clone."""
    link = Forwarding(scale=3).on(torch.ones(2), wrap=False)
    proxy = getattr(link, name)()
    assert isinstance(proxy, Forwarding)
    assert proxy.scale == 3
    assert (proxy.id == link.id) is (name == "clone")
    proxy.child.add_(1)
    assert link.child.tolist() == [1, 1]
    assert proxy.child.tolist() == [2, 2]


def test_results_inherit_class_attributes(hook):
    """Row: get_class_attributes."""
    x = Forwarding(scale=3).on(torch.ones(2))
    for result in (x + 1, torch.stack([x, x]), x.max(), (x * 2).chunk(2)[0]):
        assert result.child.scale == 3


def test_gradient_of_a_link(hook):
    """Row: AbstractTensor.grad."""
    x = Forwarding(scale=3).on(torch.ones(2, requires_grad=True))
    assert x.child.grad is None
    assert x.grad is None
    (x * 2).sum().backward()
    assert x.child.child.grad.tolist() == [2, 2]
    assert x.child.grad.child.child.tolist() == [2, 2]
    assert x.grad.child.child.tolist() == [2, 2]


def test_refresh_goes_down(hook):
    """Row: AbstractTensor.refresh: without shares below there is nothing to renew."""
    link = Forwarding().on(torch.ones(2), wrap=False)
    assert link.refresh() is link
    assert link.child.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (lambda x: ("torch.add", None, (x, x), {}), [2, 2]),
        (lambda x: (torch.add, None, (x, 1), {"alpha": 3}), [4, 4]),
        (lambda x: ("mul", x, (5,), None), [5, 5]),
    ],
)
def test_commands(hook, command, expected):
    """Row: handle_func_command."""
    link = Forwarding().on(torch.ones(2), wrap=False)
    result = Forwarding.handle_func_command(command(link))
    assert isinstance(result, Forwarding)
    assert result.child.tolist() == expected


def test_bare_links_take_the_methods_and_operators_of_tensors(hook):
    a = Forwarding().on(torch.tensor([1.0, 2.0]), wrap=False)
    b = Forwarding().on(torch.tensor([3.0, 4.0]), wrap=False)
    cases = {
        "a + b": [4, 6], "a - b": [-2, -2], "b - 1": [2, 3], "1 - a": [0, -1], "a * b": [3, 8], "2 * a": [2, 4],
        "b / a": [3, 2], "6 / b": [2, 1.5], "a ** 2": [1, 4], "2 ** a": [2, 4], "b % 2": [1, 0], "-a": [-1, -2],
        "a @ b": 11, "a < b": [True, True], "a >= b": [False, False], "a[1]": 2, "a[:1]": [1],
        "a.add(b, alpha=2)": [7, 10], "a.sum()": 3, "a.reshape(1, 2).T": [[1], [2]], "a.reshape(2, 1)": [[1], [2]],
        "5 // a": [5, 2], "a // 2": [0, 1], "5 % a": [0, 1], "abs(-a)": [1, 2], "+a": [1, 2],
    }  # fmt: skip
    for text, expected in cases.items():
        result = eval(text, {"a": a, "b": b, "abs": abs})  # noqa: S307
        assert isinstance(result, Forwarding), text
        assert result.child.tolist() == expected, text
    assert len(a) == 2
    a += b
    assert a.child.tolist() == [4, 6]
    a //= 4
    assert a.child.tolist() == [1, 1]
    a[0] = 9
    assert a.child.tolist() == [9, 1]
    with pytest.raises(AttributeError, match="'Forwarding' object has no attribute 'nothing_like_that'"):
        a.nothing_like_that
