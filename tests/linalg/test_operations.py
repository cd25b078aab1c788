"""inv_sym and qr, on plain, remote and encrypted matrices, against float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import syft as sy
from syft.exceptions import SyftError, UnsupportedOperationError
from syft.linalg.operations import inv_sym, qr
from syft.mpc.protocols import householder, matrices
from syft.tensors.precision import FixedPrecisionTensor
from tests.helpers.mpc.protocols import cast_of, run

FORMS = {"three decimals": {"base": 10, "precision_fractional": 3}, "16 bits": {"base": 2, "precision_fractional": 16}}


@pytest.fixture(params=[2, 3, 4], scope="module")
def cast(request):
    yield from cast_of(f"linalg-{request.param}", request.param)


@pytest.fixture(params=FORMS)
def form(request):
    return FORMS[request.param]


def scale_of(form):
    return form["base"] ** form["precision_fractional"]


def symmetric(size, kappa, norm, seed, definite=False):
    """Return a symmetric matrix with eigenvalues of both signs, whose sizes are spread over a range."""
    generator = torch.Generator().manual_seed(seed)
    q, _ = torch.linalg.qr(torch.randn(size, size, generator=generator, dtype=torch.float64))
    sizes = torch.logspace(0, -np.log10(kappa), size, dtype=torch.float64)
    signs = torch.ones(size) if definite else torch.randn(size, generator=generator).sign()
    made = norm * (q * (sizes * signs)) @ q.T
    return (made + made.T) / 2


def rounded(matrix, scale):
    return (matrix * scale).round() / scale


# --- the inverse ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("definite", [True, False])
def test_inverse_of_shares(cast, form, definite):
    parties, provider = cast
    scale = scale_of(form)
    for size in (1, 2, 3, 6):
        a = rounded(symmetric(size, 10.0, 8.0, size, definite), scale)
        x = a.float().fix_precision(**form).share(*parties, crypto_provider=provider)
        made = inv_sym(x)
        assert made.child.is_shared
        found = made.get().float_precision().double()
        meant = torch.linalg.inv(a)
        assert (found - meant).abs().max() <= 5 / scale + 2**-22 * meant.norm() + 1e-6
        assert torch.equal(found, found.T)


@settings(max_examples=25, deadline=None, derandomize=True, phases=[Phase.generate])
@given(
    size=st.integers(1, 12),
    kappa=st.floats(0, 2.9),
    norm=st.floats(-2, 3),
    scale=st.sampled_from([10**3, 2**16, 10**6, 2**20]),
    seed=st.integers(0, 10**6),
    parties=st.sampled_from([2, 3]),
)
def test_the_error_of_the_inverse(size, kappa, norm, scale, seed, parties):
    whole = (symmetric(size, 10**kappa, 10**norm, seed) * scale).round()
    if float(whole.norm()) >= 2**31 or float(torch.linalg.svdvals(whole)[-1]) * 2000 < float(whole.norm()):
        return  # outside of the domain
    meant = torch.linalg.inv(whole) * scale**2
    found = run(matrices.inverse, parties, whole.long(), scale=scale)
    assert float((found - meant).abs().max()) <= 5 + 2**-22 * float(meant.norm())


@pytest.mark.parametrize(
    ("size", "scale", "norm"), [(2, 10**3, 1e5), (5, 2**16, 2e3), (12, 2**20, 5e2), (12, 10**6, 9e2)]
)
def test_the_inverse_at_the_edge_of_its_domain(size, scale, norm):
    whole = (symmetric(size, 1350.0, norm, 3) * scale).round()
    assert 1300 < float(whole.norm() / torch.linalg.svdvals(whole)[-1]) < 2000
    meant = torch.linalg.inv(whole) * scale**2
    found = run(matrices.inverse, 2, whole.long(), scale=scale)
    assert float((found - meant).abs().max()) <= 5 + 2**-22 * float(meant.norm())


def test_inverse_of_any_square_matrix_and_of_batches(cast):
    parties, provider = cast
    a = torch.tensor([[[0.0, 2.0], [-4.0, 1.0]], [[1.0, 0.5], [30.0, 4.0]]])
    x = a.fix_precision(base=2, precision_fractional=16).share(*parties, crypto_provider=provider)
    for call in (torch.linalg.inv, torch.inverse, torch.Tensor.inverse):
        assert torch.allclose(call(x).get().float_precision(), torch.linalg.inv(a), atol=2e-4)
    assert inv_sym(x[0] * 0 + torch.eye(2)).get().float_precision().round().tolist() == [[1, 0], [0, 1]]


def test_gradient_of_an_inverse(make_worker):
    alice, bob, carol = (make_worker(name) for name in ("alice", "bob", "carol"))
    a = torch.tensor([[2.0, 0.5], [0.5, 1.0]])
    x = a.fix_precision(base=2, precision_fractional=16)
    x = x.share(alice, bob, crypto_provider=carol, requires_grad=True)
    y = a.clone().requires_grad_()
    inv_sym(x).sum().backward()
    torch.linalg.inv(y).sum().backward()
    found = x.grad.get().float_precision()
    # Only what is on and below the diagonal counts, so a pair of elements has its gradients added up there.
    assert torch.allclose(found, (y.grad + y.grad.T).tril() - y.grad.diag().diag(), atol=1e-3)


def test_rounds_of_the_inverse_do_not_depend_on_the_size(make_worker):
    alice, bob, carol = (make_worker(name) for name in ("alice", "bob", "carol"))
    for size in (1, 4, 16):
        x = torch.eye(size).fix_precision().share(alice, bob, crypto_provider=carol)
        with sy.mpc.count() as tally:
            inv_sym(x)
        assert tally.rounds == 74


def test_the_upper_triangle_is_ignored(make_worker):
    alice, bob, carol = (make_worker(name) for name in ("alice", "bob", "carol"))
    x = torch.tensor([[4.0, 9.0], [2.0, 3.0]]).fix_precision().share(alice, bob, crypto_provider=carol)
    found = inv_sym(x).get().float_precision()
    assert torch.allclose(found, torch.linalg.inv(torch.tensor([[4.0, 2.0], [2.0, 3.0]])), atol=5e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_inverse_of_plain_remote_and_encoded_matrices(workers, form, dtype):
    bob, _ = workers
    a = symmetric(5, 20.0, 3.0, 1).to(dtype)
    meant = torch.linalg.inv(a)
    found = inv_sym(a)
    assert found.dtype == dtype and torch.equal(found, found.T)
    assert torch.allclose(found, meant, rtol=1e-4)
    assert torch.allclose(inv_sym(a.send(bob)).get(), meant, rtol=1e-3, atol=1e-5)
    encoded = a.fix_precision(**form)
    values = encoded.child.child.double() / scale_of(form)
    made = inv_sym(encoded)
    assert isinstance(made.child, FixedPrecisionTensor) and not made.child.is_shared
    assert torch.allclose(made.float_precision().double(), torch.linalg.inv(values), atol=1 / scale_of(form), rtol=1e-6)


@pytest.mark.parametrize(
    ("matrix", "text"),
    [
        (torch.ones(2, 3), "requires a square matrix, got shape"),
        (torch.ones(3), "takes a matrix, got a tensor with 1 dimensions"),
        (torch.ones(2, 2, 2), "takes a matrix, got a tensor with 3 dimensions"),
        (torch.ones(2, 2), "is singular"),
        (torch.zeros(2, 2), "is singular"),
        (torch.tensor([[1.0, 2.0], [0.0, 1.0]]), "requires a symmetric matrix"),
        (torch.eye(2).long(), "takes a matrix of floats, got torch.int64"),
        ([[1.0]], "takes a tensor, got list"),
        (torch.tensor([[float("nan")]]), "not finite"),
    ],
)
def test_matrices_that_have_no_inverse(hook, matrix, text):
    with pytest.raises(SyftError, match=text):
        inv_sym(matrix)
    if isinstance(matrix, torch.Tensor) and matrix.is_floating_point() and matrix.isfinite().all():
        with pytest.raises(SyftError, match=text):
            inv_sym(matrix.fix_precision())


def test_shares_that_can_not_be_inverted_are_refused_before_anything_runs(make_worker):
    alice, bob, carol = (make_worker(name) for name in ("alice", "bob", "carol"))
    whole = torch.eye(2).long().share(alice, bob, crypto_provider=carol)
    wide = torch.ones(2, 3).fix_precision().share(alice, bob, crypto_provider=carol)
    with sy.mpc.count() as tally:
        with pytest.raises(SyftError, match="takes encoded numbers"):
            inv_sym(whole)
        with pytest.raises(SyftError, match="requires a square matrix"):
            inv_sym(wide)
        with pytest.raises(SyftError, match="requires a square matrix"):
            torch.linalg.inv(wide)
        with pytest.raises(UnsupportedOperationError, match="of whole numbers"):
            torch.linalg.inv(whole)
    assert tally.runs == 0
    with pytest.raises(RuntimeError, match="singular"):
        inv_sym(torch.zeros(2, 2).send(bob))
    alone = torch.eye(2).fix_precision().share(alice, bob)
    with pytest.raises(SyftError, match="needs a crypto provider"):
        inv_sym(alone)


# --- QR ---------------------------------------------------------------------------------------------------------


def check_qr(a, q, r, tolerance, norm):
    """Assert that Q is orthogonal, R triangular, and their product the matrix."""
    assert np.abs(q.T @ q - np.eye(q.shape[1])).max() <= 4 * tolerance
    assert np.array_equal(r, np.triu(r))
    assert np.abs(q @ r - a).max() <= 4 * tolerance * max(norm, 1.0)


@pytest.mark.parametrize("mode", ["reduced", "complete", "r"])
def test_qr_of_shares(cast, form, mode):
    parties, provider = cast
    scale = scale_of(form)
    for shape in ((1, 1), (3, 3), (5, 2), (2, 4)):
        a = rounded(torch.randn(*shape, dtype=torch.float64) * 5, scale)
        x = a.float().fix_precision(**form).share(*parties, crypto_provider=provider)
        meant = np.linalg.qr(a.numpy(), mode)
        found = qr(x, mode, norm_factor=3.0)
        found = [part.get().float_precision().double().numpy() for part in (found if mode != "r" else (found,))]
        for one, other in zip(found, meant if mode != "r" else (meant,), strict=True):
            assert one.shape == other.shape
            # The signs are the same; digits differ by what rounding makes of a matrix that is nearly singular.
            assert np.abs(one - other).max() <= 20 / scale * max(1.0, np.linalg.cond(a) / 10)
        if mode != "r":
            check_qr(a.numpy(), *found, 2 * shape[1] / scale, float(a.norm()))


@settings(max_examples=20, deadline=None, derandomize=True, phases=[Phase.generate])
@given(
    rows=st.integers(1, 12),
    columns=st.integers(1, 6),
    norm=st.floats(-2, 3),
    scale=st.sampled_from([10**3, 2**16, 10**6, 2**20]),
    seed=st.integers(0, 10**6),
    rank=st.integers(0, 6),
)
def test_the_error_of_qr(rows, columns, norm, scale, seed, rank):
    generator = torch.Generator().manual_seed(seed)
    left, right = (torch.randn(*s, generator=generator, dtype=torch.float64) for s in ((rows, rank), (rank, columns)))
    whole = (left @ right * 10**norm * scale).round()
    if float(whole.norm()) >= 2**31:
        return
    q, r = run(householder.qr, 2, whole.long(), scale=scale)
    size = float(whole.norm()) / scale
    least = min(rows, columns)
    check_qr(whole.numpy() / scale, q.numpy() / scale, r.numpy() / scale, (4 / scale + 2**-24) * least, size)


def test_rounds_of_qr(make_worker):
    alice, bob, carol = (make_worker(name) for name in ("alice", "bob", "carol"))
    for columns in (1, 2, 3):
        x = torch.randn(6, columns).fix_precision().share(alice, bob, crypto_provider=carol)
        for mode, each, more in (("r", 32, 12), ("reduced", 36, 11), ("complete", 36, 11)):
            with sy.mpc.count() as tally:
                qr(x, mode)
            assert tally.rounds == each * columns + more


def test_qr_of_plain_remote_and_encoded_matrices(workers, form):
    bob, _ = workers
    a = torch.randn(4, 3)
    q, r = torch.linalg.qr(a)
    for found in (qr(a), [part.get() for part in qr(a.send(bob))]):
        assert all(torch.allclose(one, other, atol=1e-5) for one, other in zip(found, (q, r), strict=True))
    assert torch.allclose(qr(a, mode="r"), r, atol=1e-5)
    assert qr(a, mode="complete")[0].shape == (4, 4)
    found = [part.float_precision() for part in qr(a.fix_precision(**form))]
    assert all(torch.allclose(one, other, atol=20 / scale_of(form)) for one, other in zip(found, (q, r), strict=True))


def test_qr_of_empty_and_zero_matrices(make_worker):
    alice, bob, carol = (make_worker(name) for name in ("alice", "bob", "carol"))
    for shape in ((3, 0), (0, 2), (0, 0), (3, 2)):
        x = torch.zeros(*shape).fix_precision().share(alice, bob, crypto_provider=carol)
        for mode in ("reduced", "complete"):
            q, r = (part.get().float_precision() for part in qr(x, mode))
            meant = torch.linalg.qr(torch.zeros(*shape), mode)
            assert q.shape == meant.Q.shape and r.shape == meant.R.shape
            assert torch.equal(q, torch.eye(*q.shape)) and not r.any()
    empty = torch.zeros(0, 0).fix_precision().share(alice, bob, crypto_provider=carol)
    assert inv_sym(empty).get().shape == (0, 0)


def test_bad_arguments_of_qr(make_worker):
    alice, bob, carol = (make_worker(name) for name in ("alice", "bob", "carol"))
    x = torch.eye(2).fix_precision().share(alice, bob, crypto_provider=carol)
    with pytest.raises(SyftError, match="modes 'reduced', 'complete', 'r', got 'full'"):
        qr(x, mode="full")
    for factor in (0, -1.0, float("inf"), float("nan")):
        with pytest.raises(SyftError, match="norm_factor must be positive"):
            qr(x, norm_factor=factor)
    with pytest.raises(SyftError, match="takes a matrix, got a tensor with 1"):
        qr(x[0])
    with pytest.raises(UnsupportedOperationError, match="one matrix"):
        torch.linalg.qr(torch.ones(2, 2, 2).fix_precision())
    with pytest.raises(SyftError, match="takes encoded numbers"):
        qr(torch.eye(2).long().share(alice, bob, crypto_provider=carol))
