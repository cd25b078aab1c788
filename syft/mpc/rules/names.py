"""Public names of ATen operations: F.softmax for aten._softmax."""

from __future__ import annotations

import torch
import torch.nn.functional as F

# Names that the rules below do not find.
_NAMES = {
    "_softmax": "F.softmax",
    "_log_softmax": "F.log_softmax",
    "native_layer_norm": "F.layer_norm",
    "native_group_norm": "F.group_norm",
    "native_batch_norm": "F.batch_norm",
    "_native_batch_norm_legit": "F.batch_norm",
    "_native_batch_norm_legit_no_training": "F.batch_norm",
    "native_dropout": "F.dropout",
    "convolution": "convolution",
    "_unique2": "torch.unique",
    "_trilinear": "F.bilinear",
    "_cdist_forward": "torch.cdist",
    "_embedding_bag": "F.embedding_bag",
    "_embedding_bag_forward_only": "F.embedding_bag",
    "linalg_vector_norm": "torch.norm",
    "_linalg_svd": "torch.linalg.svd",
    "_linalg_det": "torch.linalg.det",
    "_linalg_eigh": "torch.linalg.eigh",
    "_linalg_slogdet": "torch.linalg.slogdet",
    "_linalg_solve_ex": "torch.linalg.solve",
    "linalg_inv_ex": "torch.linalg.inv",
    "linalg_cholesky_ex": "torch.linalg.cholesky",
    "_local_scalar_dense": "tensor.item()",
    "nll_loss_forward": "F.nll_loss",
    "nll_loss2d_forward": "F.nll_loss",
    "_ctc_loss": "F.ctc_loss",
    "_fft_r2c": "torch.fft",
    "_fft_c2c": "torch.fft",
    "_fft_c2r": "torch.fft",
    "_thnn_fused_lstm_cell": "torch.lstm_cell",
    "_to_copy": "tensor.to",
    "max_pool2d_with_indices": "F.max_pool2d",
    "max_pool3d_with_indices": "F.max_pool3d",
    "log_sigmoid_forward": "F.logsigmoid",
    "_adaptive_avg_pool2d": "F.adaptive_avg_pool2d",
    "_adaptive_avg_pool3d": "F.adaptive_avg_pool3d",
}


def public_name(function: object) -> str:
    """Return the public name of an ATen operation."""
    if not isinstance(function, torch._ops.OpOverload):
        return str(function)
    return _public_name(function.overloadpacket.__name__)


def _public_name(name: str) -> str:
    if name in _NAMES:
        return _NAMES[name]
    if name.endswith("_backward") and name != "_backward":
        return f"The gradient of {_public_name(name.removesuffix('_backward'))}"
    bare = name.strip("_")
    for candidate in (name, name.removeprefix("_"), bare):
        if candidate.startswith(("linalg_", "fft_", "special_")):
            group, _, rest = candidate.partition("_")
            if hasattr(getattr(torch, group), rest):
                return f"torch.{group}.{rest}"
        for owner, prefix in ((torch, "torch"), (F, "F"), (torch.Tensor, "tensor")):
            if hasattr(owner, candidate):
                return f"{prefix}.{candidate}"
    return f"aten.{name}"
