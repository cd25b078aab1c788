"""Attention and transformers on encrypted tensors: results and gradients, with every kind of mask."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from syft.exceptions import SyftError
from tests.helpers.mpc.agreement import BITS, DECIMALS, MIXES, check, near, opened, proxy_of, shared, total
from tests.helpers.mpc.protocols import cast_of

CAUSAL = torch.ones(4, 4, dtype=torch.bool).triu(1)
MINUS_INFINITY = torch.zeros(4, 4).masked_fill(CAUSAL, -math.inf)
PADDED = torch.tensor([[False, False, False, False], [False, False, False, True]])


@pytest.fixture(scope="module")
def cast():
    """Three parties and a crypto provider; they must be empty at the end."""
    yield from cast_of("attention", 3)


@pytest.fixture(autouse=True)
def hooked(hook):
    return hook


class Attention(nn.Module):
    """scaled_dot_product_attention with options, as a model without parameters."""

    def __init__(self, **options):
        super().__init__()
        self.options = options

    def forward(self, query, key, value):
        return F.scaled_dot_product_attention(query, key, value, **self.options)


# --- scaled_dot_product_attention -------------------------------------------------------------------------------


SETTINGS = {
    "plain": {},
    "bool mask": {"attn_mask": ~CAUSAL},
    "mask of minus infinity": {"attn_mask": MINUS_INFINITY.double()},
    "mask of numbers": {"attn_mask": torch.linspace(-2, 2, 16).view(4, 4).double()},
    "causal": {"is_causal": True},
    "scale": {"scale": 0.25},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_attention(name, cast):
    inputs = [torch.randn(2, 2, 4, 3) for _ in range(3)]
    check(Attention(**SETTINGS[name]), inputs, cast, "data")


@pytest.mark.parametrize("private", [[True, False, False], [False, True, False], [False, False, True]])
def test_attention_with_one_private_operand(private, cast):
    check(Attention(is_causal=True), [torch.randn(4, 3) for _ in range(3)], cast, "data", 3, private=private)


def test_attention_in_decimals(cast):
    inputs = [torch.randn(2, 4, 3) for _ in range(3)]
    check(Attention(is_causal=True), inputs, cast, "data", form=DECIMALS, units=12)


def test_masked_elements_have_weight_zero(cast):
    query, key = torch.randn(4, 3), torch.randn(4, 3)
    value = torch.tensor([[1.0], [2.0], [3.0], [1e6]])
    mask = torch.tensor([True, True, True, False]).expand(4, 4)
    given = [shared(x, cast[0][:2], cast[1]) for x in (query, key, value)]
    near("a result", [F.scaled_dot_product_attention(*given, attn_mask=mask)],
         [F.scaled_dot_product_attention(query, key, value, attn_mask=mask)], 1e-3)  # fmt: skip


def test_a_fully_masked_row_gives_zeros(cast):
    mask = torch.tensor([[False, False], [True, False]])
    x = torch.randn(2, 3)
    secret = shared(x, cast[0][:2], cast[1])
    made = opened(F.scaled_dot_product_attention(secret, secret, secret, attn_mask=mask))
    assert made[0].tolist() == [0, 0, 0]
    near("a result", [made], [F.scaled_dot_product_attention(x, x, x, attn_mask=mask)], 1e-3)


def test_private_masks(cast):
    x, numbers = torch.randn(4, 3), torch.linspace(-1, 1, 16).view(4, 4)
    secret, mask = shared(x, cast[0][:2], cast[1]), shared(numbers, cast[0][:2], cast[1])
    expected = F.scaled_dot_product_attention(x, x, x, attn_mask=numbers)
    near("numbers", [F.scaled_dot_product_attention(secret, secret, secret, attn_mask=mask)], [expected], 1e-3)
    scores = (secret @ secret.t()).masked_fill(mask > 0, -math.inf)
    expected = (x @ x.t()).masked_fill(numbers > 0, -math.inf)[:3].softmax(-1)
    near("a private choice", [scores.softmax(-1)[:2]], [expected[:2]], 1e-3)


def test_groups_of_queries(cast):
    query, key, value = torch.randn(1, 4, 3, 2), torch.randn(1, 2, 3, 2), torch.randn(1, 2, 3, 2)
    check(Attention(enable_gqa=True), [query, key, value], cast, "data")


def test_dropout_of_attention(cast):
    x = torch.randn(2, 8, 4)
    secret = shared(x, cast[0][:2], cast[1])
    made = opened(F.scaled_dot_product_attention(secret, secret, torch.eye(8).expand(2, 8, 8), dropout_p=0.5))
    weights = F.scaled_dot_product_attention(x, x, torch.eye(8).expand(2, 8, 8))
    kept = made > 1e-3
    assert 0.2 < float(kept.float().mean()) < 0.8
    near("what is left", [made[kept]], [2 * weights[kept]], 2e-3)


def test_infinity_elsewhere_is_refused(cast):
    secret = shared(torch.randn(2), cast[0][:2], cast[1])
    for wrong in (torch.tensor(math.inf), torch.tensor(math.nan), -math.inf):
        with pytest.raises(SyftError, match="finite|infinity"):
            secret + wrong
    with pytest.raises(SyftError, match="infinity"):
        secret * torch.tensor(-math.inf)
    del secret


def test_two_masks_are_refused(cast):
    secret = shared(torch.randn(4, 3), cast[0][:2], cast[1])
    with pytest.raises(RuntimeError, match="is_causal"):
        F.scaled_dot_product_attention(secret, secret, secret, attn_mask=~CAUSAL, is_causal=True)
    del secret


def test_attention_written_by_hand(cast):
    """The way textbooks write it: minus infinity by masked_fill, or added."""

    class ByHand(nn.Module):
        def forward(self, x):
            scores = x @ x.transpose(-2, -1) / math.sqrt(x.shape[-1])
            first = scores.masked_fill(CAUSAL, float("-inf")).softmax(-1) @ x
            second = torch.softmax(scores + MINUS_INFINITY, -1) @ x
            third = scores.masked_fill_(CAUSAL, torch.finfo(torch.float32).min).softmax(-1) @ x
            return first + second + third

    check(ByHand(), [torch.randn(2, 4, 3)], cast, "data")


# --- several heads ----------------------------------------------------------------------------------------------


def self_attention(**options):
    return lambda model, x: model(x, x, x, **options)


def cross_attention(model, x, y):
    return model(x, y, y)


@pytest.mark.parametrize("mix", MIXES)
def test_heads(mix, cast):
    check(nn.MultiheadAttention(4, 2, batch_first=True), [torch.randn(2, 4, 4)], cast, mix, call=self_attention())


HEADS = {
    "no weights": ({}, {"need_weights": False}),
    "weights of each head": ({}, {"average_attn_weights": False}),
    "no bias": ({"bias": False}, {}),
    "causal": ({}, {"attn_mask": CAUSAL, "is_causal": True, "need_weights": False}),
    "minus infinity": ({}, {"attn_mask": MINUS_INFINITY.double()}),
    "padding": ({}, {"key_padding_mask": PADDED}),
    "both masks": ({}, {"key_padding_mask": PADDED, "attn_mask": CAUSAL}),
    "mask of each head": ({}, {"attn_mask": CAUSAL.expand(4, 4, 4)}),
    "one more key": ({"add_bias_kv": True}, {"attn_mask": CAUSAL}),
    "a key of zeros": ({"add_zero_attn": True}, {"key_padding_mask": PADDED}),
}


@pytest.mark.parametrize("name", HEADS)
def test_settings_of_heads(name, cast):
    options, call = HEADS[name]
    model = nn.MultiheadAttention(4, 2, batch_first=True, **options)
    check(model, [torch.randn(2, 4, 4)], cast, "both", call=self_attention(**call))


@pytest.mark.parametrize("mix", ["data", "both"])
def test_heads_with_different_masks(mix, cast):
    check(nn.MultiheadAttention(4, 2), [torch.randn(3, 2, 4), torch.randn(4, 2, 4)], cast, mix, 3, call=cross_attention)
    model = nn.MultiheadAttention(4, 2, kdim=3, vdim=2, batch_first=True)
    check(model, [torch.randn(2, 3, 4), torch.randn(2, 4, 3), torch.randn(2, 4, 2)], cast, mix)


def test_heads_without_a_batch(cast):
    check(nn.MultiheadAttention(4, 2), [torch.randn(4, 4)], cast, "data", call=self_attention(attn_mask=CAUSAL))
    masks = {"key_padding_mask": PADDED[1], "attn_mask": CAUSAL}
    check(nn.MultiheadAttention(4, 2), [torch.randn(4, 4)], cast, "data", call=self_attention(**masks))


def test_keys_and_values_that_are_given(cast):
    def call(model, x, key, value):
        weights = [torch.linspace(-1, 1, 48).view(12, 4).to(x.dtype), torch.eye(4).to(x.dtype)]
        given = {"static_k": key, "static_v": value}
        return F.multi_head_attention_forward(
            x, x, x, 4, 2, weights[0], None, None, None, False, 0.0, weights[1], None, **given
        )

    check(nn.Identity(), [torch.randn(3, 2, 4), torch.randn(4, 5, 2), torch.randn(4, 5, 2)], cast, "data", call=call)


def test_sizes_that_do_not_fit(cast):
    secret = shared(torch.randn(3, 2, 6), cast[0][:2], cast[1])
    with pytest.raises(RuntimeError, match="6 features where 4 are expected"):
        nn.MultiheadAttention(4, 2)(secret, secret, secret)
    secret = shared(torch.randn(3, 2, 4), cast[0][:2], cast[1])
    heads = nn.MultiheadAttention(4, 2)
    with pytest.raises(RuntimeError, match=r"attn_mask must have the shape \(3, 3\) or \(4, 3, 3\), not \(2, 2\)"):
        heads(secret, secret, secret, attn_mask=torch.zeros(2, 2))
    with pytest.raises(RuntimeError, match="key_padding_mask must have the shape"):
        heads(secret, secret, secret, key_padding_mask=torch.zeros(3, 2))
    with pytest.raises(RuntimeError, match="pass the mask too"):
        F.multi_head_attention_forward(
            secret, secret, secret, 4, 2, torch.eye(12, 4), None, None, None, False, 0.0, torch.eye(4), None,
            is_causal=True,
        )  # fmt: skip
    del secret


# --- transformers -----------------------------------------------------------------------------------------------


def encoder_layer(**options):
    return nn.TransformerEncoderLayer(4, 2, 6, batch_first=True, dropout=0.0, **options)


@pytest.mark.parametrize("mix", MIXES)
def test_encoder_layer(mix, cast):
    check(encoder_layer(), [torch.randn(2, 4, 4)], cast, mix, units=150)


@pytest.mark.parametrize("options", [{"norm_first": True, "activation": "gelu"}, {"bias": False}])
def test_settings_of_an_encoder_layer(options, cast):
    model = encoder_layer(**options)
    check(model, [torch.randn(2, 4, 4)], cast, "both", 3, units=150,
          call=lambda model, x: model(x, src_mask=CAUSAL, is_causal=True))  # fmt: skip


@pytest.mark.filterwarnings("ignore:enable_nested_tensor:UserWarning")
@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("mix", ["data", "both"])
def test_encoder(mix, train, cast):
    model = nn.TransformerEncoder(encoder_layer(activation="gelu"), 2, norm=nn.LayerNorm(4)).train(train)
    x = torch.randn(2, 4, 4)
    proxy = proxy_of(model).train()  # with torch's fast path what is padded comes out as zeros
    expected = proxy(x.double(), src_key_padding_mask=PADDED)
    if mix == "both":
        shared(model, cast[0][:2], cast[1])
    with torch.set_grad_enabled(train):
        made = model(shared(x, cast[0][:2], cast[1]), src_key_padding_mask=PADDED)
    near("a result", [made], [expected], 300 * 2**-16)


def test_decoder(cast):
    layer = nn.TransformerDecoderLayer(4, 2, 6, batch_first=True, dropout=0.0)
    model = nn.TransformerDecoder(layer, 2)
    check(model, [torch.randn(2, 4, 4), torch.randn(2, 3, 4)], cast, "both", units=300,
          call=lambda model, x, memory: model(x, memory, tgt_mask=MINUS_INFINITY.to(x.dtype), tgt_is_causal=True))  # fmt: skip


@pytest.mark.filterwarnings("ignore:enable_nested_tensor:UserWarning")
def test_transformer(cast):
    model = nn.Transformer(4, 2, 1, 1, 6, dropout=0.1, batch_first=True).eval()
    source, target = torch.randn(2, 3, 4), torch.randn(2, 4, 4)
    expected = proxy_of(model)(source.double(), target.double(), tgt_mask=MINUS_INFINITY.double())
    shared(model, cast[0][:2], cast[1])
    given = [shared(x, cast[0][:2], cast[1]) for x in (source, target)]
    near("a result", [model(*given, tgt_mask=MINUS_INFINITY)], [expected], 300 * 2**-16)


def test_dropout_in_training(cast):
    model = nn.TransformerEncoderLayer(4, 2, 6, batch_first=True, dropout=0.5)
    secret = shared(torch.randn(2, 4, 4), cast[0][:2], cast[1])
    first, second = opened(model(secret)), opened(model(secret))
    assert float((first - second).abs().max()) > 0.05
    model.eval()
    first, second = opened(model(secret)), opened(model(secret))
    assert float((first - second).abs().max()) < 5e-3


# --- tokens -----------------------------------------------------------------------------------------------------


class Tokens(nn.Module):
    """Embeddings, an encoding of positions, and a layer of attention."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(5, 4)
        self.layer = encoder_layer()
        places = torch.arange(3).unsqueeze(1) / torch.tensor([1.0, 1.0, 100.0, 100.0])
        self.register_buffer("places", torch.where(torch.tensor([True, False] * 2), places.sin(), places.cos()))

    def forward(self, tokens):
        return self.layer(self.embedding(tokens) * 2 + self.places)


@pytest.mark.parametrize("mix", MIXES)
def test_private_tokens(mix, cast):
    model, tokens = Tokens().eval(), torch.tensor([[0, 4, 2], [1, 1, 3]])
    proxy = proxy_of(model)
    expected = proxy(tokens)
    total(expected).backward()
    given = tokens
    if mix != "model":
        # With a public table the format of results is that of the tokens; with a private one they can be whole numbers.
        given = tokens.float().fix_precision(**BITS) if mix == "data" else tokens
        given = given.share(*cast[0][:2], crypto_provider=cast[1])
    if mix != "data":
        shared(model, cast[0][:2], cast[1]).requires_grad_()
    made = model(given)
    near("a result", [made], [expected], 150 * 2**-16)
    total(made).backward()
    near("the gradient of the table", [model.embedding.weight.grad], [proxy.embedding.weight.grad], 300 * 2**-16)


def test_whole_tokens_need_a_format(cast):
    tokens = torch.tensor([0, 4]).share(*cast[0][:2], crypto_provider=cast[1])
    with pytest.raises(SyftError, match="Encode before sharing"):
        nn.Embedding(5, 4)(tokens)
    del tokens
