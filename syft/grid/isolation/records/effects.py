"""Possible effects of a recorded call, from its name and arguments alone: the supervisor has no values.

Every function errs on the safe side. The tables hold names, so that nothing is looked up in torch; a test compares
them with torch for the samples of every call.
"""

from __future__ import annotations

import functools
from typing import Any

from syft.core.references import Ref
from syft.grid.isolation.records.records import CallRecord, iter_refs

RUN_PLAN, PLAN_PARAMETERS, COPY_PLAN = "syft.run_plan", "syft.plan_parameters", "syft.copy_plan"
BACKWARD = frozenset({"torch.Tensor.backward", "torch.autograd.backward"})
# Calls that walk the autograd graph and read its saved tensors.
WALKS_GRAPH = BACKWARD | {"torch.autograd.grad"}
# Calls after which the first argument may share memory with another.
_SHARES = frozenset(f"torch.Tensor.{name}" for name in ("data.__set__", "grad.__set__", "set_", "module_load"))
_WRITES_FIRST = frozenset(
    {"torch.Tensor.__setitem__", "torch.Tensor.module_load", "torch.Tensor.retain_grad", "syft.tag", "syft.describe"}
)
_AUGMENTED = frozenset(
    f"__i{name}__" for name in "add and floordiv lshift matmul mod mul or pow rshift sub truediv xor".split()
)
# The position of `inplace` in functions of torch.nn.functional.
_INPLACE_AT = {
    "alpha_dropout": 3, "celu": 2, "dropout": 3, "dropout1d": 3, "dropout2d": 3, "dropout3d": 3, "elu": 2,
    "feature_alpha_dropout": 3, "hardtanh": 3, "leaky_relu": 2, "relu": 1, "relu6": 1, "rrelu": 4, "selu": 1,
    "silu": 1, "mish": 1, "threshold": 3, "hardsigmoid": 1, "hardswish": 1,
}  # fmt: skip

# The last parts of names of calls that draw from torch's generator: those that torch tags `nondeterministic_seeded`,
# and those that call them.
_DRAWS = frozenset(
    """
    alpha_dropout alpha_dropout_ bernoulli bernoulli_ binomial cauchy cauchy_ dropout dropout1d dropout2d dropout3d
    dropout_ exponential exponential_ feature_alpha_dropout feature_alpha_dropout_ feature_dropout feature_dropout_
    fractional_max_pool2d fractional_max_pool2d_with_indices fractional_max_pool3d fractional_max_pool3d_with_indices
    geometric geometric_ gru gumbel_softmax kaiming_normal_ kaiming_uniform_ lobpcg log_normal log_normal_ lstm
    multi_head_attention_forward multinomial native_dropout normal normal_ normal_functional orthogonal_ pca_lowrank
    poisson rand rand_like randint randint_like randn randn_like random random_ randperm rnn_relu rnn_tanh rrelu rrelu_
    rrelu_with_noise rrelu_with_noise_ scaled_dot_product_attention sparse_ svd_lowrank trunc_normal_ uniform uniform_
    xavier_normal_ xavier_uniform_ _efficient_attention_forward _flash_attention_forward _fused_dropout
    _fused_sdp_choice _sample_dirichlet _scaled_dot_product_attention_math _standard_gamma
    """.split()
)
# Of these, calls that draw only in training: the position of that flag.
_TRAINING_AT = {
    "alpha_dropout": 2, "alpha_dropout_": 2, "dropout": 2, "dropout1d": 2, "dropout2d": 2, "dropout3d": 2,
    "dropout_": 2, "feature_alpha_dropout": 2, "feature_alpha_dropout_": 2, "feature_dropout": 2,
    "feature_dropout_": 2, "rrelu": 3, "rrelu_": 3, "native_dropout": 2,
}  # fmt: skip
_RECURRENT = frozenset({"gru", "lstm", "rnn_relu", "rnn_tanh"})

# The last parts of names of calls whose results never share memory with an argument.
_FRESH = frozenset(
    """
    abs absolute acos acosh add addbmm addcdiv addcmul addmm addmv addr all allclose amax amin angle any argmax argmin
    argsort asin asinh atan atan2 atanh avg_pool1d avg_pool2d avg_pool3d baddbmm batch_norm bincount bitwise_and
    bitwise_not bitwise_or bitwise_xor bmm cat cdist ceil cholesky clone concat conv1d conv2d conv3d copysign corrcoef
    cos cosh cosine_similarity count_nonzero cov cross_entropy cumprod cumsum det diff dist div divide dot elu embedding
    eq erf erfc exp exp2 expm1 float_power floor floor_divide fmod frac full_like gather ge gelu group_norm gt
    histc huber_loss index_select inner inv isclose isfinite isinf isnan isneginf isposinf kl_div l1_loss layer_norm le
    leaky_relu lerp linear log log10 log1p log2 log_softmax logaddexp logcumsumexp logical_and logical_not logical_or
    logical_xor logsumexp lt matmul max maximum mean median min minimum mm mse_loss mul multiply mv nanmean nanmedian
    nansum ne neg negative nll_loss norm ones_like outer pinverse pow prod quantile reciprocal relu relu6 remainder
    rsqrt selu sigmoid sign silu sin sinh smooth_l1_loss softmax softplus sort sqrt square stack std sub subtract sum
    tan tanh topk trace true_divide trunc var vdot vecdot zeros_like
    """.split()
) | frozenset(
    f"__{side}{name}__"
    for side in ("", "r")
    for name in "add sub mul truediv pow mod floordiv matmul and or xor".split()
) | frozenset(f"__{name}__" for name in "eq ne lt le gt ge neg invert".split())  # fmt: skip
_PREFIXES = ("torch.", "str.")
_KNOWN_COMMANDS = frozenset(
    {
        RUN_PLAN,
        PLAN_PARAMETERS,
        COPY_PLAN,
        "syft.tag",
        "syft.describe",
        "syft.fix_precision",
        "syft.float_precision",
        "syft.encrypt_paillier",
    }
)


@functools.lru_cache(4096)
def last_part(name: str) -> str:
    """Return the part of a wire name behind the last dot."""
    return name.rpartition(".")[2]


def is_known(record: CallRecord) -> bool:
    """Return whether the effects of a call are known; an unknown call may change all its arguments."""
    return record.name.startswith(_PREFIXES) or record.name in _KNOWN_COMMANDS


def is_plain(record: CallRecord) -> bool:
    """Return whether a call is one of torch or of strings, without effects beyond its arguments and results."""
    return record.name.startswith(_PREFIXES)


@functools.lru_cache(4096)
def is_in_place(name: str) -> bool:
    """Return whether a call changes its first argument, by its name."""
    last = last_part(name)
    if name in _WRITES_FIRST or last == "__set__" or last in _AUGMENTED:
        return True
    return not last.startswith("__") and last.endswith("_")


def _argument(record: CallRecord, position: int, key: str) -> Any:
    return record.args[position] if len(record.args) > position else record.kwargs.get(key)


def writes(record: CallRecord) -> list[Ref]:
    """Return the references to objects that a call may change, apart from gradients by a backward pass."""
    if not is_known(record) or record.name in (RUN_PLAN, PLAN_PARAMETERS):
        return list(record.refs())
    name, last = record.name, last_part(record.name)
    found: list[Any] = [record.kwargs.get("out")]
    position = _INPLACE_AT.get(last) if name.startswith("torch.nn.functional.") else None
    inplace = position is not None and _argument(record, position, "inplace") not in (None, False)
    if inplace or is_in_place(name):
        # Without positional arguments, the name of the first one is unknown here.
        found += record.args[:1] or record.kwargs.values()
    if last.startswith("embedding"):
        found += [*record.args[:2], record.kwargs.get("weight")]
    if "batch_norm" in last or "instance_norm" in last:
        found += [*record.args[1:], *record.kwargs.values()]
    return list(iter_refs(found))


def is_fresh(record: CallRecord) -> bool:
    """Return whether the results of a call share no memory with its arguments."""
    name = record.name
    if name == COPY_PLAN or name.startswith("str."):
        return True
    # `out` and `inplace` return an argument; `writes` covers those.
    return name.startswith("torch.") and last_part(name) in _FRESH and not name.endswith((".__get__", ".__set__"))


def shares(record: CallRecord) -> bool:
    """Return whether a call may make its arguments share memory with each other."""
    return record.name in _SHARES or not is_known(record) or record.name == RUN_PLAN


def draws(record: CallRecord) -> bool:
    """Return whether a call may draw random numbers."""
    last = last_part(record.name)
    if last not in _DRAWS or not record.name.startswith("torch."):
        return False
    if last in _TRAINING_AT:
        given = [_argument(record, _TRAINING_AT[last], key) for key in ("training", "train")]
        return False not in [flag for flag in given if type(flag) is bool]
    if last == "scaled_dot_product_attention":
        return _argument(record, 4, "dropout_p") not in (None, 0.0)
    if last in _RECURRENT:
        # The probability is the only float; with packed sequences it comes one position later.
        return not any(type(value) is float and value == 0.0 for value in record.args[5:7])
    return True


def may_need_gradient(record: CallRecord) -> bool:
    """Return whether a call makes tensors that need a gradient, of arguments that need none."""
    name = record.name
    if not is_known(record) or name in (RUN_PLAN, PLAN_PARAMETERS, COPY_PLAN):
        return True
    return "requires_grad" in name or "requires_grad" in record.kwargs or bool(record.blobs)


def reads_gradients(record: CallRecord) -> bool:
    """Return whether a call may read the gradients of its arguments, besides those that it names."""
    return not is_known(record) or record.name.startswith(("torch.Tensor.grad.", "syft."))


# --- the number of results ----------------------------------------------------------------------------------------

_SEVERAL = frozenset(
    """
    aminmax chunk cummax cummin dsplit frexp geqrf histogram hsplit kthvalue lu mode qr slogdet sort split
    split_with_sizes svd tensor_split topk triangular_solve unbind unsafe_chunk unsafe_split unsafe_split_with_sizes
    vsplit grad broadcast_tensors meshgrid pca_lowrank svd_lowrank unravel_index gradient gru histogramdd cholesky_ex
    eig eigh inv_ex ldl_factor ldl_factor_ex lstsq lu_factor lu_factor_ex solve_ex lobpcg lstm lstm_cell native_dropout
    native_group_norm native_layer_norm multi_head_attention_forward rnn_relu rnn_tanh split_copy
    split_with_sizes_copy std_mean unbind_copy var_mean plan_parameters
    """.split()
)
_SEVERAL_BY_DIM = frozenset({"max", "min", "median", "nanmedian"})


def gives_several(record: CallRecord) -> bool:
    """Return whether a call gives more than one result, or a list of one."""
    last = last_part(record.name)
    if last in _SEVERAL_BY_DIM:
        return "dim" in record.kwargs or type(_argument(record, 1, "dim")) is int
    if last.endswith("_with_indices") or record.name == "torch.adaptive_max_pool1d":
        return True
    if "max_pool" in last:
        return _argument(record, 2 if last.startswith("adaptive") else 6, "return_indices") is True
    if last == "where":
        return len(record.args) + len(record.kwargs) == 1
    return last in _SEVERAL
