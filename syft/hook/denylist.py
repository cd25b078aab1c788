"""The torch calls a worker never runs for a peer, each with the reason why.

The candidates are the calls listed by ``torch.overrides.get_testing_overrides()``, named on the wire by
``torch.overrides.resolve_name``. A candidate that is not in :data:`REFUSED` is allowed. The table is plain
data, so that what a worker will and will not do can be read in one sitting.

Note that one function can carry several names in torch and has a single one on the wire: ``torch.mm`` travels
as ``torch.spmm`` and ``torch.conv2d`` as ``torch.nn.functional.conv2d``, so neither of these is refused.
"""

from __future__ import annotations

#: What each reason means, in one sentence.
REASONS: dict[str, str] = {
    "code": "It takes a callable to run on the worker, or hands out callables that live there.",
    "memory": "It hands out or shares raw memory of the worker, or memory that nobody has written to yet.",
    "unchecked": "It reads or writes beyond malformed arguments, which exposes the worker's memory.",
    "pickle": "It takes an object apart for pickling or saving. Fetch it first with .get(), then save the result.",
    "local": "Its result is a Python object that only makes sense in the process that made it.",
    "device": "It moves data to one particular kind of accelerator, or waits for it; `to` does the moving.",
    "sparse": "It makes, needs or describes a sparse tensor, and only dense tensors travel.",
    "quantized": "It makes, needs or describes a quantized tensor; these travel, but workers run no calls on them.",
    "nested": "It makes, needs or describes a nested or opaque (mkldnn) tensor, and only plain tensors travel.",
    "vendor": "It belongs to one vendor's backend; the public function covers it on every worker.",
    "symbolic": "It computes with the symbolic sizes of the compiler, not with tensors.",
    "internal": "It is a part of torch's own machinery that has no public use.",
}

# Reason and module or class -> the names of its refused calls.
_GROUPS: dict[tuple[str, str], str] = {
    ("code", "torch.Tensor"): """
        apply_ map_ map2_
        register_hook register_post_accumulate_grad_hook
        _backward_hooks.__get__ _post_accumulate_grad_hooks.__get__
    """,
    # The last line: ways past the bounds of a view, or calls that hostile numbers crash or hang (torch 2.13).
    ("memory", "torch.Tensor"): """
        data_ptr const_data_ptr storage untyped_storage storage_type _cdata.__get__
        __dlpack__ __dlpack_device__ __cuda_array_interface__.__get__
        share_memory_ is_shared
        resize resize_ resize_as resize_as_
        _base.__get__ slice_inverse
        as_strided as_strided_ as_strided_scatter addbmm_
    """,
    # The samplers leave their result unwritten when the number for the mode is unknown; grid_sample checks it.
    ("memory", "torch"): """
        slice_inverse grid_sampler grid_sampler_2d grid_sampler_3d
        as_strided_copy as_strided_scatter
    """,
    # Not compared: the sizes of the statistics (batch norms) and of the pivots (lu_unpack). Not bounded: the labels
    # (ctc_loss), offsets below zero (embedding_bag) and pivots below zero (ldl_solve, which even writes there).
    ("unchecked", "torch"): "native_batch_norm batch_norm_update_stats ctc_loss embedding_bag lu_unpack",
    ("unchecked", "torch.nn.functional"): "ctc_loss embedding_bag",
    ("unchecked", "torch.linalg"): "ldl_solve",
    ("unchecked", "torch.special"): "laguerre_polynomial_l legendre_polynomial_p",
    ("pickle", "torch.Tensor"): "__deepcopy__ __reduce_ex__ __setstate__ _clear_non_serializable_cached_data",
    ("local", "torch.Tensor"): "__array__ __array_wrap__ __format__ __repr__ grad_fn.__get__ _grad_fn.__get__ index",
    ("device", "torch.Tensor"): "cuda xpu ipu mtia pin_memory is_pinned record_stream",
    ("sparse", "torch.Tensor"): """
        to_sparse to_dense _to_dense
        sparse_dim dense_dim _dimI _dimV _nnz
        indices _indices values _values coalesce is_coalesced _coalesced_
        crow_indices col_indices ccol_indices row_indices
        sparse_mask _sparse_mask_projection sparse_resize_ sparse_resize_and_clear_ resize_as_sparse_
        smm sspaddmm
    """,
    ("sparse", "torch"): """
        hspmm smm sspaddmm native_norm
        indices_copy values_copy crow_indices_copy col_indices_copy ccol_indices_copy row_indices_copy
    """,
    ("quantized", "torch.Tensor"): """
        dequantize int_repr qscheme
        q_scale q_zero_point q_per_channel_axis q_per_channel_scales q_per_channel_zero_points
    """,
    ("quantized", "torch"): """
        dequantize int_repr choose_qparams_optimized
        q_scale q_zero_point q_per_channel_axis q_per_channel_scales q_per_channel_zero_points
        quantize_per_channel quantize_per_tensor quantize_per_tensor_dynamic
        quantized_batch_norm quantized_max_pool1d quantized_max_pool2d quantized_max_pool3d
        quantized_gru_cell quantized_lstm_cell quantized_rnn_relu_cell quantized_rnn_tanh_cell
        fused_moving_avg_obs_fake_quant
    """,
    ("nested", "torch.Tensor"): """
        to_mkldnn _nested_tensor_size _nested_tensor_strides _nested_tensor_storage_offsets
    """,
    ("vendor", "torch"): """
        batch_norm_stats batch_norm_elemt batch_norm_backward_reduce batch_norm_backward_elemt
        batch_norm_gather_stats batch_norm_gather_stats_with_counts
        fbgemm_linear_fp16_weight fbgemm_linear_fp16_weight_fp32_activation
        fbgemm_linear_int8_weight fbgemm_linear_int8_weight_fp32_activation
        fbgemm_linear_quantize_weight fbgemm_pack_gemm_matrix_fp16 fbgemm_pack_quantized_matrix
        miopen_batch_norm miopen_rnn miopen_convolution miopen_convolution_add_relu miopen_convolution_relu
        miopen_convolution_transpose miopen_depthwise_convolution
    """,
    ("symbolic", "torch"): "sym_float sym_ite sym_max sym_min sym_not sym_sqrt sym_sum",
    ("symbolic", "torch.nn.functional"): "_sym_int",
    ("internal", "torch.Tensor"): """
        _autocast_to_full_precision _autocast_to_reduced_precision
        _grad.__get__ _is_view _version.__get__
        name.__get__ volatile.__get__
    """,
}

#: Wire name to reason, for every call that is refused.
REFUSED = {f"{home}.{name}": reason for (reason, home), names in _GROUPS.items() for name in names.split()}
