"""Attention on encrypted tensors: composed of products and softmax, with public or private masks.

torch uses one kernel for it, and masks by minus infinity, which fixed precision cannot represent. Elements that a
public mask excludes get a weight of exactly 0. A row that excludes everything gets zeros, as in
scaled_dot_product_attention; there are no NaNs.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from syft.core.tensor import below
from syft.hook.composed import composed
from syft.mpc.rules.operands import is_link, is_minus_infinity


def _is_private(tensor: torch.Tensor) -> bool:
    return is_link(below(tensor))


def _masked(scores: Tensor, mask: Tensor) -> Tensor:
    """Apply a mask to scores: a bool mask excludes where it is true, a float mask is added."""
    if mask.dtype is torch.bool:
        return scores.masked_fill(mask, -math.inf)
    if _is_private(mask):
        return scores + mask
    left_out = is_minus_infinity(mask)
    added = mask.masked_fill(left_out, 0.0)
    if bool(added.any()):
        scores = scores + added
    return scores.masked_fill(left_out, -math.inf) if bool(left_out.any()) else scores


def _left_out(masks: list[Tensor]) -> torch.Tensor | None:
    """Return the union of what public masks exclude; None if nothing."""
    made: torch.Tensor | None = None
    for mask in masks:
        if not _is_private(mask):
            one = mask if mask.dtype is torch.bool else is_minus_infinity(mask)
            made = one if made is None else made | one
    return made if made is not None and bool(made.any()) else None


def _attended(scores: Tensor, masks: list[Tensor], dropout: float) -> Tensor:
    """Return the weights for scores [..., queries, keys]."""
    for mask in masks:
        scores = _masked(scores, mask)
    weights = torch.softmax(scores, -1)
    left_out = _left_out(masks)
    if left_out is not None:
        empty = left_out.expand(weights.shape).all(-1, keepdim=True)
        if bool(empty.any()):
            weights = weights.masked_fill(empty, 0.0)
    return F.dropout(weights, dropout, True) if dropout else weights


@composed(F.scaled_dot_product_attention)
def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    """Return softmax(query @ key^T * scale + mask) @ value."""
    if is_causal and attn_mask is not None:
        raise RuntimeError("Explicit attn_mask should not be set when is_causal=True")
    if enable_gqa:
        count = query.shape[-3]
        key = key.repeat_interleave(count // key.shape[-3], -3)
        value = value.repeat_interleave(count // value.shape[-3], -3)
    masks = []
    if is_causal:
        masks.append(torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).triu(1))
    elif attn_mask is not None:
        # In this call, true in a bool mask means "included".
        masks.append(attn_mask.logical_not() if attn_mask.dtype is torch.bool else attn_mask)
    weights = _attended(_scores(query, key, scale), masks, dropout_p)
    return torch.matmul(weights, value)


def _scores(query: Tensor, key: Tensor, scale: float | None = None) -> Tensor:
    """Return query @ key^T, scaled; scaling a public operand costs nothing."""
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    if _is_private(query) and not _is_private(key):
        return torch.matmul(query, (key * scale).transpose(-2, -1))
    return torch.matmul(query * scale, key.transpose(-2, -1))


# --- several heads -----------------------------------------------------------------------------------------------


def _packed_projections(query: Tensor, key: Tensor, value: Tensor, weight: Tensor, bias: Tensor | None) -> list[Tensor]:
    """Project with one matrix for all three; identical tensors are projected together."""
    size = query.shape[-1]
    groups = [[query, key, value]] if query is key is value else [[query], [key], [value]]
    if query is not key and key is value:
        groups = [[query], [key, value]]
    made: list[Tensor] = []
    start = 0
    for group in groups:
        width = size * len(group)
        part = None if bias is None else bias.narrow(0, start, width)
        made += F.linear(group[0], weight.narrow(0, start, width), part).chunk(len(group), -1)
        start += width
    return made


def _separate_projections(inputs: list[Tensor], weights: list[Tensor], bias: Tensor | None) -> list[Tensor]:
    """Project each with its own matrix."""
    biases = [None] * 3 if bias is None else list(bias.chunk(3))
    return [F.linear(x, weight, part) for x, weight, part in zip(inputs, weights, biases, strict=True)]


def _heads(x: Tensor, count: int) -> Tensor:
    """Return [time, batch, features] as [batch, head, time, features of a head]."""
    time, batch, size = x.shape
    return x.reshape(time, batch, count, size // count).permute(1, 2, 0, 3)


def _more(keys: list[Tensor], masks: list[Tensor], added: list[Tensor], dim: int) -> tuple[list[Tensor], list[Tensor]]:
    """Append one key and its value; masks include them."""
    longer = [torch.cat([one, more], dim) for one, more in zip(keys, added, strict=True)]
    return longer, [F.pad(mask, (0, 1)) for mask in masks]


def _masks(attn_mask: Tensor | None, padding: Tensor | None, query: Tensor, key: Tensor, heads: int) -> list[Tensor]:
    """Return masks in the shape of scores [batch, head, query, key]."""
    (time, batch), places = query.shape[:2], key.shape[0]
    masks = []
    if attn_mask is not None:
        _check_mask("attn_mask", attn_mask, (time, places), (batch * heads, time, places))
        masks.append(attn_mask if attn_mask.dim() == 2 else attn_mask.reshape(batch, heads, time, places))
    if padding is not None:
        padding = padding.unsqueeze(0) if padding.dim() == 1 else padding
        _check_mask("key_padding_mask", padding, (batch, places))
        masks.append(padding.reshape(batch, 1, 1, places))
    return masks


def _check_mask(name: str, mask: Tensor, *shapes: tuple[int, ...]) -> None:
    if tuple(mask.shape) not in shapes:
        expected = " or ".join(str(shape) for shape in shapes)
        raise RuntimeError(f"{name} must have the shape {expected}, not {tuple(mask.shape)}.")


@composed(F.multi_head_attention_forward)
def multi_head_attention_forward(
    query: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: int, num_heads: int, in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None, bias_k: Tensor | None, bias_v: Tensor | None, add_zero_attn: bool, dropout_p: float,
    out_proj_weight: Tensor, out_proj_bias: Tensor | None, training: bool = True,
    key_padding_mask: Tensor | None = None, need_weights: bool = True, attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False, q_proj_weight: Tensor | None = None, k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None, static_k: Tensor | None = None, static_v: Tensor | None = None,
    average_attn_weights: bool = True, is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Return the attention output of several heads, and their weights; the arguments are those of torch."""
    _check_heads(query.shape[-1], embed_dim_to_check, num_heads, is_causal and attn_mask is None)
    single = query.dim() == 2
    if single:
        query, key, value = _with_batch(query, key, value)
    time, batch, size = query.shape
    if in_proj_weight is not None and not use_separate_proj_weight:
        q, *keys = _packed_projections(query, key, value, in_proj_weight, in_proj_bias)
    else:
        weights = [one for one in (q_proj_weight, k_proj_weight, v_proj_weight) if one is not None]
        q, *keys = _separate_projections([query, key, value], weights, in_proj_bias)
    masks = _masks(attn_mask, key_padding_mask, query, key, num_heads)
    if bias_k is not None and bias_v is not None:
        keys, masks = _more(keys, masks, [more.expand(1, batch, size) for more in (bias_k, bias_v)], 0)
    keys = [
        _heads(one, num_heads) if given is None else given.reshape(batch, num_heads, *given.shape[1:])
        for one, given in zip(keys, (static_k, static_v), strict=True)
    ]
    if add_zero_attn:
        keys, masks = _more(keys, masks, [torch.zeros(batch, num_heads, 1, one.shape[-1]) for one in keys], 2)
    attended = _attended(_scores(_heads(q, num_heads), keys[0]), masks, dropout_p if training else 0.0)
    made = torch.matmul(attended, keys[1]).permute(2, 0, 1, 3).reshape(time, batch, size)
    made = F.linear(made, out_proj_weight, out_proj_bias)
    made = made.squeeze(1) if single else made
    if not need_weights:
        return made, None
    attended = attended.mean(1) if average_attn_weights else attended
    return made, attended.squeeze(0) if single else attended


def _check_heads(size: int, expected: int, heads: int, lacks_mask: bool) -> None:
    if size != expected or expected % heads:
        raise RuntimeError(f"There are {size} features where {expected} are expected, for {heads} heads.")
    if lacks_mask:
        raise RuntimeError("is_causal is a hint that attn_mask is causal; pass the mask too.")


def _with_batch(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Add a batch dimension of one; identical tensors stay identical."""
    expanded = {id(x): x.unsqueeze(1) for x in (query, key, value)}
    return expanded[id(query)], expanded[id(key)], expanded[id(value)]


@composed(torch._nested_tensor_from_mask_left_aligned)
def mask_left_aligned(x: Tensor, mask: Tensor) -> bool:
    """Return False, so that torch's encoder keeps padded sequences: encrypted tensors cannot be nested."""
    return False
