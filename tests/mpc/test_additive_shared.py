"""AdditiveSharingTensor: splitting, reconstruction, errors, claims on shares, sharing where the data is."""

import pytest
import torch

import syft as sy
from syft.exceptions import (
    CommandNotAllowedError,
    GetNotPermittedError,
    ProtocolError,
    SpentPointerError,
    SyftError,
    TensorsNotCollocatedError,
    UnsupportedOperationError,
    WorkerNotFoundError,
)
from syft.frameworks.torch.tensors.interpreters import additive_shared as documented
from syft.workers.access.policy import DenyAll
from tests.helpers.documented_rows import Rows

row = Rows("syft.frameworks.torch.tensors.interpreters.additive_shared")


@pytest.fixture(autouse=True)
def hooked(hook):
    return hook


@pytest.fixture
def cast(make_worker, kind):
    """Three parties and a crypto provider, reached in each of the three ways."""
    return tuple(make_worker(name, kind) for name in ("bob", "alice", "carl", "dealer"))


@pytest.fixture
def here(make_worker):
    """The same, reached in one way."""
    return tuple(make_worker(name) for name in ("bob", "alice", "carl", "dealer"))


@row("")
def test_documented_module():
    assert documented.AdditiveSharingTensor is sy.AdditiveSharingTensor
    row.check(1)


# Splitting -----------------------------------------------------------------------------------------------------------


def test_share_and_get(cast, nothing_left):
    bob, alice, carl, dealer = cast
    secret = torch.tensor([[1, -2], [3, 2**61]])
    for parties in ((bob, alice), (bob, alice, carl), ([bob, alice, carl],)):
        x = secret.share(*parties, crypto_provider=dealer)
        assert x.dtype is torch.int64
        assert x.shape == secret.shape
        link = x.child
        assert isinstance(link, sy.AdditiveSharingTensor)
        assert link.field == 2**64
        assert [w.id for w in link.locations] == list(link.child)
        shares = [p.location._objects[p.id_at_location] for p in link.child.values()]
        assert all(not torch.equal(share, secret) for share in shares)
        assert torch.equal(sum(shares), secret)
        assert torch.equal(link.virtual_get(), secret)
        assert torch.equal(x.copy().get(), secret)
        assert torch.equal(x.get(), secret)
        with pytest.raises(SpentPointerError):
            x.get()
        assert "spent" in repr(x)
    del x, link, shares
    nothing_left(*cast)


def test_shares_do_not_follow_torchs_seed(here):
    bob, alice, *_ = here
    seen = []
    for _ in range(2):
        torch.manual_seed(7)
        x = torch.tensor([5, 6]).share(bob, alice).child
        seen.append(bob._objects[x.child[bob.id].id_at_location].tolist())
    assert seen[0] != seen[1]


def test_generate_shares():
    generate = sy.AdditiveSharingTensor.generate_shares
    for count in (2, 3, 5):
        shares = generate(torch.tensor([4, -4]), count, field=2**62, random_type=torch.LongTensor)
        assert len(shares) == count
        assert sum(shares).tolist() == [4, -4]
    assert sum(generate(7, 2)).item() == 7
    with pytest.raises(SyftError, match="two shares"):
        generate(7, 1)
    # Each share alone is uniform: the mean of the top bits over many is a half.
    first = generate(torch.zeros(20000, dtype=torch.int64), 2)[0]
    assert abs((first < 0).double().mean().item() - 0.5) < 0.03  # eight deviations


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.bool])
def test_whole_numbers_are_widened(dtype, here):
    x = torch.tensor([0, 1]).to(dtype).share(*here[:2])
    assert x.get().dtype is torch.int64


def test_init_shares_and_zero(here):
    bob, alice, carl, dealer = here
    link = sy.AdditiveSharingTensor(crypto_provider=dealer, child=torch.tensor([3, 4]))
    assert "not shared yet" in repr(link)
    with pytest.raises(SyftError, match="init_shares"):
        link.locations
    assert link.init_shares(bob, alice, carl) is link
    assert link.zero().get().tolist() == [0, 0]
    assert link.dim() == 1
    assert link.grad is None
    assert link.backward() is None
    assert link.select_worker((link, 5), bob)[0] is link.child[bob.id]
    assert link.get().tolist() == [3, 4]
    assert link.get_class_attributes() == {"crypto_provider": dealer, "protocol": "beaver", "insecure": False}


def test_refresh(cast):
    bob, alice, _carl, dealer = cast
    for options in ({}, {"crypto_provider": dealer}):
        x = torch.tensor([5, 6]).share(bob, alice, **options)
        before = bob._objects[x.child.child[bob.id].id_at_location].clone()
        assert x.refresh() is x
        after = bob._objects[x.child.child[bob.id].id_at_location]
        assert not torch.equal(before, after)
        assert x.get().tolist() == [5, 6]
    y = torch.tensor([1.5]).fix_precision().share(bob, alice).refresh()
    assert y.get().float_precision().item() == 1.5


def test_reconstruct(cast):
    bob, alice, carl, _dealer = cast
    x = torch.tensor([5, 6]).share(bob, alice, carl)
    opened = x.child.reconstruct()
    assert isinstance(opened, sy.MultiPointerTensor)
    assert [w.id for w in opened.location] == [bob.id, alice.id, carl.id]
    assert [t.tolist() for t in opened.get()] == [[5, 6]] * 3
    assert x.get().tolist() == [5, 6]


def test_positive_and_garbage_collection_flags(here):
    bob, alice, _carl, dealer = here
    x = torch.tensor([5, 0, -6]).share(bob, alice, crypto_provider=dealer)
    assert x.child.positive().get().tolist() == [1, 1, 0]
    assert x.child.get_garbage_collect_data() == {bob.id: True, alice.id: True}
    x.child.set_garbage_collect_data(False)
    assert not x.gc
    ids = [(p.location, p.id_at_location) for p in x.child.child.values()]
    del x
    for worker, obj_id in ids:
        assert obj_id in worker._objects
        worker.object_store.remove(obj_id)


def test_encrypt_and_decrypt(cast, nothing_left):
    bob, alice, _carl, dealer = cast
    x = torch.tensor([1.5, -2.0]).encrypt(protocol="mpc", workers=[bob, alice], crypto_provider=dealer)
    assert (x * x).decrypt().tolist() == pytest.approx([2.25, 4], abs=3e-3)
    for protocol in ("fss", "snn"):
        y = torch.tensor([1.5, -2.0]).encrypt(
            protocol=protocol, workers=(bob, alice), crypto_provider=dealer, precision_fractional=4, requires_grad=True
        )
        assert y.requires_grad
        assert y.child.precision_fractional == 4
        assert y.child.child.child.protocol == protocol
        assert (y > 1).decrypt().tolist() == [1, 0]
    z = same = torch.tensor([1.5])
    assert z.encrypt(workers=[bob, alice], inplace=True) is same
    assert z.decrypt(inplace=True).tolist() == [1.5]
    assert torch.tensor([3]).share(bob, alice).decrypt().tolist() == [3]
    with pytest.raises(SyftError, match="needs workers"):
        torch.ones(1).encrypt()
    with pytest.raises(SyftError, match="needs a public key"):
        torch.ones(1).encrypt(protocol="paillier", public_key=None)
    with pytest.raises(UnsupportedOperationError, match="nothing"):
        torch.ones(1).encrypt(protocol="nothing", workers=[bob, alice])
    del x, y
    nothing_left(*cast)


def test_share_in_place(here):
    bob, alice, *_ = here
    x = same = torch.tensor([1.5], requires_grad=True).fix_precision()
    assert x.share_(bob, alice) is same
    assert x.child.is_shared
    assert x.requires_grad
    assert x.get_() is same
    assert x.float_precision_().tolist() == [1.5]
    link = torch.tensor([1.5]).fix_precision().child
    assert link.share(bob, alice) is not link
    assert link.share_(bob, alice) is link
    assert link.virtual_get().float_precision().item() == 1.5
    assert isinstance(torch.tensor([1]).share(bob, alice, no_wrap=True), sy.AdditiveSharingTensor)


# Mistakes ------------------------------------------------------------------------------------------------------------


def test_mistakes_when_sharing(here, nothing_left):
    bob, alice, _carl, _dealer = here
    whole = torch.tensor([1, 2])
    cases = [
        (lambda: torch.tensor([0.5]).share(bob, alice), r"Encode it first: x.fix_precision\(\).share"),
        (lambda: whole.share(bob), "two parties or more, and this names 1"),
        (lambda: whole.share(), "two parties or more, and this names 0"),
        (lambda: whole.share(bob, alice, bob), f"'{bob.id}' is named twice"),
        (lambda: whole.share(bob, alice, crypto_provider=bob), "can't be the crypto provider too.*insecure=True"),
        (lambda: whole.share(bob, alice, protocol="spdz2"), "no protocol 'spdz2'"),
        (lambda: whole.share(bob, alice).share(bob, alice), "shared already"),
        (lambda: whole.share(bob, alice).fix_precision(), "Encode the plain tensor, before sharing"),
        (lambda: whole.share(bob, alice).float_precision(), "nothing to decode"),
        (lambda: whole.share(bob, alice, requires_grad=True).backward(), "backward.. needs an encoded tensor"),
        (lambda: torch.ones(1).fix_prec().share(bob, alice).float_precision(), r"x.get\(\).float_precision\(\)"),
        (lambda: torch.ones(1).fix_prec().share(bob, alice).share(bob, alice), "shared already"),
        (lambda: whole.share(bob, alice).send(bob), "can't be sent to one of the workers that hold its shares"),
        (lambda: whole.share(bob, alice) * 0.5, "not whole"),
        (lambda: whole.share(bob, alice) + torch.tensor([0.5, 1.0]), "not whole"),
    ]
    for call, text in cases:
        with pytest.raises(SyftError, match=text):
            call()
    with pytest.raises(WorkerNotFoundError):
        whole.share(bob, "nobody")
    with pytest.raises(UnsupportedOperationError):
        sy.LoggingTensor().on(whole).share(bob, alice)
    assert (whole.share(bob, alice, crypto_provider=bob, insecure=True) * 2).get().tolist() == [2, 4]
    nothing_left(*here)


def test_operands_of_different_parties(here):
    bob, alice, carl, dealer = here
    x = torch.tensor([1]).share(bob, alice, crypto_provider=dealer)
    y = torch.tensor([1]).share(bob, carl, crypto_provider=dealer)
    for call in (lambda: x + y, lambda: x * y, lambda: x > y, lambda: torch.cat([x, y])):
        with pytest.raises(TensorsNotCollocatedError, match="Share both among the same parties"):
            call()


def test_a_provider_is_needed_for_products_alone(here):
    bob, alice, _carl, dealer = here
    x, y = torch.tensor([3, -4]).share(bob, alice), torch.tensor([1, 2]).share(bob, alice)
    assert (x + y - 1 + torch.tensor([1, 1])).get().tolist() == [4, -2]
    assert (2 * x.sum() - x[0]).get().item() == -5
    for call in (lambda: x * y, lambda: x > y, lambda: x.relu(), lambda: x.max()):
        with pytest.raises(ProtocolError, match="needs a crypto provider.*crypto_provider=carol"):
            call()
    z = torch.tensor([5, 5]).share(bob, alice, crypto_provider=dealer)
    assert (x * z).get().tolist() == [15, -20]


def test_division_of_whole_numbers(here):
    bob, alice, _carl, dealer = here
    x = torch.tensor([7, -8]).share(bob, alice, crypto_provider=dealer)
    with pytest.raises(UnsupportedOperationError, match="Use x // y, which rounds down, or encode"):
        x / 2
    assert (x // 2).get().tolist() == [3, -4]
    assert x.child.div(3).get().tolist() == [2, -3]
    with pytest.raises(UnsupportedOperationError):
        x.bool()
    with pytest.raises(UnsupportedOperationError, match="results of comparisons"):
        x & x
    assert ((x > 3) & (x < 9)).get().tolist() == [1, 0]
    assert (~(x > 3)).get().tolist() == [0, 1]
    assert (~x).get().tolist() == [-8, 7]
    assert torch.where(x, x, x * 2).get().tolist() == [7, -8]


def test_values_are_not_given_out(here):
    bob, alice, _carl, dealer = here
    x = torch.tensor([7]).share(bob, alice, crypto_provider=dealer)
    for read in (bool, float, int, lambda t: t.item()):
        with pytest.raises(ValueError, match=r"can't be converted to boolean values .*decrypt first with .get\(\)"):
            read(x)
    with pytest.raises(ValueError, match="decrypt first"):
        if x > 3:
            pass
    for read in (lambda t: t.tolist(), lambda t: t.numpy(), lambda t: f"{t:.2f}"):
        with pytest.raises((ValueError, TypeError)):
            read(x)
    assert "7" not in str(x).replace(bob.id, "").split("->")[0]


SAME = {
    "x * 1": lambda x: x * 1,
    "x // 1": lambda x: x // 1,
    "x ** 1": lambda x: x**1,
    "clone": lambda x: x.clone(),
    "copy": lambda x: x.copy(),
    "sum of one": lambda x: x.sum(),
    "max of one": lambda x: x.max(),
    "expand, clone": lambda x: x.expand(2).clone()[0],
    "reshape": lambda x: x.reshape(1, 1).clone().view(()),
    "cat": lambda x: torch.cat([x.view(1)]).squeeze(),
}


@pytest.mark.parametrize("encoded", [False, True])
@pytest.mark.parametrize("name", SAME)
def test_a_result_is_not_its_argument(name, encoded, here):
    bob, alice, _carl, dealer = here
    x = torch.tensor(3)
    x = (x.fix_precision() if encoded else x).share(bob, alice, crypto_provider=dealer)
    y = SAME[name](x)
    assert y is not x
    y += 1
    for tensor, meant in ((x, 3), (y, 4)):
        found = tensor.get()
        assert (found.float_precision() if encoded else found).item() == meant


# Claims on shares ----------------------------------------------------------------------------------------------------


def test_no_objects_are_left_at_workers(cast, nothing_left):
    bob, alice, carl, dealer = cast
    x = torch.tensor([[1.5, -2.0], [0.5, 3.0]]).fix_precision().share(bob, alice, carl, crypto_provider=dealer)
    y = (x @ x).relu()
    y[0] = x[1] * 2
    z = torch.where(y > x, y, x).max(dim=1)
    view = y.t()[0]
    view += 1
    assert z.values.get().shape == (2,)
    del x, y, z, view
    nothing_left(*cast)


def test_a_failed_call_leaves_no_objects(here, nothing_left):
    bob, alice, _carl, dealer = here
    x = torch.ones(2, 3).fix_precision().share(bob, alice, crypto_provider=dealer)
    for call in (
        lambda: x @ x,
        lambda: x + torch.ones(4),
        lambda: x.view(5),
        lambda: x[7],
        lambda: x.sort(),
        lambda: x.cat(),
    ):
        with pytest.raises((RuntimeError, ValueError, IndexError, NotImplementedError, AttributeError)):
            call()
    x = None
    nothing_left(*here)


def test_the_wire(cast, nothing_left):
    bob, alice, carl, dealer = cast
    x = torch.tensor([1.5]).fix_precision().share(bob, alice, crypto_provider=dealer)
    x.child.child.tag("#shared")
    held = x.send(carl)
    del x
    back = held.get()
    link = back.child.child
    assert link.crypto_provider is dealer
    assert link.tags == {"#shared"}
    assert (back * 2).get().float_precision().item() == 3
    del back, held, link
    for worker in cast:
        worker.synchronize()
    nothing_left(*cast)


def test_forged_parts_are_refused(here):
    bob, alice, _carl, _dealer = here
    me = sy.local_worker
    x = torch.tensor([1, 2]).share(bob, alice).child
    parts = sy.AdditiveSharingTensor.simplify(me, x)
    first, second = parts[3]
    floats = torch.ones(2).send(bob).child
    other = torch.tensor([1]).send(bob).child
    changes = {
        3: ([first], [first, first], [first, 5], [floats, second], [other, second], [first, second, None], []),
        4: ([1], 2.5),
        5: (None, "nothing", 3),
        6: (1, None),
        1: (["#t"],),
    }
    for position, values in changes.items():
        for value in values:
            forged = [*parts]
            forged[position] = value
            with pytest.raises((TypeError, SyftError, AttributeError)):
                sy.AdditiveSharingTensor.detail(me, tuple(forged))
    assert sy.AdditiveSharingTensor.detail(me, parts).child.keys() == x.child.keys()


# Sharing where the data is --------------------------------------------------------------------------------------------


def test_the_holder_shares_its_own_tensor(cast, nothing_left):
    bob, alice, carl, dealer = cast
    pointer = torch.tensor([1.5, -2.25]).send(bob)
    for parties in ((bob, alice), (alice, carl), (alice, bob, carl)):
        with sy.count_messages() as count:
            there = pointer.fix_precision().share(*parties, crypto_provider=dealer)
            shared = there.get()
        assert count.messages > 0
        assert isinstance(there.child, sy.PointerTensor)
        assert [w.id for w in shared.child.child.locations] == [w.id for w in parties]
        assert shared.child.child.crypto_provider is dealer
        assert (shared * shared).get().float_precision().tolist() == pytest.approx([2.25, 5.0625], abs=3e-3)
        assert shared.get().float_precision().tolist() == [1.5, -2.25]
    numbers = torch.tensor([3, 4]).send(carl).share(bob, alice).get()
    assert numbers.get().tolist() == [3, 4]
    assert pointer.get().tolist() == [1.5, -2.25]
    torch.tensor([3, 4]).send(carl).share(bob, alice)  # and nobody wants it
    del there, shared, numbers
    for worker in (carl, bob, alice, carl, bob, alice):
        worker.synchronize()
    nothing_left(*cast)


def test_sharing_needs_the_policys_leave(here, nothing_left):
    bob, alice, carl, dealer = here
    pointer = torch.tensor([1, 2]).send(bob)
    bob.policy = DenyAll()
    with pytest.raises(GetNotPermittedError, match="share"):
        pointer.share(alice, carl, crypto_provider=dealer)
    assert not alice._objects
    assert not carl._objects
    encoded = pointer.fix_precision()  # stays where it is, so it is nobody's business
    with pytest.raises(GetNotPermittedError):
        encoded.get()
    del pointer, encoded
    nothing_left(bob, alice, carl)


def test_mistakes_of_remote_sharing(here):
    bob, alice, _carl, _dealer = here
    pointer = torch.tensor([1.5]).send(bob)
    for call, kind in (
        (lambda: pointer.share(bob, alice), SyftError),
        (lambda: pointer.fix_precision().share(bob), SyftError),
        (lambda: pointer.fix_precision().share(bob, "nobody"), WorkerNotFoundError),
        (lambda: pointer.fix_precision().share(bob, alice, crypto_provider="nobody"), WorkerNotFoundError),
        (lambda: pointer.float_precision(), SyftError),
    ):
        with pytest.raises(kind):
            call()
    stream = pointer.child.lease.stream
    for name in ("syft.fix_precision", "syft.float_precision"):
        with pytest.raises(CommandNotAllowedError):
            stream.run(name, (5,), {}, 1234)
    with pytest.raises(CommandNotAllowedError):
        stream.run("syft.share", (pointer.child.ref(), bob.id, alice.id), {"worker_": 3}, 1234)
    encoded = pointer.fix_precision()
    with pytest.raises(WorkerNotFoundError, match="not disclosed to peers"):
        stream.run("syft.share", (encoded.child.ref(), "x", alice.id), {}, 1235)


def test_multi_pointers_are_encoded_at_each_worker(here):
    bob, alice, *_ = here
    pointers = torch.tensor([1.5]).send(bob, alice).fix_precision()
    assert [t.child.child.tolist() for t in pointers.get()] == [[1500], [1500]]


def test_the_local_worker_may_be_a_party(here):
    bob, _alice, _carl, dealer = here
    x = torch.tensor([5, 6]).share(sy.local_worker, bob, crypto_provider=dealer)
    assert (x * x > 30).get().tolist() == [0, 1]


# Traps of earlier releases -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("magnitude", [1e3, 1e4, 3e4, 1e5, 1e6])
def test_no_product_is_ever_far_off(count, magnitude, here):
    *parties, dealer = here
    torch.manual_seed(1)
    x, y = (torch.rand(20000) * 2 - 1) * magnitude, torch.rand(20000) * 2 - 1
    a, b = (t.fix_precision().share(*parties[:count], crypto_provider=dealer) for t in (x, y))
    found = (a * b).get().float_precision().double()
    meant = a.get().child.child.double() * b.get().child.child.double() / 1e6
    assert (found - meant).abs().max() <= 0.003 + magnitude * 2**-23


@pytest.mark.parametrize("protocol", ["beaver", "snn", "fss"])
@pytest.mark.parametrize("magnitude", [1e2, 1e4, 1e6, 1e12])
def test_no_comparison_is_ever_wrong(protocol, magnitude, here):
    bob, alice, _carl, dealer = here
    torch.manual_seed(1)
    x = ((torch.rand(4000) * 2 - 1) * magnitude).long()
    shared = x.share(bob, alice, crypto_provider=dealer, protocol=protocol)
    assert torch.equal((shared >= 0).get(), (x >= 0).long())


def test_equality_does_not_overflow(here):
    bob, alice, _carl, dealer = here
    x = torch.tensor([2_000_000, 5, 2**61]).share(bob, alice, crypto_provider=dealer)
    assert (x == torch.tensor([5, 5, -(2**61)])).get().tolist() == [0, 1, 0]


def test_plain_at_shared_keeps_its_order(here):
    bob, alice, _carl, dealer = here
    plain, secret = torch.tensor([[1, 2], [3, 4]]), torch.tensor([[4, 1], [3, 6]])
    shared = secret.share(bob, alice, crypto_provider=dealer)
    assert torch.equal((plain @ shared).get(), plain @ secret)
    assert torch.equal((shared @ plain).get(), secret @ plain)
