"""Paillier encryption: results equal those of torch on plain tensors, or one clear error is raised."""

import copy
import itertools
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

import syft as sy
from syft.exceptions import DependencyError, SyftError, UnsupportedOperationError

# Short keys are quick and not secure.
PUBLIC, PRIVATE = sy.keygen(n_length=512)
OTHER_PUBLIC, OTHER_PRIVATE = sy.keygen(n_length=512)


@pytest.fixture(autouse=True)
def hooked(hook):
    return hook


def equal(encrypted, expected, tolerance=1e-5):
    assert isinstance(encrypted.child, sy.PaillierTensor)
    found = encrypted.decrypt(PRIVATE)
    assert type(found) is torch.Tensor
    assert found.dtype is encrypted.dtype
    assert found.shape == encrypted.shape == expected.shape
    if not found.dtype.is_floating_point:
        assert found.dtype is torch.int64
        assert found.tolist() == expected.tolist()
    else:
        assert found.dtype is torch.get_default_dtype()
        torch.testing.assert_close(found, expected.to(found.dtype), rtol=tolerance, atol=tolerance)


def test_p1_the_example():
    pub, pri = sy.keygen(n_length=1024)
    total = (torch.tensor([1.5, 2.0]).encrypt(pub) * torch.tensor([2.0, 3.0])).decrypt(pri)
    assert total.tolist() == [3.0, 6.0]


def test_p1_keys_are_those_of_phe_and_have_documented_paths():
    from phe import paillier

    from syft.frameworks.torch.he.paillier import keygen
    from syft.frameworks.torch.tensors.interpreters.paillier import PaillierTensor

    assert keygen is sy.keygen
    assert PaillierTensor is sy.PaillierTensor
    ring = paillier.PaillierPrivateKeyring()
    public, private = sy.keygen(private_keyring=ring, n_length=256)
    assert isinstance(public, paillier.PaillierPublicKey)
    assert isinstance(private, paillier.PaillierPrivateKey)
    assert ring[public] is private
    assert public.n.bit_length() == 256
    for bits in (64, 511, 10_000, 512.0, True):
        with pytest.raises(SyftError, match="n_length"):
            sy.keygen(n_length=bits)


DTYPES = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint64,
          torch.float16, torch.bfloat16, torch.float32, torch.float64]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 2), (2, 1, 3)])
def test_p1_tensors_of_any_shape_and_dtype_are_decrypted_to_int64_or_the_default_dtype(dtype, shape, capsys):
    x = torch.randint(0, 2, shape).to(dtype)
    before = x.clone()
    encrypted = x.encrypt(PUBLIC)
    assert (encrypted.shape, type(encrypted.child)) == (x.shape, sy.PaillierTensor)
    equal(encrypted, before if dtype.is_floating_point else before.long())
    assert torch.equal(x, before)
    assert not encrypted.requires_grad
    assert capsys.readouterr() == ("", "")


@given(st.lists(st.floats(-1000, 1000, width=32), min_size=1, max_size=4), st.floats(-100, 100, width=32))
def test_p1_floats_are_encrypted_with_a_fixed_exponent(values, factor):
    x = torch.tensor(values, dtype=torch.float64)
    encrypted = x.encrypt(PUBLIC)
    assert encrypted.child.ciphertexts.scale == 32  # whatever the values are
    equal(encrypted, x, 1e-6)
    equal(encrypted * factor + factor - x, x * factor + factor - x, 1e-6)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=4), st.integers(-(2**31), 2**31))
def test_p1_whole_numbers_are_exact(values, number):
    x = torch.tensor(values)
    encrypted = x.encrypt(PUBLIC)
    equal(encrypted, x)
    small = x // 2**32
    equal(small.encrypt(PUBLIC) * number - number, small * number - number)


def operand(whole, *shape):
    values = torch.randint(-9, 9, shape)
    return values if whole else values + torch.rand(shape)


ELEMENTWISE = {
    "add": (lambda x, y: x + y, lambda x, y: torch.add(x, y), lambda x, y: x.add(y)),
    "sub": (lambda x, y: x - y, lambda x, y: torch.sub(x, y), lambda x, y: x.sub(y)),
    "mul": (lambda x, y: x * y, lambda x, y: torch.mul(x, y), lambda x, y: x.mul(y)),
    "alpha": (lambda x, y: torch.add(x, y, alpha=3), lambda x, y: x.sub(y, alpha=2)),
    "rsub": (lambda x, y: torch.rsub(x, y),),
    "keywords": (lambda x, y: torch.add(input=x, other=y), lambda x, y: torch.mul(x, other=y)),
}
SHAPES = [((3,), (3,)), ((2, 3), (3,)), ((3,), (2, 1)), ((), (2,)), ((2, 2), ()), ((0,), (1,)), ((1, 2, 1), (3, 1, 2))]


@pytest.mark.parametrize("name", ELEMENTWISE)
@pytest.mark.parametrize(("first", "second"), SHAPES)
def test_p1_elementwise_calls_broadcast_with_the_plain_operand_on_either_side(name, first, second):
    for call, whole_x, whole_y in itertools.product(ELEMENTWISE[name], (True, False), (True, False)):
        x, y = operand(whole_x, *first), operand(whole_y, *second)
        equal(call(x.encrypt(PUBLIC), y), call(x, y))
        equal(call(x, y.encrypt(PUBLIC)), call(x, y))
        if name != "mul" and call is not ELEMENTWISE["keywords"][1]:
            equal(call(x.encrypt(PUBLIC), y.encrypt(PUBLIC)), call(x, y))


NUMBERS = [2, -3, 0, True, 0.5, -1.25, np.float32(1.5), np.float64(-2.5), np.int64(3), np.int8(-2), np.bool_(True)]


@pytest.mark.parametrize("number", NUMBERS, ids=lambda n: f"{type(n).__name__} {n}")
def test_p1_numbers_and_numpy_scalars_on_either_side(number):
    plain = number.item() if isinstance(number, np.generic) else number
    for x in (torch.tensor([[1, -2], [3, 4]]), torch.tensor([1.5, -2.0])):
        e = x.encrypt(PUBLIC)
        for found, expected in (
            (e + number, x + plain), (number + e, plain + x), (e * number, x * plain), (number * e, plain * x),
            (e - number, x - int(plain) if type(plain) is bool else x - plain),
            (number - e, int(plain) - x if type(plain) is bool else plain - x),
        ):  # fmt: skip
            equal(found, expected)


def test_p1_arrays_of_numpy_are_plain_operands():
    x, array = torch.tensor([1.5, -2.0]), np.array([2.0, 3.0])
    e = x.encrypt(PUBLIC)
    equal(e + array, torch.tensor([3.5, 1.0]))
    equal(array - e, torch.tensor([0.5, 5.0]))
    equal(array @ e, torch.tensor(-3.0))
    with pytest.raises(SyftError):
        np.exp(e)


PRODUCTS = [((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((2, 2, 3), (3, 2)), ((3,), (2, 3, 2)),
            ((2, 1, 2, 3), (3, 3, 2)), ((2, 2, 3), (3,)), ((0, 3), (3, 2)), ((2, 0), (0, 2)), ((1, 1), (1, 1))]  # fmt: skip


@pytest.mark.parametrize(("first", "second"), PRODUCTS)
@pytest.mark.parametrize("whole", [True, False])
def test_p1_matrix_products_in_both_orders(first, second, whole):
    x, y = operand(whole, *first), operand(whole, *second)
    for call in (torch.matmul, lambda a, b: a @ b, lambda a, b: a.matmul(b)):
        equal(call(x.encrypt(PUBLIC), y), call(x, y))
        equal(call(x, y.encrypt(PUBLIC)), call(x, y))
    if len(first) == len(second) == 2:
        for call in (torch.mm, lambda a, b: a.mm(b)):
            equal(call(x.encrypt(PUBLIC), y), call(x, y))
            equal(call(x, y.encrypt(PUBLIC)), call(x, y))


def test_p1_mm_of_two_vectors_is_their_inner_product():
    x, y = torch.tensor([1, 2, 3]), torch.tensor([4, -5, 6])
    equal(x.encrypt(PUBLIC).mm(y), x @ y)
    equal(torch.mm(x, y.encrypt(PUBLIC)), x @ y)


LINEAR = {
    "neg": lambda x: -x,
    "torch.neg": lambda x: torch.neg(x),
    "pos": lambda x: +x,
    "sum": lambda x: x.sum(),
    "sum dim": lambda x: x.sum(1),
    "sum dims": lambda x: torch.sum(x, dim=(0, -1), keepdim=True),
    "sum empty": lambda x: x[:0].sum(0),
    "mean": lambda x: x.mean(),
    "mean dim": lambda x: x.mean(dim=-1, keepdim=True),
    "cumsum": lambda x: x.cumsum(1),
    "div": lambda x: x / 3,
    "div tensor": lambda x: x / torch.tensor([2.0, -4.0, 1000.0]),
    "torch.div": lambda x: torch.div(x, 0.125),
    "linear": lambda x: F.linear(x, torch.arange(6.0).view(2, 3), torch.ones(2)),
    "module": lambda x: LAYER(x).detach(),  # its parameters require no gradient
    "inner": lambda x: torch.inner(x, torch.arange(6.0).view(2, 3)),
    "outer": lambda x: torch.outer(x[0], torch.arange(2.0)),
    "addmm": lambda x: torch.addmm(torch.ones(2, 1), x, torch.ones(3, 1), beta=2, alpha=0.5),
    "addmm of ciphertexts": lambda x: torch.addmm(x, torch.ones(2, 2), torch.ones(2, 3)),
    "mv": lambda x: torch.mv(x, torch.arange(3.0)),
    "dot": lambda x: torch.dot(x[0], torch.arange(3.0)),
    "bmm": lambda x: torch.bmm(x.expand(2, 2, 3), torch.ones(2, 3, 1)),
    "trace": lambda x: torch.trace(x),
    "names": lambda x: torch.mm(x, mat2=torch.ones(3, 1)).sum(axis=0, keepdims=True),
    "lerp": lambda x: torch.lerp(x, x + 1, 0.25),
}
LAYER = torch.nn.Linear(3, 2).requires_grad_(False)


@pytest.mark.parametrize("name", LINEAR)
def test_p1_linear_calls(name):
    x = torch.tensor([[1.5, -2.0, 0.0], [3.25, 100.0, -1.0]])
    equal(LINEAR[name](x.encrypt(PUBLIC)), LINEAR[name](x), 1e-4)


MOVES = {
    "index": lambda x: x[1],
    "negative index": lambda x: x[-1, 0],
    "slice": lambda x: x[:, ::2],
    "mask": lambda x: x[torch.tensor([True, False])],
    "indices": lambda x: x[[0, 1, 0]],
    "none": lambda x: x[:, None],
    "view": lambda x: x.view(3, 2),
    "reshape": lambda x: torch.reshape(x, (-1,)),
    "flatten": lambda x: x.flatten(),
    "t": lambda x: x.t(),
    "T": lambda x: x.T,
    "mT": lambda x: x.mT,
    "transpose": lambda x: x.transpose(0, 1),
    "permute": lambda x: x.permute(1, 0),
    "squeeze": lambda x: x.unsqueeze(0).squeeze(0),
    "expand": lambda x: x[0].expand(4, 3),
    "repeat": lambda x: x.repeat(2, 1),
    "cat": lambda x: torch.cat([x, x * 2], dim=1),
    "cat with plain": lambda x: torch.cat([x, torch.ones(1, 3), x]),
    "stack": lambda x: torch.stack([x, x], dim=1),
    "hstack": lambda x: torch.hstack([x, x]),
    "split": lambda x: x.split(1)[1],
    "chunk": lambda x: torch.chunk(x, 3, dim=1)[2],
    "unbind": lambda x: x.unbind(1)[0],
    "narrow": lambda x: x.narrow(1, 1, 2),
    "index_select": lambda x: x.index_select(1, torch.tensor([2, 0])),
    "gather": lambda x: x.gather(1, torch.tensor([[2], [0]])),
    "masked_select": lambda x: x.masked_select(torch.tensor([[True, False, True], [False] * 3])),
    "flip": lambda x: x.flip(1),
    "roll": lambda x: x.roll(1, 0),
    "diagonal": lambda x: x.diagonal(),
    "diag": lambda x: torch.diag(x[0]),
    "tril": lambda x: x.tril(),
    "pad": lambda x: F.pad(x, (1, 0)),
    "where": lambda x: torch.where(torch.tensor([True, False, True]), x, 7.0),
    "iterate": lambda x: list(x)[1],
    "clone": lambda x: x.clone(),
    "copy": lambda x: x.copy(),
    "deepcopy": lambda x: copy.deepcopy(x),
    "detach": lambda x: x.detach(),
    "contiguous": lambda x: x.contiguous(),
    "data": lambda x: x.data,
    "expand_as": lambda x: x[0].expand_as(x),
    "atleast": lambda x: torch.atleast_3d(x),
    "repeat_interleave": lambda x: x.repeat_interleave(2, dim=0),
    "masked_fill": lambda x: x.masked_fill(torch.tensor([True, False, False]), 3.0),
    "to": lambda x: x.to(torch.float64).to("cpu"),
}


@pytest.mark.parametrize("name", MOVES)
def test_p1_elements_move_as_in_torch(name):
    x = torch.tensor([[1.5, -2.0, 0.0], [3.25, 100.0, -1.0]])
    equal(MOVES[name](x.encrypt(PUBLIC)), MOVES[name](x))


def iadd(x):
    x += 2
    return x


def write_view(x):
    x[0] += 5
    x.view(-1)[1:3].mul_(2)
    x.t()[2].sub_(1)
    return x


def write_base(x):
    row = x[1]
    x.add_(1)
    return row


def set_items(x):
    x[0, 1] = 7.0
    x[1] = x[0]
    x[:, 2] = torch.tensor([1.0, 2.0])
    x[torch.tensor([False, True]), 0] = 4
    return x


IN_PLACE = {
    "+=": iadd,
    "add_": lambda x: x.add_(torch.ones(3), alpha=2),
    "sub_": lambda x: x.sub_(1.5),
    "mul_": lambda x: x.mul_(torch.tensor([1.0, 2.0, -3.0])),
    "div_": lambda x: x.div_(4),
    "neg_": lambda x: x.neg_(),
    "zero_": lambda x: x.zero_(),
    "fill_": lambda x: x.fill_(-3),
    "copy_": lambda x: x.copy_(torch.zeros(3)),
    "views": write_view,
    "base": write_base,
    "items": set_items,
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_p1_in_place_calls_change_the_tensor_and_its_views(name):
    x = torch.tensor([[1.5, -2.0, 0.0], [3.25, 100.0, -1.0]])
    encrypted = x.encrypt(PUBLIC)
    if name not in ("views", "base", "items"):
        assert IN_PLACE[name](encrypted) is encrypted
        equal(encrypted, IN_PLACE[name](x))
    else:
        equal(IN_PLACE[name](encrypted), IN_PLACE[name](x))
        equal(encrypted, x)


def test_p1_in_place_calls_refuse_what_torch_refuses():
    x = torch.tensor([1, 2]).encrypt(PUBLIC)
    for write in (lambda: x.add_(0.5), lambda: x.add_(torch.ones(3, 2)), lambda: x.__setitem__(0, 0.5)):
        with pytest.raises(SyftError, match="in place|broadcast"):
            write()
    with pytest.raises(SyftError, match=r"\(2,\) and \(3,\) can't be broadcast"):
        x + torch.ones(3)
    with pytest.raises(SyftError, match="expanded"):
        x[:1].expand(3).add_(1)
    with pytest.raises(UnsupportedOperationError, match="plain tensor"):
        torch.ones(2).add_(x)
    equal(x, torch.tensor([1, 2]))


def test_p1_ciphertexts_are_no_indices_and_are_not_read_as_other_dtypes():
    i, x = torch.tensor([0, 1]).encrypt(PUBLIC), torch.tensor([1, 2])
    for call in (
        lambda: x[i], lambda: i[i], lambda: i.__setitem__(i, 1), lambda: x.gather(0, i), lambda: i.gather(0, i),
        lambda: torch.repeat_interleave(i), lambda: i.view(torch.int32), lambda: i.view(torch.float64),
        lambda: torch.where(i, x, x), lambda: x.masked_select(i), lambda: (i / 2).long(), lambda: i.requires_grad_(),
        lambda: copy.copy(i).__reduce_ex__(2), lambda: x.__setitem__(0, i[0]),
    ):  # fmt: skip
        with pytest.raises(SyftError):
            call()
    equal(i, torch.tensor([0, 1]))


@given(st.data())
def test_p1_products_of_whole_matrices_are_exact(data):
    bits = data.draw(st.integers(0, 40))
    numbers = st.lists(st.integers(-(2**bits), 2**bits), min_size=6, max_size=6)
    weights = torch.tensor(data.draw(numbers)).view(3, 2)
    x = torch.tensor(data.draw(st.lists(st.integers(-1000, 1000), min_size=3, max_size=3)))
    equal(x.encrypt(PUBLIC) @ weights, x @ weights)


def test_p1_ciphertexts_are_not_multiplied():
    x = torch.tensor([1.5, 2.0]).encrypt(PUBLIC)
    for call in (lambda: x * x, lambda: x @ x, lambda: torch.mm(x, x), lambda: x.mul_(x), lambda: x**2):
        with pytest.raises(NotImplementedError, match="Paillier can't multiply two ciphertexts"):
            call()
    for call in (lambda: x > 1, lambda: x.relu(), lambda: x.item(), lambda: 1 / x, lambda: x.exp(), lambda: bool(x[0])):
        with pytest.raises(UnsupportedOperationError, match="Paillier"):
            call()


def test_p1_other_keys_are_refused():
    x, y = torch.tensor([1.5]).encrypt(PUBLIC), torch.tensor([1.5]).encrypt(OTHER_PUBLIC)
    for call in (lambda: x + y, lambda: torch.cat([x, y]), lambda: x.copy_(y)):
        with pytest.raises(SyftError, match="different public keys"):
            call()
    for key, text in ((OTHER_PRIVATE, "another public key"), (PUBLIC, "a public key"), (None, "NoneType")):
        with pytest.raises(SyftError, match=text):
            x.decrypt(key)
    for key in (PRIVATE, "key"):
        with pytest.raises(SyftError, match="public"):
            torch.ones(1).encrypt(public_key=key)
    with pytest.raises(SyftError, match="plain tensor"):
        torch.ones(1).decrypt(PRIVATE)
    with pytest.raises(SyftError, match="already"):
        x.encrypt(PUBLIC)


def test_p1_keywords_of_later_releases_and_the_link_itself():
    x = torch.tensor([1.5, 2.0])
    encrypted = x.encrypt(protocol="paillier", public_key=PUBLIC)
    assert encrypted.decrypt(protocol="paillier", private_key=PRIVATE).tolist() == [1.5, 2.0]
    link = sy.PaillierTensor().on(torch.tensor([1.5]), wrap=False)
    with pytest.raises(SyftError, match="not encrypted yet"):
        link.add(1)
    equal(link.encrypt_(PUBLIC).add(1).wrap(), torch.tensor([2.5]))
    y = same = torch.tensor([3])
    assert y.encrypt(PUBLIC, inplace=True) is same
    assert isinstance(y.child, sy.PaillierTensor)
    assert y.decrypt(PRIVATE, inplace=True) is same
    assert same.tolist() == [3]


def test_p1_numbers_that_do_not_fit_are_refused():
    for value in (float("nan"), float("inf"), 2.0**33):
        with pytest.raises(SyftError, match="finite|below 2\\*\\*32"):
            torch.tensor([1.0, value]).encrypt(PUBLIC)
        with pytest.raises(SyftError, match="finite|below 2\\*\\*32"):
            torch.ones(2).encrypt(PUBLIC) * torch.tensor([1.0, value], dtype=torch.float64)
    for plain in (torch.ones(1, dtype=torch.complex64), torch.ones(2).to_sparse()):
        with pytest.raises(UnsupportedOperationError, match="complex|sparse"):
            plain.encrypt(PUBLIC)
    for divisor in (0, 0.0, float("nan"), 1e300, 1e-300):
        with pytest.raises(SyftError, match="div"):
            torch.ones(1).encrypt(PUBLIC) / divisor
    with pytest.raises(SyftError, match="64 bits"):
        torch.tensor([1]).encrypt(PUBLIC) * 2**70
    with pytest.raises(SyftError, match="more than 64 bits"):
        (torch.tensor([2**62]).encrypt(PUBLIC) * 4).decrypt(PRIVATE)
    with pytest.raises(SyftError, match="too large for torch.float16"):
        torch.set_default_dtype(torch.float16)
        try:
            torch.tensor([1e6], dtype=torch.float64).encrypt(PUBLIC).decrypt(PRIVATE)
        finally:
            torch.set_default_dtype(torch.float32)


def test_p1_products_never_wrap_around():
    x = expected = torch.tensor([1.5, -2.0])
    x = x.encrypt(PUBLIC)
    depth = 0
    with pytest.raises(SyftError, match="longer key"):
        while True:
            x, expected, depth = x * 1.5, expected * 1.5, depth + 1
            equal(x, expected)
    assert depth == 6  # 64 bits for the numbers and for each factor, of 510
    # A sum of many tensors costs few bits.
    total = y = torch.tensor([3]).encrypt(PUBLIC)
    for _ in range(200):
        total = total + y
    assert total.child.ciphertexts.bound == 201 * 2**63
    equal(total, torch.tensor([603]))


def test_p1_bounds_do_not_depend_on_values():
    small, large = torch.zeros(3), torch.tensor([1e9, -1e9, 3.3])

    def shown(values):
        x = values.encrypt(PUBLIC)
        results = [x, x * values, x + values, x @ values, x / (values + 10), x.sum(), x - 5, x * 3]
        return [(r.child.ciphertexts.scale, r.child.ciphertexts.bound) for r in results]

    assert shown(small) == shown(large)


def test_p1_forged_ciphertexts_are_noticed():
    x = torch.tensor([1.5]).encrypt(PUBLIC)
    link = x.child
    link.ciphertexts.values[0] = link.ciphertexts.values[0] ** 3 % PUBLIC.n**2
    equal(x, torch.tensor([4.5]))  # within the bound
    link.ciphertexts.values[0] = pow(int(link.ciphertexts.values[0]), 2**200, PUBLIC.n**2)
    with pytest.raises(SyftError, match="damaged or forged"):
        x.decrypt(PRIVATE)
    link.ciphertexts.values[0] = PRIVATE.p
    with pytest.raises(SyftError, match="damaged or forged"):
        -x


def test_p1_equal_numbers_have_different_ciphertexts():
    x = torch.zeros(20).encrypt(PUBLIC)
    assert len(set(x.child.ciphertexts.flat())) == 20
    assert x.child.ciphertexts.fresh
    assert not (x + 0).child.ciphertexts.fresh


def test_p1_text_and_html_show_neither_numbers_nor_secrets():
    x = torch.tensor([12345.5]).tag("#x").encrypt(PUBLIC)
    assert x.tags == {"#x"}
    link = x.child
    assert repr(x) == str(x) == f"{x}" == f"(Wrapper)>PaillierTensor[(1,), torch.float32; {link.ciphertexts.key}]"
    assert "512-bit key" in x._repr_html_()
    secrets = [str(number) for number in (12345, PRIVATE.p, PRIVATE.q, *link.ciphertexts.flat())]
    for text in (repr(x), x._repr_html_(), repr(PRIVATE), repr(link.ciphertexts)):
        assert not any(secret in text for secret in secrets)


def test_p1_a_missing_package_is_named_with_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "phe.paillier", None)
    monkeypatch.setitem(sys.modules, "phe", None)
    with pytest.raises(DependencyError, match=r"pip install 'gmpy2>=2\.2' 'phe>=1\.5'"):
        sy.keygen()


def test_p1_the_same_results_without_gmpy2(monkeypatch):
    from syft.he import ciphertexts, modular, paillier, weighted_sums

    plain = modular.Arithmetic(int, pow, lambda: None)
    for module in (ciphertexts, paillier, weighted_sums, sys_module("syft.he.paillier_tensor")):
        monkeypatch.setattr(module, "arithmetic", lambda: plain)
    monkeypatch.setattr(paillier, "modulus", paillier.Modulus)
    x = torch.tensor([[1.5, -2.0]])
    encrypted = x.encrypt(PUBLIC)
    assert type(encrypted.child.ciphertexts.flat()[0]) is int
    equal((encrypted - 3) @ torch.tensor([[2.0], [-1.0]]), (x - 3) @ torch.tensor([[2.0], [-1.0]]))
    equal(-encrypted * -0.5, x * 0.5)


def sys_module(name):
    import importlib

    return importlib.import_module(name)


@pytest.mark.parametrize("seconds", [0, 1000])
def test_p1_long_work_shows_a_progress_bar_on_a_terminal(monkeypatch, capsys, seconds):
    from syft.he import pool

    monkeypatch.setattr(pool, "BAR_AFTER_SECONDS", seconds)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    x = torch.arange(100).encrypt(PUBLIC)
    out, err = capsys.readouterr()
    assert out == ""
    assert ("encrypting" in err) is (seconds == 0)
    equal(x, torch.arange(100))


def test_p1_errors_and_interrupts_of_one_element_end_the_work():
    from syft.he.pool import in_threads

    def work(number):
        if number == 30:
            raise KeyboardInterrupt
        return number

    with pytest.raises(KeyboardInterrupt):
        in_threads("working", work, range(1000))
    assert in_threads("working", abs, range(-50, 0)) == list(range(50, 0, -1))


def square(number):
    return number * number


def test_p2_there_is_one_pool():
    pool = sy.pool()
    assert sy.pool() is pool
    assert pool.map(square, range(5)) == [0, 1, 4, 9, 16]
    pool.close()
    pool.join()
    assert sy.pool() is not pool
    assert sy.pool().map(square, [3]) == [9]
    equal(torch.arange(10).encrypt(PUBLIC), torch.arange(10))


LOSES_A_GRADIENT = {
    "encrypt": lambda e, w, v: w.encrypt(PUBLIC),
    "encrypt a result": lambda e, w, v: (v * w).encrypt(PUBLIC),
    "add": lambda e, w, v: e + w,
    "add to plain": lambda e, w, v: w + e,
    "add in place": lambda e, w, v: e.add_(w),
    "sub from plain": lambda e, w, v: w - e,
    "mul": lambda e, w, v: e * w,
    "mul of plain": lambda e, w, v: w * e,
    "div": lambda e, w, v: e / w,
    "matmul": lambda e, w, v: e @ w,
    "matmul of plain": lambda e, w, v: torch.matmul(w, e),
    "addmm": lambda e, w, v: torch.addmm(w, e, v),
    "a layer": lambda e, w, v: torch.nn.Linear(2, 2)(e),
    "cat": lambda e, w, v: torch.cat([e, w]),
    "write": lambda e, w, v: e.__setitem__(0, w[0]),
}


@pytest.mark.parametrize("call", LOSES_A_GRADIENT)
def test_p1_operands_that_require_a_gradient_are_refused(call):
    w, v = torch.ones(2, 2, requires_grad=True), torch.ones(2, 2)
    encrypted = torch.ones(2, 2).encrypt(PUBLIC)
    with pytest.raises(UnsupportedOperationError, match=r"x\.detach\(\), or torch\.no_grad\(\)"):
        LOSES_A_GRADIENT[call](encrypted, w, v)
    with torch.no_grad():  # nothing is lost here
        LOSES_A_GRADIENT[call](encrypted, w.clone(), v)
    LOSES_A_GRADIENT["mul of plain"](encrypted, w.detach(), v)


def test_p1_workers_refuse_operands_that_require_a_gradient(workers):
    bob, _ = workers
    w = torch.ones(2, requires_grad=True).send(bob)
    encrypted = torch.ones(2).encrypt(PUBLIC).send(bob)
    for call in (lambda: w.encrypt(PUBLIC), lambda: encrypted * w, lambda: w + encrypted):
        with pytest.raises(UnsupportedOperationError, match="detach"):
            call()
            bob.synchronize()
    equal((encrypted * w.detach()).get(), torch.ones(2))
