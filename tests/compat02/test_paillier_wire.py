"""Paillier tensors and keys travel: to bytes, to workers in process and in other processes, and never unchecked."""

import pytest
import torch

import syft as sy
from syft.exceptions import GetNotPermittedError, SerdeError, SyftError
from syft.grid.storage.quotas import memory_of
from syft.he.paillier_tensor import PaillierTensor
from syft.serde import deserialize, msgpack, protobuf, serialize
from tests.helpers.attacks.private_data import PRIVATE_DATA
from tests.helpers.nodes import forget, node

PUBLIC, PRIVATE = sy.keygen(n_length=512)


@pytest.fixture(autouse=True)
def hooked(hook):
    return hook


STRATEGIES = [msgpack, protobuf]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_p1_tensors_and_public_keys_become_bytes(strategy):
    def copy_of(value):
        written = serialize(value, strategy=strategy.serialize)
        return deserialize(written, strategy=strategy.deserialize)

    for x in (torch.tensor([[1.5, -2.0]]), torch.tensor(3), torch.empty(0, 2), torch.tensor([True])):
        encrypted = x.encrypt(PUBLIC).tag("#x").describe("of x")
        back = copy_of(encrypted)
        assert (back.shape, back.dtype, back.tags, back.description) == (x.shape, encrypted.dtype, {"#x"}, "of x")
        assert torch.equal(back.decrypt(PRIVATE), x.to(back.dtype))
        total = back + encrypted
        assert total.decrypt(PRIVATE).tolist() == (x.to(total.dtype) * 2).tolist()
    assert copy_of({"key": PUBLIC}) == {"key": PUBLIC}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_p1_private_keys_never_become_bytes(strategy, bob):
    with pytest.raises(SerdeError, match="private key never leaves"):
        serialize([PRIVATE], strategy=strategy.serialize)
    pointer = torch.tensor([1.5]).encrypt(PUBLIC).send(bob)
    with pytest.raises(SyftError, match=r"get\(\).decrypt"):
        pointer.decrypt(PRIVATE)
    assert pointer.get().decrypt(PRIVATE).tolist() == [1.5]


def test_p1_results_are_randomised_before_they_leave():
    x = torch.tensor([1.5, 2.0]).encrypt(PUBLIC)
    sent = deserialize(serialize(x)).child.ciphertexts
    assert sent.flat() == x.child.ciphertexts.flat()  # fresh ones are not computed from others
    square = PUBLIC.n**2
    for result in (x * 3, x + 1, x + x, x[[1, 0]], x.view(2, 1), -x, torch.cat([x, torch.ones(1)])):
        before = result.child.ciphertexts.flat()
        left = deserialize(serialize(result)).child.ciphertexts.flat()
        assert not set(before) & set(left)
        assert left == result.child.ciphertexts.flat()  # and once only
        assert left == deserialize(serialize(result)).child.ciphertexts.flat()
    assert pow(int(x.child.ciphertexts.flat()[0]), 3, square) not in left


@pytest.mark.parametrize("position", range(3, 9))
def test_p1_each_field_of_a_received_tensor_is_checked(position):
    good = PaillierTensor.simplify(None, torch.tensor([1.5, 2.0]).encrypt(PUBLIC).child)
    assert PaillierTensor.detail(None, good).wrap().decrypt(PRIVATE).tolist() == [1.5, 2.0]
    key, shape, scale, _bound, _whole, written = good[3:]
    width = len(written) // 2
    wrong = {
        3: [b"", key * 100, key[:8], bytes(64), bytes([0, *key]), key[:-1] + b"\x00", 5, "key", None],
        4: [(3,), (2, 1, 2), (-2, -1), (2.0,), [2], 2, (1,) * 65 + (2,), (2**70, 0), (True, 2)],
        5: [-1, 10_000, 1.0, True, None],
        6: [b"", b"\x00", b"\xff" * 64, b"\xff" * 10_000, 7, None],
        7: [True, 1, None],  # whole numbers have no fraction
        8: [b"", written[1:], written * 2, bytes(2 * width), b"\xff" * 2 * width, "text", [1, 2]],
    }
    for value in wrong[position]:
        forged = (*good[:position], value, *good[position + 1 :])
        if position == 4 and value == (2**70, 0):  # an empty tensor without ciphertexts
            forged = (*forged[:8], b"")
        with pytest.raises(TypeError):
            PaillierTensor.detail(None, forged)
    assert (shape, scale) == ((2,), 32)


def test_p1_ciphertexts_count_towards_quotas():
    x = torch.zeros(10).encrypt(PUBLIC)
    assert sum(memory_of(x).values()) == 10 * 128
    assert memory_of(x.clone()) == memory_of(x)


def test_p1_received_keys_of_absurd_sizes_are_refused():
    from syft.he.paillier import PublicKeyCodec

    for sent in (
        b"",
        bytes(32),
        b"\xff" * 5000,
        (2**40 + 1).to_bytes(6, "big"),
        (2**600).to_bytes(76, "big"),
        2**512 + 1,
    ):
        with pytest.raises(TypeError):
            PublicKeyCodec.detail(None, (sent,))


def test_p1_tensors_compute_at_workers(workers, nothing_left):
    bob, alice = workers
    x, w = torch.tensor([[1.5, -2.0], [0.5, 4.0]]), torch.tensor([[1.0, 2.0], [3.0, -1.0]])
    pointer, weights = x.encrypt(PUBLIC).send(bob), w.send(bob)
    assert (pointer.shape, pointer.dtype) == (x.shape, x.dtype)
    results = {
        "sum": (pointer + pointer * 2 - 1, x * 3 - 1),
        "plain pointer": (pointer * weights, x * w),
        "matmul": (weights @ pointer, w @ x),
        "index": (pointer[0].sum(), x[0].sum()),
        "linear": (torch.nn.functional.linear(pointer, weights), x @ w.t()),
    }
    for found, expected in results.values():
        torch.testing.assert_close(found.get().decrypt(PRIVATE), expected)
    pointer += 1
    moved = pointer.move(alice)
    torch.testing.assert_close(moved.get().decrypt(PRIVATE), x + 1)
    refused = x.encrypt(PUBLIC).send(bob)
    with pytest.raises(SyftError, match="Paillier can't multiply"):
        (refused * refused).get()
    del pointer, weights, results, found, moved, refused
    nothing_left(bob)


def test_p1_the_holder_of_data_encrypts_it(workers):
    bob, alice = workers
    pointer = torch.tensor([1.5, 2.0]).send(bob)
    encrypted = pointer.encrypt(PUBLIC)
    assert encrypted.location is bob
    assert (encrypted * 2).get().decrypt(PRIVATE).tolist() == [3.0, 4.0]
    both = torch.tensor([3]).send(bob, alice).encrypt(PUBLIC)
    assert [x.decrypt(PRIVATE).tolist() for x in both.get()] == [[3], [3]]


def test_p1_tensors_compute_in_other_processes(hook):
    worker = sy.ProcessWorker(hook, id="paillier-process")
    try:
        x = torch.tensor([[1.5, -2.0], [0.5, 4.0]])
        pointer = x.encrypt(PUBLIC).send(worker)
        weights = torch.tensor([2.0, -3.0]).send(worker)
        torch.testing.assert_close((pointer @ weights + 1).get().decrypt(PRIVATE), x @ torch.tensor([2.0, -3.0]) + 1)
        assert x.send(worker).encrypt(PUBLIC).sum(0).get().decrypt(PRIVATE).tolist() == [2.0, 2.0]
        with pytest.raises(SyftError, match="Paillier can't multiply"):
            (pointer * pointer).get()
        del pointer, weights
    finally:
        worker.stop()


def test_p1_nodes_compute_on_ciphertexts_and_never_encrypt_private_data(hook):
    with node("paillier-node", prepare=PRIVATE_DATA) as process:
        alice = process.connect(hook, "alice")
        x = torch.tensor([[1.5, -2.0]]).encrypt(PUBLIC).send(alice)
        weights = torch.tensor([1.0, 2.0]).send(alice)
        assert (x @ weights * 2 + 1).get().decrypt(PRIVATE).tolist() == [-4.0]
        assert weights.encrypt(PUBLIC).get().decrypt(PRIVATE).tolist() == [1.0, 2.0]
        private = alice.search("#weather")[0]
        for call in (lambda: private.encrypt(PUBLIC), lambda: (x * private[0, :2]).get(), lambda: (x + private).get()):
            with pytest.raises(GetNotPermittedError):
                call()
        forget(hook, alice)


def test_p1_one_party_sums_what_others_encrypt(make_worker):
    hospitals = [make_worker(f"hospital{i}", "bytes") for i in range(3)]
    server = make_worker("server", "bytes")
    counts = [torch.tensor([i, 10 * i]).send(hospital) for i, hospital in enumerate(hospitals)]
    sent = [count.encrypt(PUBLIC).move(server) for count in counts]
    assert sum(sent[1:], sent[0]).get().decrypt(PRIVATE).tolist() == [3, 30]
