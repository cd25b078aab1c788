"""The torch calls a worker never runs for a peer, each with the reason why.

The candidates are the calls listed by ``torch.overrides.get_testing_overrides()``, named on the wire by
``torch.overrides.resolve_name``. A candidate that is not in :data:`REFUSED` is allowed. The table is plain
data, so that what a worker will and will not do can be read in one sitting.

Note that one function can carry several names in torch and has a single one on the wire: ``torch.mm`` travels
as ``torch.spmm`` and ``torch.conv2d`` as ``torch.nn.functional.conv2d``, so neither of these is refused.

42 candidates have no wire name at all and therefore cannot be asked for: ``segment_reduce``,
``_assert_async``, ``_functional_assert_async``, ``_native_batch_norm_legit``, ``_fused_rms_norm``,
``_rowwise_prune``, ``_sym_acos`` and its eight siblings, ``_wrapped_linear_prepack``,
``_wrapped_quantized_linear_prepacked``, ``_fw_primal_copy``, ``_make_dual_copy``, ``_conj_copy``,
``_neg_view_copy``, ``_sparse_broadcast_to_copy``, ``_reshape_alias_copy``, ``_indices_copy``,
``_values_copy``, and the seventeen functions of ``torch.distributed`` (``broadcast`` to ``recv``).
"""

from __future__ import annotations

CODE = "code"
MEMORY = "memory"
UNCHECKED = "unchecked"
PICKLE = "pickle"
LOCAL = "local"
DEVICE = "device"
SPARSE = "sparse"
QUANTIZED = "quantized"
NESTED = "nested"
VENDOR = "vendor"
SYMBOLIC = "symbolic"
INTERNAL = "internal"
UNTESTED = "untested"

#: What each reason means, in one sentence.
REASONS: dict[str, str] = {
    CODE: "It takes a callable to run on the worker, or hands out callables that live there.",
    MEMORY: "It hands out or shares raw memory of the worker, or memory that nobody has written to yet.",
    UNCHECKED: "It reads or writes beyond malformed arguments, which exposes the worker's memory.",
    PICKLE: "It takes an object apart for pickling or saving. Fetch it first with .get(), then save what that returns.",
    LOCAL: "Its result is a Python object that only makes sense in the process that made it.",
    DEVICE: "It moves data to one particular kind of accelerator, or waits for it; `to` does the moving.",
    SPARSE: "It makes, needs or describes a sparse tensor, and only dense tensors travel.",
    QUANTIZED: "It makes, needs or describes a quantized tensor, and only plain tensors travel.",
    NESTED: "It makes, needs or describes a nested or opaque (mkldnn) tensor, and only plain tensors travel.",
    VENDOR: "It belongs to one vendor's backend; the public function covers it on every worker.",
    SYMBOLIC: "It computes with the symbolic sizes of the compiler, not with tensors.",
    INTERNAL: "It is a part of torch's own machinery that has no public use.",
    UNTESTED: "There is no way to call it with sample arguments, so it could not be tested.",
}

#: Wire name to reason, for every call that is refused.
REFUSED: dict[str, str] = {}


def _group(reason: str, prefix: str, names: str) -> None:
    """Enter the whitespace-separated names, each below the prefix, under one reason."""
    for name in names.split():
        REFUSED[f"{prefix}.{name}"] = reason


_group(
    CODE,
    "torch.Tensor",
    """
    apply_ map_ map2_
    register_hook register_post_accumulate_grad_hook
    _backward_hooks.__get__ _post_accumulate_grad_hooks.__get__
    """,
)

_group(
    MEMORY,
    "torch.Tensor",
    """
    data_ptr const_data_ptr storage untyped_storage storage_type _cdata.__get__
    __dlpack__ __dlpack_device__ __cuda_array_interface__.__get__
    share_memory_ is_shared
    resize resize_ resize_as resize_as_
    _base.__get__ slice_inverse
    """,
)
# The samplers leave their result unwritten when the number for the mode is unknown; grid_sample checks it.
_group(MEMORY, "torch", "slice_inverse grid_sampler grid_sampler_2d grid_sampler_3d")

# Not compared: the sizes of the statistics (batch norms) and of the pivots (lu_unpack). Not bounded: the labels
# (ctc_loss), offsets below zero (embedding_bag) and pivots below zero (ldl_solve, which even writes there).
_group(UNCHECKED, "torch", "native_batch_norm batch_norm_update_stats ctc_loss embedding_bag lu_unpack")
_group(UNCHECKED, "torch.nn.functional", "ctc_loss embedding_bag")
_group(UNCHECKED, "torch.linalg", "ldl_solve")

_group(
    PICKLE,
    "torch.Tensor",
    "__deepcopy__ __reduce_ex__ __setstate__ _clear_non_serializable_cached_data",
)

_group(
    LOCAL,
    "torch.Tensor",
    """
    __array__ __array_wrap__
    __format__ __repr__
    grad_fn.__get__ _grad_fn.__get__
    index
    """,
)

_group(DEVICE, "torch.Tensor", "cuda xpu ipu mtia pin_memory is_pinned record_stream")

_group(
    SPARSE,
    "torch.Tensor",
    """
    to_sparse to_dense _to_dense
    sparse_dim dense_dim _dimI _dimV _nnz
    indices _indices values _values coalesce is_coalesced _coalesced_
    crow_indices col_indices ccol_indices row_indices
    sparse_mask _sparse_mask_projection sparse_resize_ sparse_resize_and_clear_ resize_as_sparse_
    smm sspaddmm
    """,
)
_group(
    SPARSE,
    "torch",
    """
    hspmm smm sspaddmm native_norm
    indices_copy values_copy crow_indices_copy col_indices_copy ccol_indices_copy row_indices_copy
    """,
)

_group(
    QUANTIZED,
    "torch.Tensor",
    """
    dequantize int_repr qscheme
    q_scale q_zero_point q_per_channel_axis q_per_channel_scales q_per_channel_zero_points
    """,
)
_group(
    QUANTIZED,
    "torch",
    """
    dequantize int_repr choose_qparams_optimized
    q_scale q_zero_point q_per_channel_axis q_per_channel_scales q_per_channel_zero_points
    quantize_per_channel quantize_per_tensor quantize_per_tensor_dynamic
    quantized_batch_norm quantized_max_pool1d quantized_max_pool2d quantized_max_pool3d
    quantized_gru_cell quantized_lstm_cell quantized_rnn_relu_cell quantized_rnn_tanh_cell
    fused_moving_avg_obs_fake_quant
    """,
)

_group(
    NESTED,
    "torch.Tensor",
    "to_mkldnn _nested_tensor_size _nested_tensor_strides _nested_tensor_storage_offsets",
)

_group(
    VENDOR,
    "torch",
    """
    batch_norm_stats batch_norm_elemt batch_norm_backward_reduce batch_norm_backward_elemt
    batch_norm_gather_stats batch_norm_gather_stats_with_counts
    fbgemm_linear_fp16_weight fbgemm_linear_fp16_weight_fp32_activation
    fbgemm_linear_int8_weight fbgemm_linear_int8_weight_fp32_activation
    fbgemm_linear_quantize_weight fbgemm_pack_gemm_matrix_fp16 fbgemm_pack_quantized_matrix
    miopen_batch_norm miopen_rnn miopen_convolution miopen_convolution_add_relu miopen_convolution_relu
    miopen_convolution_transpose miopen_depthwise_convolution
    """,
)

_group(SYMBOLIC, "torch", "sym_float sym_ite sym_max sym_min sym_not sym_sqrt sym_sum")
_group(SYMBOLIC, "torch.nn.functional", "_sym_int")

_group(
    INTERNAL,
    "torch.Tensor",
    """
    _autocast_to_full_precision _autocast_to_reduced_precision
    _grad.__get__ _is_view _version.__get__
    name.__get__ volatile.__get__
    """,
)

# Ways past the bounds of a view, or calls that hostile numbers crash or hang (found by probing torch 2.13).
_group(MEMORY, "torch.Tensor", "as_strided as_strided_ as_strided_scatter addbmm_")
_group(MEMORY, "torch", "as_strided_copy as_strided_scatter")
_group(UNCHECKED, "torch.special", "laguerre_polynomial_l legendre_polynomial_p")
