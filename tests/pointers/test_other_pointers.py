"""MultiPointerTensor, combine_pointers, StringPointer, CallablePointer, ObjectWrapper."""

import pytest
import torch

import syft as sy
from syft.exceptions import CommandNotAllowedError, SerdeError, SyftError, TensorsNotCollocatedError
from syft.pointers.callable_pointer import create_callable_pointer


def test_multi_pointer(workers, nothing_left):
    bob, alice = workers
    x = torch.tensor([1.0, 2.0])
    p = x.send(bob, alice)
    assert isinstance(p.child, sy.MultiPointerTensor) and p.shape == (2,) and p.location == [bob, alice]
    cases = [
        lambda t: t + t,
        lambda t: t * 2 + 1,
        lambda t: 1 - t,
        lambda t: torch.cat([t, t]),
        lambda t: torch.stack([t, t], dim=1),
        lambda t: t > 1,
        lambda t: torch.where(t > 1, t, 0.0),
        lambda t: t.view(2, 1).T,
        lambda t: torch.einsum("i,i->", t, t),
        lambda t: t.max(dim=0).values,
    ]
    for case in cases:
        got = case(p)
        assert got.shape == case(x).shape
        for part in got.get():
            assert torch.equal(part, case(x))
    assert torch.equal((p + p).get(sum_results=True), x * 4)
    assert [t.tolist() for t in p.child.virtual_get()] == [[1.0, 2.0]] * 2
    q = p
    q += 1
    assert q is p and torch.equal(p.child.virtual_get()[0], x + 1)
    assert p.sum().tolist() == [5.0, 5.0]
    assert "-> [PointerTensor" in repr(p)
    del p, q, got, part
    nothing_left(bob, alice)


def test_multi_pointer_autograd(bob, alice):
    p = torch.ones(3, requires_grad=True).send(bob, alice)
    assert p.grad is None
    (p * 2).sum().backward()
    assert [g.tolist() for g in p.grad.copy().get()] == [[2.0] * 3] * 2
    p.grad = None
    assert p.grad is None


def test_combine(bob, alice, make_worker):
    x, y = torch.tensor([1.0]).send(bob), torch.tensor([2.0]).send(alice)
    both = sy.combine_pointers(x, y)
    assert [t.item() for t in (both * 10).get()] == [10.0, 20.0]
    assert [t.item() for t in (x.combine(y) + 1).get()] == [2.0, 3.0]
    with pytest.raises(SyftError, match="pointers at different workers"):
        sy.combine_pointers(x, x)
    with pytest.raises(SyftError, match="one shape"):
        sy.combine_pointers(x, torch.ones(3).send(alice))
    carol = make_worker("carol")
    with pytest.raises(TensorsNotCollocatedError):
        both + torch.ones(1).send(bob, carol)


def test_multi_pointer_travels(workers, make_worker, kind, nothing_left):
    bob, alice = workers
    carol = make_worker("carol", kind)
    p = torch.ones(2).send(bob, alice)
    far = p.send(carol)
    back = far.get()
    assert [t.tolist() for t in (back + p).get()] == [[2.0, 2.0]] * 2
    del p, far, back
    nothing_left(bob, alice, carol)


def test_string_pointer(workers, nothing_left):
    bob, _ = workers
    text = sy.String("Hello World")
    assert text.upper() == "HELLO WORLD" and isinstance(text.upper(), sy.String)
    p = text.send(bob)
    assert isinstance(p, sy.StringPointer)
    upper = p.upper()
    assert isinstance(upper, sy.StringPointer) and upper.get() == "HELLO WORLD"
    assert (p + "!").get() == "Hello World!"
    assert p.startswith("Hello") is True and p.find("World") == 6 and "World" in p
    assert [part.get() for part in p.split(" ")] == ["Hello", "World"]
    with pytest.raises(AttributeError):
        p.format
    q = text.tag("#text").send(bob)
    assert bob.search("#text")[0].get() == "Hello World"
    assert p.get() == text
    del p, q, upper
    nothing_left(bob)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_callable_pointer(workers, nothing_left):
    bob, _ = workers
    model = torch.jit.trace(torch.nn.Linear(3, 2), torch.ones(1, 3))
    wrapper = sy.ObjectWrapper(model, id="the model", tags=["#model"])
    assert torch.equal(wrapper(torch.ones(1, 3)), model(torch.ones(1, 3))) and wrapper.obj is model
    p = wrapper.send(bob)
    assert isinstance(p, sy.CallablePointer)
    out = p(torch.ones(1, 3).send(bob))
    torch.testing.assert_close(out.get().detach(), model(torch.ones(1, 3)).detach())
    second = create_callable_pointer(bob, "ptr", "the model", sy.local_worker, [], None, garbage_collect_data=False)
    assert second(torch.ones(1, 3).send(bob)).get().shape == (1, 2)
    (found,) = bob.search("#model")
    assert isinstance(found, sy.CallablePointer)
    back = p.get()
    assert isinstance(back, sy.ObjectWrapper) and back.obj(torch.ones(1, 3)).shape == (1, 2)
    del p, second, found, out
    nothing_left(bob)


def test_only_wrapped_objects_are_called(bob):
    x = torch.ones(1).send(bob)
    from syft.pointers.remote_call import call_by_name

    with pytest.raises(CommandNotAllowedError, match="Calling a Tensor"):
        call_by_name("syft.call", (x.child,), {})
    with pytest.raises(SerdeError, match="can.t be serialized"):
        sy.ObjectWrapper(print, id="evil").send(bob)
