"""Layers on encrypted tensors: results, gradients and statistics, compared with float64 torch."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import syft as sy
from syft.exceptions import SyftError, UnsupportedOperationError
from syft.mpc.runtime.protocol_registry import PROTOCOLS
from tests.helpers.mpc.layers import LAYERS, check_layer
from tests.helpers.mpc.protocols import EDGES, cast_of, run
from tests.helpers.mpc.rows import FORMATS, decrypted, encrypted


@pytest.fixture(scope="module")
def cast():
    """Three parties and a crypto provider, used by all tests; they must be empty at the end."""
    yield from cast_of("layers", 3)


@pytest.fixture(autouse=True)
def hooked(hook):
    return hook


@pytest.mark.parametrize("name", LAYERS)
def test_private_model_on_private_data(name, cast):
    parties, provider = cast
    check_layer(name, parties[:2], provider)


@pytest.mark.parametrize("name", LAYERS)
def test_private_model_on_private_data_with_decimals(name, cast):
    parties, provider = cast
    check_layer(name, parties[:2], provider, form="10^-3")


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", LAYERS)
def test_encoded_alone(name, form):
    check_layer(name, form=form)


WEIGHTED = [
    "Conv1d", "Conv2d", "Conv2d depthwise", "ConvTranspose2d", "BatchNorm2d eval", "LayerNorm", "GroupNorm", "RMSNorm",
    "PReLU",
]  # fmt: skip


@pytest.mark.parametrize("name", WEIGHTED)
def test_public_model_on_private_data(name, cast):
    parties, provider = cast
    check_layer(name, parties[:2], provider, model=False)


@pytest.mark.parametrize("name", [*WEIGHTED, "BatchNorm1d"])
def test_private_model_on_public_data(name, cast):
    parties, provider = cast
    check_layer(name, parties[:2], provider, data=False)


@pytest.mark.parametrize(
    "name", ["Conv2d", "ConvTranspose1d", "MaxPool2d options", "BatchNorm2d", "LayerNorm", "ReLU6"]
)
def test_three_parties_with_decimals(name, cast):
    parties, provider = cast
    check_layer(name, parties, provider, form="10^-3")


# Any options ----------------------------------------------------------------------------------------------------------


def _agree(call, tensors, private, parties, provider):
    """Compare a call and its gradients on encrypted tensors with float64."""
    plain = [tensor.double().requires_grad_() for tensor in tensors]
    meant = call(*plain)
    torch.manual_seed(0)
    weights = (torch.randn(meant.shape) * 4).round() / 4
    (meant * weights).sum().backward()
    shared = [encrypted(t, parties, provider, "2^-16").requires_grad_() if p else t for t, p in zip(tensors, private, strict=True)]  # fmt: skip
    made = call(*shared)
    (made * weights).sum().backward()
    found = [(made.detach(), meant)] + [(s.grad, p.grad) for s, p, own in zip(shared, plain, private, strict=True) if own]  # fmt: skip
    for one, other in found:
        got = decrypted(one.copy() if one.child.is_shared else one)
        assert got.shape == other.shape
        assert torch.allclose(got, other, atol=3e-4, rtol=1e-4)


def _quarters(*shape):
    return (torch.randn(shape) * 4).round() / 4


def _sizes(draw, dims, low, high):
    return [draw(st.integers(low, high)) for _ in range(dims)]


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_any_convolution(cast, data):
    parties, provider = cast
    dims, groups, transposed = data.draw(st.sampled_from([1, 2, 2, 3])), data.draw(st.integers(1, 3)), data.draw(st.booleans())  # fmt: skip
    kernel, stride, dilation = (_sizes(data.draw, dims, 1, high) for high in (3, 3, 2))
    padding, sizes = _sizes(data.draw, dims, 0, 2), _sizes(data.draw, dims, 5, 6)
    inner, outer = groups * data.draw(st.integers(1, 2)), groups * data.draw(st.integers(1, 2))
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    shape = (outer, inner // groups, *kernel)
    if transposed:
        options["output_padding"] = [data.draw(st.integers(0, max(s, d) - 1)) for s, d in zip(stride, dilation, strict=True)]  # fmt: skip
        shape = (inner, outer // groups, *kernel)
    function = getattr(F, f"conv_transpose{dims}d" if transposed else f"conv{dims}d")
    private = data.draw(st.sampled_from([(True, True, True), (True, False, False), (False, True, True)]))
    tensors = [_quarters(2, inner, *sizes), _quarters(*shape), _quarters(outer)]
    _agree(lambda x, w, b: function(x, w, b, **options), tensors, private, parties[:2], provider)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_any_pool(cast, data):
    parties, provider = cast
    dims, kind = data.draw(st.sampled_from([1, 2, 2, 3])), data.draw(st.sampled_from(["max", "avg", "adaptive"]))
    sizes = _sizes(data.draw, dims, 4, 6)
    x = torch.randperm(2 * torch.Size(sizes).numel()).view(1, 2, *sizes) / 4  # no ties
    if kind == "adaptive":
        name, args = data.draw(st.sampled_from(["adaptive_avg_pool", "adaptive_max_pool"])), {"output_size": _sizes(data.draw, dims, 1, 5)}  # fmt: skip
    else:
        kernel, stride = _sizes(data.draw, dims, 1, 3), _sizes(data.draw, dims, 1, 3)
        name, padding = f"{kind}_pool", [data.draw(st.integers(0, size // 2)) for size in kernel]
        args = {"kernel_size": kernel, "stride": stride, "padding": padding, "ceil_mode": data.draw(st.booleans())}
        if kind == "avg":
            args["count_include_pad"] = data.draw(st.booleans())
        else:
            args["dilation"] = _sizes(data.draw, dims, 1, 2)
    function = getattr(F, f"{name}{dims}d")
    try:
        function(x, **args)
    except RuntimeError:
        with pytest.raises(RuntimeError):
            function(encrypted(x, parties[:2], provider), **args)
        return
    _agree(lambda x: function(x, **args), [x], [True], parties[:2], provider)


# Bits that are found once ---------------------------------------------------------------------------------------------

# Rounds on the way there, and on the way back.
ROUNDS = {
    "relu": (lambda x: x.relu(), 7, 1),
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.25), 8, 2),
    "relu6": (lambda x: F.relu6(x), 7, 1),
    "clamp": (lambda x: x.clamp(-1, 1), 7, 2),
    "clamp(min=)": (lambda x: x.clamp(min=-1), 7, 1),
    "abs": (lambda x: x.abs(), 7, 1),
    "maximum": (lambda x: torch.maximum(x, x.detach() * 2), 7, 3),
    "threshold": (lambda x: F.threshold(x, 0.5, 2.0), 7, 1),
    "softshrink": (lambda x: F.softshrink(x), 7, 1),
    "max_pool": (lambda x: F.max_pool2d(x.view(1, 1, 4, 3), (2, 3)), 21, 3),
}


@pytest.mark.parametrize("name", ROUNDS)
def test_a_gradient_does_not_compare_again(name, cast):
    parties, provider = cast
    call, there, back = ROUNDS[name]
    x = encrypted(torch.arange(-6.0, 6.0), parties[:2], provider, "2^-16").requires_grad_()
    with sy.mpc.count() as counted:
        made = call(x)
    assert counted.rounds == there
    grad = encrypted(torch.ones(made.shape), parties[:2], provider, "2^-16")
    with sy.mpc.count() as counted:
        torch.autograd.grad(made, x, grad)
    assert counted.rounds == back


@pytest.mark.parametrize("protocol", ["snn", "fss"])
@pytest.mark.parametrize("name", ROUNDS)
def test_gradients_with_other_protocols(name, protocol, cast):
    parties, provider = cast
    call, _, _ = ROUNDS[name]
    plain = torch.arange(-6.0, 6.0, dtype=torch.float64, requires_grad=True)
    (call(plain) * 3).sum().backward()
    x = encrypted(plain.detach(), parties[:2], provider, protocol=protocol).requires_grad_()
    (call(x) * 3).sum().backward()
    assert torch.allclose(decrypted(x.grad), plain.grad, atol=2e-3)


def test_cached_facts_are_dropped_when_values_change(cast):
    parties, provider = cast
    x = encrypted(torch.tensor([-1.0, 0.0, 2.0]), parties[:2], provider).requires_grad_()
    y = x.relu()
    same = y.detach()
    assert decrypted(same > 0).tolist() == [0, 0, 1]
    same.sub_(torch.tensor([-1.0, 0.0, 5.0]))  # a view of y, so both change
    assert decrypted(same > 0).tolist() == [1, 0, 0]
    assert decrypted(y.detach() > 0).tolist() == [1, 0, 0]
    bound = encrypted(torch.zeros(3), parties[:2], provider)
    torch.maximum(x, bound)
    bound += 3
    assert decrypted(x.detach() > bound).tolist() == [0, 0, 0]
    with torch.no_grad():
        x.add_(2)
    assert decrypted(x.detach() > 0).tolist() == [1, 1, 1]


def test_no_facts_are_cached_without_gradients(cast):
    parties, provider = cast
    x = encrypted(torch.tensor([-1.0, 2.0]), parties[:2], provider)
    assert x.relu().child.facts is None
    x.requires_grad_()
    with torch.no_grad():
        assert x.relu().child.facts is None
    assert x.relu().child.facts


@pytest.mark.parametrize("name", ["relu_", "leaky_relu_", "hardtanh_", "elu_"])
def test_gradients_in_place(name, cast):
    parties, provider = cast
    values = torch.tensor([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0])
    plain = values.double().requires_grad_()
    (getattr(F, name)(plain * 1) * 3).sum().backward()
    x = encrypted(values, parties[:2], provider, "2^-16").requires_grad_()
    (getattr(F, name)(x * 1) * 3).sum().backward()
    assert torch.allclose(decrypted(x.grad), plain.grad, atol=1e-4)


# Statistics -----------------------------------------------------------------------------------------------------------


def _private(module, parties, provider):
    module.fix_precision(base=2, precision_fractional=16)
    return module.share(*parties, crypto_provider=provider)


def test_plain_running_statistics_of_private_data_are_refused(cast):
    parties, provider = cast
    module, x = nn.BatchNorm1d(2), encrypted(torch.ones(3, 2), parties[:2], provider)
    with pytest.raises(SyftError, match=r"module.fix_precision\(\).share\(...\) encrypts its buffers too"):
        module(x)
    assert decrypted(module.eval()(x)).shape == (3, 2)


def test_private_statistics_are_inverted_once(cast):
    parties, provider = cast
    torch.manual_seed(0)
    module, data = nn.BatchNorm1d(2), torch.randn(5, 2)
    plain = nn.BatchNorm1d(2).double()
    _private(module, parties[:2], provider)
    x = encrypted(data, parties[:2], provider, "2^-16")
    rounds = []
    for step in range(2):
        module.train(), plain.train()
        module(x), plain(data.double())
        module.eval(), plain.eval()
        for _ in range(2):
            with sy.mpc.count() as counted, torch.no_grad():
                made = module(x)
            rounds.append(counted.rounds)
            assert torch.allclose(decrypted(made), plain(data.double()), atol=1e-3), step
    assert rounds[0] == rounds[2] > rounds[1] == rounds[3] == 2
    with torch.no_grad():
        module.weight.mul_(2), plain.weight.mul_(2)
        assert torch.allclose(decrypted(module(x)), plain(data.double()), atol=1e-3)
    assert type(module.num_batches_tracked) is torch.Tensor
    assert module.num_batches_tracked == 2


def test_numbers_of_any_size_are_normalised(cast):
    parties, provider = cast
    torch.manual_seed(0)
    data = torch.randn(6, 3) * torch.tensor([0.02, 1.0, 300.0]) + torch.tensor([0.0, 50.0, -200.0])
    meant = F.batch_norm(data.double(), None, None, training=True)
    found = F.batch_norm(encrypted(data, parties[:2], provider, "2^-16"), None, None, training=True)
    assert torch.allclose(decrypted(found), meant, atol=3e-3)
    small = torch.tensor([[0.02, -0.01, 0.005], [0.0, 0.0, 0.0]])
    found = F.rms_norm(encrypted(small, parties[:2], provider, "2^-16"), (3,))
    assert torch.allclose(decrypted(found), F.rms_norm(small.double(), (3,)), atol=5e-3)
    same = F.layer_norm(encrypted(torch.full((2, 4), 2.5), parties[:2], provider, "2^-16"), (4,))
    assert decrypted(same).abs().max() < 1e-2  # a variance of nothing


COMPOSED = {
    "normalize": (lambda x, y: F.normalize(x), (2, 3), (1,)),
    "normalize(dim=0)": (lambda x, y: F.normalize(x, dim=0), (2, 3), (1,)),
    "normalize(p=1)": (lambda x, y: F.normalize(x, p=1), (2, 3), (1,)),
    "normalize(all)": (lambda x, y: F.normalize(x, dim=(0, 1)), (2, 3), (1,)),
    "cosine_similarity": (lambda x, y: F.cosine_similarity(x, y), (2, 3), (2, 3)),
    "cosine_similarity(dim=-2)": (lambda x, y: F.cosine_similarity(x, y, dim=-2), (3, 2), (1, 2)),
    "rms_norm": (lambda x, y: F.rms_norm(x, (2, 3), y), (2, 2, 3), (2, 3)),
    "bilinear": (lambda x, y: F.bilinear(x, x, y), (2, 3), (2, 3, 3)),
    "weight_norm": (lambda x, y: torch._weight_norm(x, y, 1), (2, 3, 2), (1, 3, 1)),
}


@pytest.mark.parametrize("private", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("name", COMPOSED)
def test_functions_with_their_own_composition(name, private, cast):
    parties, provider = cast
    call, *shapes = COMPOSED[name]
    torch.manual_seed(0)
    tensors = [_quarters(*shape) + 0.125 for shape in shapes]
    _agree(call, tensors, private if shapes[1] != (1,) else (True, False), parties[:2], provider)


# Tables ---------------------------------------------------------------------------------------------------------------

TABLE = torch.arange(15.0).view(5, 3) / 4 - 1
AT = torch.tensor([[1, 4], [0, 1]])
TABLES = {
    "embedding": lambda w, at: F.embedding(at, w),
    "padding": lambda w, at: F.embedding(at, w, padding_idx=1),
    "bag of sums": lambda w, at: F.embedding_bag(at, w, mode="sum"),
    "bag of means": lambda w, at: F.embedding_bag(at, w),
    "gather": lambda w, at: w.gather(0, at),
    "index": lambda w, at: w[at],
}


@pytest.mark.parametrize("private", ["table", "whole index", "encoded index"])
@pytest.mark.parametrize("name", TABLES)
def test_gradients_of_tables(name, private, cast):
    parties, provider = cast
    plain = TABLE.double().requires_grad_()
    meant = TABLES[name](plain, AT)
    scales = torch.arange(1.0, meant.numel() + 1).view(meant.shape)
    (meant * scales).sum().backward()
    at = AT.share(*parties[:2], crypto_provider=provider) if private == "whole index" else AT
    at = encrypted(AT, parties[:2], provider) if private == "encoded index" else at
    w = encrypted(TABLE, parties[:2], provider).requires_grad_()
    with sy.mpc.count() as counted:
        made = TABLES[name](w, at)
        (made * scales).sum().backward()
    assert torch.allclose(decrypted(made.detach()), meant, atol=2e-3)
    assert torch.allclose(decrypted(w.grad), plain.grad, atol=5e-3)
    assert counted.rounds <= (2 if private == "table" else 11)  # one comparison at most


def test_options_of_tables(cast):
    parties, provider = cast
    w, flat, offsets = encrypted(TABLE, parties[:2], provider), AT.reshape(-1), torch.tensor([0, 1, 1])
    for options in ({"padding_idx": 1}, {"include_last_offset": True}, {"mode": "sum", "per_sample_weights": torch.tensor([1.0, 2.0, 0.5, 0.25])}):  # fmt: skip
        meant = F.embedding_bag(flat, TABLE, offsets, **options)
        found = decrypted(F.embedding_bag(flat, w, offsets, **options))
        assert torch.allclose(found, meant.double(), atol=2e-3)
    with pytest.raises(UnsupportedOperationError, match="mode='max'"):
        F.embedding_bag(AT, w, mode="max")


def test_one_hot(cast):
    parties, provider = cast
    whole = AT.share(*parties[:2], crypto_provider=provider)
    assert torch.equal(F.one_hot(whole, 5).get(), F.one_hot(AT, 5))
    encoded = encrypted(AT, parties[:2], provider)
    assert torch.equal(decrypted(F.one_hot(encoded, num_classes=6)), F.one_hot(AT, 6).double())
    with pytest.raises(UnsupportedOperationError, match="pass num_classes"):
        F.one_hot(whole)


# Random operations -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [nn.Dropout, nn.Dropout1d, nn.AlphaDropout])
def test_dropout(make, cast):
    parties, provider = cast
    data = torch.arange(1.0, 25.0).view(2, 3, 4)
    x = encrypted(data, parties[:2], provider).requires_grad_()
    torch.manual_seed(4)
    made = make(0.5)(x)
    made.sum().backward()
    found, grad = decrypted(made.detach()), decrypted(x.grad)
    kept = grad != 0
    assert 0 < kept.sum() < kept.numel()
    if make is nn.AlphaDropout:
        assert found[kept].std() > 0 and found[~kept].std() < 2e-3
        return
    assert torch.equal(found, data.double() * 2 * kept)
    assert torch.equal(grad, 2.0 * kept)
    if make is nn.Dropout1d:
        assert torch.equal(kept, kept.all(2, keepdim=True).expand(2, 3, 4))
    assert torch.equal(decrypted(make(0.5).eval()(x.detach())), data.double())


def test_rrelu_in_training_is_refused(cast):
    parties, provider = cast
    with pytest.raises(UnsupportedOperationError, match="rrelu in training"):
        nn.RReLU()(encrypted(torch.ones(2), parties[:2], provider))


# The protocols below --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [("gt",), ("ge",), ("ge", "gt"), ("gt", "ge")])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_relu_returns_bits_of_its_comparison(count, bits):
    x = EDGES.view(1, -1)
    made, *found = run(PROTOCOLS["relu"].function, count, x, bits=bits)
    assert torch.equal(made, x.clamp(min=0))
    for name, bit in zip(bits, found, strict=True):
        assert torch.equal(bit, (x > 0 if name == "gt" else x >= 0).long())
    empty = run(PROTOCOLS["relu"].function, count, x[:0], bits=bits)
    assert [tuple(part.shape) for part in empty] == [(0, EDGES.numel())] * (1 + len(bits))


@pytest.mark.parametrize("size", range(1, 8))
def test_the_gradient_of_a_maximum(size):
    torch.manual_seed(size)
    x, grad = torch.randint(-3, 4, (5, size, 2)), torch.randint(-9, 10, (5, 2))
    made, path = run(PROTOCOLS["extreme_path"].function, 3, x, dim=1)
    back = run(PROTOCOLS["path_back"].function, 3, grad, path, size)
    first = (x == x.amax(1, True)).long().argmax(1)
    assert torch.equal(made, x.amax(1))
    assert torch.equal(back.movedim(0, 1), F.one_hot(first, size).movedim(-1, 1) * grad.unsqueeze(1))


@pytest.mark.parametrize("shared", [False, True])
def test_an_empty_batch_of_images(shared, cast):
    parties, provider = cast
    who = (parties[:2], provider) if shared else ()
    convolutions = (nn.Conv2d(2, 4, 3, groups=2), nn.ConvTranspose2d(2, 3, 2))
    for module in (*convolutions, nn.MaxPool2d(2), nn.AvgPool2d(2), nn.ReLU6()):
        meant = module(torch.zeros(0, 2, 4, 4)).shape
        module.fix_precision()
        if shared:
            module.share(*parties[:2], crypto_provider=provider)
        x = encrypted(torch.zeros(0, 2, 4, 4), *who).requires_grad_()
        made = module(x)
        made.sum().backward()
        assert decrypted(made.detach()).shape == meant
        for tensor in (x, *module.parameters()):
            grad = decrypted(tensor.grad)
            assert grad.shape == tensor.shape
            assert not grad.any()
