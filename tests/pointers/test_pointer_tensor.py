"""PointerTensor: metadata without asking, in-place calls, indexing, results, kwargs, errors, claims."""

import copy
import gc

import numpy as np
import pytest
import torch

import syft as sy
from syft.exceptions import (
    CannotRequestObjectAttributeError,
    CommandNotAllowedError,
    InvalidTensorForRemoteGetError,
    ObjectNotFoundError,
    SpentPointerError,
    SyftError,
    TensorsNotCollocatedError,
    WorkerNotFoundError,
)


@pytest.fixture
def bob(make_worker, kind):
    return make_worker("bob", kind)


def test_metadata_without_a_message(bob):
    x = torch.randn(2, 3, dtype=torch.float64, requires_grad=True).send(bob)
    with sy.count_messages() as n:
        assert x.shape == x.size() == (2, 3) and x.size(1) == 3
        assert x.dtype is torch.float64 and x.device.type == "cpu" and x.dim() == x.ndim == 2
        assert x.numel() == 6 and len(x) == 2 and x.requires_grad and x.is_floating_point()
        assert x.location is bob and x.element_size() == 8 and not x.is_sparse
        repr(x), str(x), f"{x}", x._repr_html_()
    assert n.messages == 0


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.add_(1),
        lambda x: x.mul_(x),
        lambda x: x.t_(),
        lambda x: x.unsqueeze_(0),
        lambda x: x.squeeze_(),
        lambda x: x.zero_(),
        lambda x: x.clamp_(min=0),
        lambda x: x.swapaxes_(0, 1),
        lambda x: torch.relu_(x),
        lambda x: torch.nn.functional.relu(x, inplace=True),
        lambda x: x.copy_(x * 2),
        lambda x: x.masked_fill_(x > 0, 7.0),
        lambda x: x.set_(torch.zeros(4).to(x.dtype) if not hasattr(x, "child") else x.new_zeros(4)),
    ],
)
def test_in_place_calls_return_the_same_pointer(bob, change):
    local = torch.arange(6.0).reshape(2, 3) - 2
    x = local.clone().send(bob)
    before = x.id_at_location
    expected = change(local)
    result = change(x)
    assert result is x and x.id_at_location == before
    assert x.shape == expected.shape and x.dtype == expected.dtype
    torch.testing.assert_close(x.get(), expected)


def test_augmented_assignment(bob):
    x = torch.ones(3).send(bob)
    same = x
    x += 2
    x *= x
    x -= 1
    x /= 2
    assert x is same
    assert torch.equal(x.get(), torch.full((3,), 4.0))


@pytest.mark.parametrize(
    "index",
    [
        0,
        -1,
        slice(1, 3),
        slice(None, None, 2),
        None,
        ...,
        (0, 1),
        (slice(None), 1),
        (..., 0),
        (None, 0, slice(1)),
        [0, 2],
        ([0, 1], [1, 2]),
        torch.tensor(1),
    ],
)
def test_indexing_and_assignment(bob, index):
    local = torch.arange(12.0).reshape(3, 4)
    x = local.clone().send(bob)
    got = x[index]
    assert got.shape == local[index].shape
    torch.testing.assert_close(got.get(), local[index])
    local[index] = -1.0
    x[index] = -1.0
    torch.testing.assert_close(x.get(), local)


def test_index_with_remote_tensors(bob):
    local = torch.arange(12.0).reshape(3, 4)
    x = local.clone().send(bob)
    rows = torch.tensor([2, 0])
    assert torch.equal(x[rows.send(bob)].get(), local[rows])
    assert torch.equal(x[x > 5].get(), local[local > 5])
    x[x > 5] = 0.0
    x[rows.send(bob), 1] = torch.tensor([7.0, 8.0]).send(bob)
    local[local > 5] = 0.0
    local[rows, 1] = torch.tensor([7.0, 8.0])
    assert torch.equal(x.get(), local)


def test_several_results_keep_their_type(bob):
    local = torch.tensor([[3.0, 1.0], [2.0, 5.0]])
    x = local.send(bob)
    values, indices = x.max(dim=1)
    assert torch.equal(values.get(), local.max(1).values) and torch.equal(indices.get(), local.max(1).indices)
    named = x.sort(dim=1, descending=True)
    assert type(named) is torch.return_types.sort
    assert torch.equal(named.values.get(), local.sort(dim=1, descending=True).values)
    parts = torch.split(x, 1)
    assert isinstance(parts, tuple) and len(parts) == 2
    assert torch.equal(torch.cat(list(parts), dim=0).get(), local)
    assert [p.get().tolist() for p in x] == local.tolist()
    first, *_ = torch.broadcast_tensors(x, x)
    assert first.shape == (2, 2)
    grids = torch.meshgrid(x[0], x[1], indexing="ij")
    assert [g.shape for g in grids] == [(2, 2), (2, 2)]


def test_keyword_arguments_and_operand_orders(bob):
    local = torch.tensor([1.0, 2.0])
    x = local.send(bob)
    cases = [
        lambda t: torch.add(t, t, alpha=3),
        lambda t: torch.add(input=t, other=t),
        lambda t: 2 + t,
        lambda t: 2 - t,
        lambda t: 2 * t,
        lambda t: 2 / t,
        lambda t: 2**t,
        lambda t: t**2,
        lambda t: t % 2,
        lambda t: 5 // t,
        lambda t: -t,
        lambda t: abs(-t),
        lambda t: t @ t,
        lambda t: t == t,
        lambda t: t >= 2,
        lambda t: ~(t > 1),
        lambda t: torch.where(t > 1, t, 0.0),
        lambda t: torch.where(t > 1, t, torch.tensor(0.0)),
        lambda t: torch.stack([t, t], dim=1),
        lambda t: torch.einsum("i,j->ij", t, t),
        lambda t: t.to(torch.int64),
        lambda t: t.type(torch.float64),
        lambda t: t.sum(dim=0, keepdim=True, dtype=torch.float64),
        lambda t: torch.nn.functional.pad(t, (1, 1), value=9.0),
        lambda t: t.view(1, 2).T,
        lambda t: t.new_full((2, 2), 3.0),
        lambda t: torch.zeros_like(t),
        lambda t: t.view(1, -1).expand(3, 2),
    ]
    for case in cases:
        expected, got = case(local), case(x)
        assert got.shape == expected.shape and got.dtype == expected.dtype
        torch.testing.assert_close(got.get(), expected)


def test_values_leave_when_the_worker_lets_them(bob):
    x = torch.tensor([41.0, 42.0]).send(bob)
    assert x.sum().item() == 83.0 and float(x[0]) == 41.0 and int(x[1]) == 42
    assert bool(x[0] > 1) and x.tolist() == [41.0, 42.0] and 42.0 in x
    assert np.array_equal(x.numpy(), [41.0, 42.0]) and np.array_equal(np.asarray(x), [41.0, 42.0])
    assert f"{x[0]:.1f}" == "41.0"
    assert torch.equal(x, x) and torch.allclose(x, x)
    assert np.array_equal(np.array(x, dtype=np.float32), np.array([41.0, 42.0], dtype=np.float32))
    array = x.numpy()
    array[0] = 0
    assert x.tolist() == [41.0, 42.0]


def test_autograd(bob):
    local = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    x = local.detach().clone().requires_grad_().send(bob)
    (local.exp() @ local.t()).sum().backward()
    assert x.grad is None
    (x.exp() @ x.t()).sum().backward()
    assert x.grad.shape == (2, 2) and "grad" in repr(x.grad)
    torch.testing.assert_close(x.grad.copy().get(), local.grad)
    with pytest.raises(CannotRequestObjectAttributeError, match=r"ptr.grad.copy\(\).get\(\)"):
        x.grad.get()
    x.grad.zero_()
    assert torch.equal(x.grad.copy().get(), torch.zeros(2, 2))
    x.grad = None
    assert x.grad is None
    y = (x * 2).sum()
    assert y.requires_grad and not y.is_leaf and x.is_leaf
    (g,) = torch.autograd.grad(y, x)
    assert torch.equal(g.get(), torch.full((2, 2), 2.0))
    with torch.no_grad():
        assert not (x * 2).requires_grad
    assert not x.detach().requires_grad
    x.requires_grad_(False)
    assert not x.requires_grad
    x.requires_grad = True
    assert x.requires_grad
    torch.testing.assert_close(x.get().grad, None)


def test_gradient_of_a_result_with_a_remote_gradient(bob):
    x = torch.ones(3, requires_grad=True).send(bob)
    (x * 3).backward(torch.tensor([1.0, 2.0, 3.0]).send(bob))
    assert torch.equal(x.get().grad, torch.tensor([3.0, 6.0, 9.0]))


def test_data(bob):
    x = torch.tensor([1.0, 2.0], requires_grad=True).send(bob)
    assert not x.data.requires_grad
    x.data = torch.tensor([3.0, 4.0, 5.0]).send(bob)
    assert x.shape == (3,)
    assert torch.equal(x.data.get(), torch.tensor([3.0, 4.0, 5.0]))


def test_mixing_with_a_local_tensor_is_one_clear_error(bob, alice):
    """In 0.2 a one-element local tensor plus a pointer gave an empty tensor."""
    x = torch.tensor([1.0]).send(bob)
    for mixed in (
        lambda: x + torch.tensor([1.0]),
        lambda: torch.tensor([1.0]) + x,
        lambda: torch.cat([x, torch.ones(1)]),
    ):
        with pytest.raises(TensorsNotCollocatedError) as caught:
            mixed()
        text = str(caught.value)
        assert f"is on '{bob.id}'" in text and "is a local tensor of shape (1,)" in text and ".send(" in text
    y = torch.tensor([1.0]).send(alice)
    with pytest.raises(
        TensorsNotCollocatedError, match=f"argument 0 is on '{bob.id}'; argument 1 is on '{alice.id}'.*move"
    ):
        x + y
    assert x.size() == (1,) and x.view(1, 1).T.shape == (1, 1)
    assert torch.equal((x + torch.tensor(2.0)).get(), torch.tensor([3.0]))


def test_spent_pointers_raise_a_clear_error(bob, alice):
    """In 0.2 printing a pointer after get() failed."""
    x = torch.tensor([1.0]).send(bob)
    x.get()
    assert "spent: it was fetched by 'me'" in repr(x)
    for use in (lambda: x + 1, x.get, x.copy, lambda: x.move(alice), lambda: x.sum(), lambda: x.grad):
        with pytest.raises(SpentPointerError, match=r"fetched by 'me' with .get\(\).*copy\(\).get\(\)"):
            use()
    y = torch.tensor([1.0]).send(bob)
    z = y.move(alice)
    with pytest.raises(SpentPointerError, match=f"moved to '{alice.id}'"):
        y + 1
    assert z.move(alice) is z
    z.delete()
    with pytest.raises(SpentPointerError, match="deleted by 'me'"):
        z.get()


def test_two_pointers_to_one_object_are_safe(bob, nothing_left):
    x = torch.ones(2).send(bob)
    second = sy.PointerTensor(location=bob, id_at_location=x.id_at_location).wrap()
    del x
    assert torch.equal((second + 1).get(), torch.full((2,), 2.0))
    del second
    nothing_left(bob)


def test_garbage_collection_switches(bob):
    x = torch.ones(2).send(bob)
    assert x.garbage_collection and x.gc
    assert x.disable_gc is x and not x.gc
    key = x.id_at_location
    del x
    gc.collect()
    assert key in bob._objects
    y = torch.ones(2).send(bob, garbage_collect_data=False)
    del y
    assert len(bob._objects) == 2
    bob.clear_objects()


def test_published_objects_stay(bob):
    x = torch.ones(2).tag("#data").describe("two ones").send(bob)
    del x
    (found,) = bob.search("#data")
    assert found.tags == {"#data"} and found.description == "two ones" and found.shape == (2,)
    del found
    assert len(bob._objects) == 1
    assert torch.equal(bob.search(["#data", "ones"])[0].get(), torch.ones(2))
    assert len(bob._objects) == 0


def test_tagging_through_a_pointer(bob):
    x = torch.ones(2).send(bob)
    assert x.tag("#later", "#b").describe("found by this text") is x
    bob.synchronize()
    assert len(bob.search("#later")) == 1 and len(bob.search("by this")) == 1 and bob.search("#nothing") == []


def test_tagging_through_a_pointer_publishes_the_object(bob):
    held = (torch.ones(2).send(bob) + 1).tag("#held")
    del held
    assert torch.equal(bob.search("#held")[0].get(), torch.full((2,), 2.0))


def test_backward_of_a_fetched_result_raises_a_clear_error(bob, alice):
    x = torch.ones(2, requires_grad=True).send(bob)
    loss = (x * 2).sum()
    for gone in (loss.copy().get(), loss.copy().move(alice)):
        assert not gone.requires_grad
        with pytest.raises(RuntimeError, match="does not require grad"):
            gone.backward()
            alice.synchronize()
    assert x.copy().detach().move(alice).requires_grad_().requires_grad
    assert x.move(alice).requires_grad, "a leaf stays one"


def test_numpy_arrays_are_local_too(bob):
    x = torch.ones(2, 3).send(bob)
    for mixed in (lambda: x + np.ones((2, 3)), lambda: np.ones((2, 3)) + x):
        with pytest.raises(TensorsNotCollocatedError, match="is a local (array|tensor).*(from_numpy|x.send)"):
            mixed()
    with pytest.raises(TensorsNotCollocatedError, match=r"argument 0, item 1, is a local tensor"):
        torch.cat([x, torch.ones(2, 3)])
    with pytest.raises(SyftError, match="A list can't be sent as it is"):
        sy.local_worker.send([1, 2], bob)


def test_local_tensors_get_clear_errors(bob):
    x = torch.ones(2)
    for verb in ("get", "delete"):
        with pytest.raises(SyftError, match=f"local, so there is nothing to {verb}.*x.send"):
            getattr(x, verb)()
    with pytest.raises(SyftError, match="nothing to move"):
        x.move(bob)
    with pytest.raises(InvalidTensorForRemoteGetError, match="not a pointer"):
        x.remote_get()
    with pytest.raises(SyftError, match=r"x.send\(bob\)"):
        x.send()
    with pytest.raises(WorkerNotFoundError, match="No worker 'nobody' is known here"):
        x.send("nobody")


def test_send_options(bob, alice):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    bare = x.send(bob, no_wrap=True)
    assert type(bare) is sy.PointerTensor and torch.equal((bare + bare).get().detach(), torch.tensor([2.0, 4.0]))
    pre = x.send(bob, preinitialize_grad=True)
    assert torch.equal(pre.grad.copy().get(), torch.zeros(2))
    kept = torch.tensor([5.0])
    assert kept.send_(bob) is kept and kept.location is bob
    assert kept.get_() is kept and type(kept) is torch.Tensor and kept.item() == 5.0
    assert x.send(bob.id).location is bob
    y = torch.ones(1).send(bob)
    assert y.move_(alice) is y and y.location is alice
    with pytest.warns(UserWarning, match="autograd history"):
        (x * 2).send(bob)


def test_value_semantics(bob):
    x = torch.zeros(3)
    p = x.send(bob)
    x += 1
    assert torch.equal(p.copy().get(), torch.zeros(3))
    view = p.view(3, 1)
    got = p.get()
    got += 5
    assert torch.equal(view.get(), torch.zeros(3, 1))


def test_ids(bob):
    x = torch.tensor([1.0], id="named")
    p = x.send(bob)
    assert p.id_at_location == "named" and "named" in bob._objects
    again = x.send(bob)
    assert again.id_at_location != "named" and len(bob._objects) == 2
    y = torch.ones(1)
    assert y.send(bob).id_at_location == y.id


def test_calls_without_a_remote_meaning_are_refused(bob):
    x = torch.ones(2).send(bob)
    for call in (
        lambda: x.data_ptr(),
        lambda: x.register_hook(print),
        lambda: x.apply_(abs),
        lambda: x.untyped_storage(),
        lambda: x.to_sparse(),
    ):
        with pytest.raises(CommandNotAllowedError, match="can't be run on a worker"):
            call()
    with pytest.raises(CommandNotAllowedError, match="can't be run on a worker"):
        import pickle

        pickle.dumps(x)


def test_missing_objects(bob):
    ghost = sy.PointerTensor(location=bob, id_at_location=123456, garbage_collect_data=False, shape=None)
    with pytest.raises(ObjectNotFoundError, match=f"Worker '{bob.id}' holds no object with id 123456"):
        ghost.get()


def test_wide_results_grow_no_store(bob, nothing_left):
    x = torch.arange(100.0).send(bob)
    for _ in range(3):
        parts = x.unbind()
    assert len(parts) == 100
    del parts, x, _
    nothing_left(bob)


def test_a_shape_mistake_fails_at_the_line(bob):
    x = torch.ones(2, 3).send(bob)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied|mat1 and mat2|same reduction dim"):
        x @ x
    assert torch.equal((x + x).get(), torch.full((2, 3), 2.0))


def test_copying_and_listing(bob, nothing_left):
    x = torch.ones(2).send(bob)
    proxy = copy.copy(x)
    assert proxy is not x and proxy.id_at_location == x.id_at_location and "send" in dir(x)
    del x
    assert torch.equal(proxy.get(), torch.ones(2))
    del proxy
    nothing_left(bob)


def test_a_pointer_sent_to_its_location_becomes_the_object(bob, alice):
    far = torch.tensor([1.0, 2.0]).send(bob).send(alice)
    home = far.move(bob)
    assert home.location is bob
    assert torch.equal((home + 1).get(), torch.tensor([2.0, 3.0]))


def test_constructors_at_a_worker(bob):
    made = bob.remote.torch.zeros(2, 3)
    assert made.location is bob and made.shape == (2, 3)
    assert torch.equal(bob.remote.torch.tensor([1, 2, 3]).get(), torch.tensor([1, 2, 3]))
    assert bob.remote.torch.randint(0, 5, (4,)).dtype is torch.int64
    assert bob.remote.torch.rand(2, dtype=torch.float64).dtype is torch.float64
    with pytest.raises(CommandNotAllowedError, match="worker.remote makes tensors with"):
        bob.remote.torch.save
