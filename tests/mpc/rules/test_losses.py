"""Losses on encrypted tensors: values and gradients against float64 torch, with public and private targets."""

import pytest
import torch
import torch.nn.functional as F

import syft as sy
from syft.exceptions import UnsupportedOperationError
from tests.helpers.mpc.protocols import cast_of

FORMATS = {"2^-16": {"base": 2, "precision_fractional": 16}, "10^-3": {"base": 10, "precision_fractional": 3}}
torch.manual_seed(0)
X, Y = torch.randn(6, 4), torch.randn(6, 4)
FRACTIONS = torch.rand(6, 4) * 0.9 + 0.05
BINARY = (torch.rand(6, 4) > 0.5).float()
PROBABILITIES = torch.rand(6, 4).softmax(1)
CLASSES = torch.tensor([1, 0, 3, 2, 1, 3])
SIGNS = torch.tensor([1.0, -1.0, -1.0, 1.0, 1.0, -1.0])
WEIGHT = torch.tensor([0.5, 1.0, 2.0, 0.25])


def w(x):
    return WEIGHT.to(x.dtype)


# A loss of x and a target, with any reduction; and what these are.
LOSSES = {
    "mse": (F.mse_loss, X, Y),
    "l1": (F.l1_loss, X, Y),
    "smooth_l1": (lambda x, t, **k: F.smooth_l1_loss(x, t, beta=0.3, **k), X, Y),
    "huber": (lambda x, t, **k: F.huber_loss(x, t, delta=0.7, **k), X, Y),
    "nll": (F.nll_loss, X, CLASSES),
    "nll ignoring": (lambda x, t, **k: F.nll_loss(x, t, ignore_index=1, **k), X, CLASSES),
    "nll weighed": (lambda x, t, **k: F.nll_loss(x, t, weight=w(x), **k), X, CLASSES),
    "nll2d": (
        lambda x, t, **k: F.nll_loss(x.view(2, 3, 2, 2), t, **k),
        X,
        torch.tensor([[[0, 1], [2, 1]], [[1, 1], [0, 2]]]),
    ),
    "nll of one": (lambda x, t, **k: F.nll_loss(x[0], t, **k), X, torch.tensor(2)),
    "cross_entropy": (F.cross_entropy, X, CLASSES),
    "cross_entropy 3d": (
        lambda x, t, **k: F.cross_entropy(x.view(2, 3, 4), t, **k),
        X,
        torch.tensor([[0, 1, 2, 1], [1, 1, 0, 2]]),
    ),
    "cross_entropy smoothed": (lambda x, t, **k: F.cross_entropy(x, t, label_smoothing=0.2, **k), X, CLASSES),
    "cross_entropy of probabilities": (
        lambda x, t, **k: F.cross_entropy(x, t, label_smoothing=0.2, weight=w(x), **k),
        X,
        PROBABILITIES,
    ),
    "bce": (lambda x, t, **k: F.binary_cross_entropy(x.sigmoid(), t, **k), X, FRACTIONS),
    "bce weighed": (lambda x, t, **k: F.binary_cross_entropy(x, t, weight=w(x), **k), FRACTIONS, BINARY),
    "bce_with_logits": (F.binary_cross_entropy_with_logits, X, BINARY),
    "bce_with_logits weighed": (
        lambda x, t, **k: F.binary_cross_entropy_with_logits(x, t, weight=w(x), pos_weight=w(x), **k),
        X,
        FRACTIONS,
    ),
    "kl_div": (lambda x, t, **k: F.kl_div(x.log_softmax(1), t, **batch(k)), X, PROBABILITIES),
    "kl_div log": (
        lambda x, t, **k: F.kl_div(x.log_softmax(1), t, log_target=True, **batch(k)),
        X,
        PROBABILITIES.log(),
    ),
    "poisson_nll": (F.poisson_nll_loss, X, FRACTIONS),
    "gaussian_nll": (lambda x, t, **k: F.gaussian_nll_loss(x[:, :2], t[:, :2], x[:, 2:].abs() + 0.5, **k), X, Y),
    "hinge_embedding": (lambda x, t, **k: F.hinge_embedding_loss(x[:, 0], t, **k), X, SIGNS),
    "soft_margin": (lambda x, t, **k: F.soft_margin_loss(x[:, 0], t, **k), X, SIGNS),
    "multilabel_soft_margin": (F.multilabel_soft_margin_loss, X, BINARY),
    "multi_margin": (F.multi_margin_loss, X, CLASSES),
    "multi_margin squared": (
        lambda x, t, **k: F.multi_margin_loss(x, t, p=2, margin=0.5, weight=w(x), **k),
        X,
        CLASSES,
    ),
    "margin_ranking": (lambda x, t, **k: F.margin_ranking_loss(x[:, 0], x[:, 1], t, margin=0.1, **k), X, SIGNS),
    "triplet_margin": (lambda x, t, **k: F.triplet_margin_loss(x, t, FRACTIONS.to(x.dtype), **k), X, Y),
    "cosine_embedding": (lambda x, t, **k: F.cosine_embedding_loss(x, Y.to(x.dtype), t, margin=0.1, **k), X, SIGNS),
    "cosine_similarity": (lambda x, t, **k: F.cosine_similarity(x, t), X, Y),
}


def batch(options):
    return {"reduction": "batchmean" if options["reduction"] == "mean" else options["reduction"]}


@pytest.fixture(scope="module")
def cast():
    yield from cast_of("losses", 3)


@pytest.fixture(autouse=True)
def hooked(hook):
    return hook


def encrypted(tensor, parties, provider, form="2^-16"):
    made = tensor.fix_precision(**FORMATS[form]) if tensor.is_floating_point() else tensor
    return made.share(*parties, crypto_provider=provider) if parties else made


def decrypted(tensor):
    return (tensor.get() if tensor.child.is_shared else tensor).float_precision()


def check(name, reduction, parties, provider, form, private):
    loss, x, target = LOSSES[name]
    exact, wanted = x.double().requires_grad_(), target.double() if target.is_floating_point() else target
    meant = loss(exact, wanted, reduction=reduction)
    meant.sum().backward()
    mine = encrypted(x, parties, provider, form).requires_grad_()
    found = loss(mine, encrypted(target, parties, provider, form) if private else target, reduction=reduction)
    found.sum().backward()
    unit = 2**-16 if form == "2^-16" else 1e-3
    assert found.shape == meant.shape
    worst = (decrypted(found) - meant.detach()).abs().max().item()
    assert worst < 30 * unit * max(1.0, meant.detach().abs().max().item())
    worst = (decrypted(mine.grad) - exact.grad).abs().max().item()
    assert worst < 50 * unit * max(1.0, exact.grad.abs().max().item())


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", LOSSES)
def test_losses_on_shares(name, reduction, cast):
    """Each loss and reduction; the targets of sums are public, the others private."""
    parties, provider = cast
    check(name, reduction, parties[:2], provider, "2^-16", reduction != "sum")


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", LOSSES)
def test_losses_on_fixed_precision(name, form, cast):
    check(name, "mean", (), None, form, False)


# One of each kind of rule.
SOME = ["mse", "huber", "nll weighed", "cross_entropy", "bce", "bce_with_logits weighed", "kl_div", "multi_margin"]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", SOME)
def test_losses_on_shares_of_three(name, form, cast):
    check(name, "mean", *cast, form, True)


def test_the_gradient_of_a_mean_of_many_is_not_zero(cast):
    parties, provider = cast
    for reduced in (lambda x: (x * x).mean(), lambda x: F.mse_loss(x, torch.zeros(100, 100)), lambda x: x.abs().mean()):
        for form in FORMATS:
            exact = torch.linspace(1, 2, 10_000).view(100, 100).requires_grad_()
            reduced(exact).backward()
            mine = encrypted(exact.detach(), parties[:2], provider, form).requires_grad_()
            reduced(mine).backward()
            assert (decrypted(mine.grad) - exact.grad).abs().max() < 0.02 * exact.grad.abs().max()


def test_a_loss_is_weighed_by_a_private_gradient_from_above(cast):
    parties, provider = cast
    for name in ("mse", "nll", "cross_entropy", "bce", "huber", "multi_margin"):
        loss, x, target = LOSSES[name]
        exact = x.double().requires_grad_()
        (loss(exact, target.double() if target.is_floating_point() else target) * 0.75).backward()
        mine, factor = (encrypted(t, parties[:2], provider) for t in (x, torch.tensor(0.75)))
        mine.requires_grad_()
        (loss(mine, target) * factor).backward()
        assert (decrypted(mine.grad) - exact.grad).abs().max() < 1e-3


def test_private_weights_of_classes(cast):
    parties, provider = cast
    for target in (CLASSES, encrypted(CLASSES, parties[:2], provider)):
        exact, mine = X.double().requires_grad_(), encrypted(X, parties[:2], provider).requires_grad_()
        meant = F.nll_loss(exact, CLASSES, weight=WEIGHT.double())
        found = F.nll_loss(mine, target, weight=encrypted(WEIGHT, parties[:2], provider))
        meant.backward()
        found.backward()
        assert abs(decrypted(found) - meant.detach()) < 1e-3
        assert (decrypted(mine.grad) - exact.grad).abs().max() < 1e-3


def test_the_input_may_be_public(cast):
    parties, provider = cast
    target = encrypted(BINARY, parties[:2], provider)
    for loss in (F.mse_loss, F.binary_cross_entropy, F.binary_cross_entropy_with_logits, F.huber_loss):
        exact, mine = FRACTIONS.double().requires_grad_(), FRACTIONS.clone().requires_grad_()
        meant, found = loss(exact, BINARY.double()), loss(mine, target)
        meant.backward()
        found.backward()
        assert abs(decrypted(found) - meant.detach()) < 1e-3
        assert (decrypted(mine.grad) - exact.grad).abs().max() < 1e-3


def test_probabilities_of_zero_and_one_have_a_loss(cast):
    parties, provider = cast
    x = encrypted(torch.tensor([0.0, 1.0, 0.0, 1.0]), parties[:2], provider).requires_grad_()
    losses = F.binary_cross_entropy(x, torch.tensor([0.0, 1.0, 1.0, 0.0]), reduction="none")
    losses.sum().backward()
    # A certain and right prediction has loss 0; a certain and wrong one has the loss of one unit.
    assert torch.allclose(decrypted(losses), torch.tensor([0.0, 0.0, 11.09, 11.09]), atol=0.01)
    assert decrypted(x.grad).abs().max() == 0


def test_targets_that_do_not_fit_are_refused(cast):
    parties, provider = cast
    x = encrypted(X, parties[:2], provider)
    with pytest.raises(IndexError, match="there are 4 classes"):
        F.nll_loss(x, torch.tensor([0, 1, 2, 3, 4, 0]))
    with pytest.raises(ValueError, match="nll_loss has no mean"):
        F.nll_loss(x, torch.full((6,), -100))
    assert decrypted(F.nll_loss(x, torch.full((6,), -100), reduction="sum")) == 0
    with pytest.raises((ValueError, RuntimeError)):
        F.nll_loss(x, CLASSES[:5])
    with pytest.raises(UnsupportedOperationError, match="multilabel_soft_margin_loss"):
        F.multilabel_margin_loss(x, torch.tensor([[3, 0, -1, 1]] * 6))
    with pytest.raises(UnsupportedOperationError):
        F.cross_entropy(
            x, encrypted(CLASSES, parties[:2], provider), weight=WEIGHT, label_smoothing=0.1, reduction="mean"
        )


def test_targets_stay_private(cast):
    """A private target is compared with all classes: nothing of it is opened, and the gradient is shared."""
    parties, provider = cast
    x = encrypted(X, parties[:2], provider).requires_grad_()
    loss = F.nll_loss(x, encrypted(CLASSES, parties[:2], provider))
    loss.backward()
    assert loss.child.is_shared
    assert x.grad.child.is_shared
    assert isinstance(x.grad.child, sy.FixedPrecisionTensor)


@pytest.mark.parametrize("protocol", ["beaver", "snn", "fss"])
def test_gradients_of_losses_need_no_comparisons_again(protocol, hook, make_worker):
    """Bits of the forward pass are kept by all protocols; a gradient of one takes no round."""
    *parties, dealer = (make_worker(name) for name in ("alice", "bob", "carol"))
    options = {"crypto_provider": dealer, "protocol": protocol}
    numbers = X.fix_prec(precision_fractional=16, base=2)
    targets, labels = (
        each.fix_prec(precision_fractional=16, base=2).share(*parties, **options) for each in (Y, BINARY)
    )
    for loss, most in (
        (lambda x: F.huber_loss(x, targets, reduction="sum"), 1),
        (lambda x: F.smooth_l1_loss(x, targets, reduction="sum"), 1),
        (lambda x: F.smooth_l1_loss(x, targets, beta=0.3), 1),
        (lambda x: F.multi_margin_loss(x, CLASSES, p=2, reduction="sum"), 3),
        (lambda x: F.binary_cross_entropy_with_logits(x, labels, reduction="sum"), 9),
        (lambda x: F.binary_cross_entropy_with_logits(x, BINARY, reduction="sum"), 8),
    ):
        made = loss(numbers.share(*parties, **options, requires_grad=True))
        with sy.mpc.count() as counted:
            made.backward()
        assert counted.rounds <= most


@pytest.mark.parametrize("loss", [F.huber_loss, F.smooth_l1_loss])
def test_second_derivatives_of_huber_losses(loss, cast):
    """The gradient is the distance within the bound, and its own derivative is 1 there and 0 beyond."""
    parties, provider = cast
    far_and_near = torch.tensor([-3.0, -0.5, 0.25, 2.0])
    x = encrypted(far_and_near, parties[:2], provider).requires_grad_()
    (gradient,) = torch.autograd.grad(loss(x, torch.zeros(4), reduction="sum"), x, create_graph=True)
    gradient.sum().backward()
    assert torch.allclose(gradient.detach().get().float_prec(), far_and_near.clamp(-1, 1), atol=1e-3)
    assert torch.allclose(x.grad.get().float_prec(), torch.tensor([0.0, 1.0, 1.0, 0.0]), atol=1e-3)
