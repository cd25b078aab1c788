"""Every operator of torch's own table on shares: correct, or refused with a clear error."""

import functools
import itertools
import random
import warnings

import pytest
import torch
from torch.utils._pytree import tree_leaves, tree_map

import syft as sy
from syft.exceptions import SyftError
from syft.hook.syft_tensor import SyftTensor

CHUNKS = 8
SAMPLES = 1
# Random, or memory that nobody wrote to: there is no right result to compare with. (tan: near its poles every digit of
# the argument counts; tests/mpc/rules/test_functions.py looks at it.)
NO_RESULT = frozenset(
    """
    empty_like new_empty new_empty_strided bernoulli nn.functional.dropout nn.functional.dropout2d
    nn.functional.dropout3d nn.functional.alpha_dropout nn.functional.feature_alpha_dropout rand_like randn_like
    randint_like tan nn.functional.rrelu nn.functional.fractional_max_pool2d nn.functional.fractional_max_pool3d
    """.split()
)


# What torch itself says to a tensor that has no values here, before any rule is asked.
TORCHS_OWN = ("please report a bug", "expect", "Expect", "not allocated")


@functools.cache
def operators():
    """Read torch's table, which takes some seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
    return op_db


def is_random(name, kwargs):
    """Say whether a sample leaves out elements at random."""
    attends = name == "nn.functional.multi_head_attention_forward"
    return bool(kwargs.get("dropout_p") or (attends and kwargs.get("training")))


def samples(op, dtype):
    """Return some samples of an operator: positional and keyword arguments with dense tensors."""
    torch.manual_seed(1234)
    random.seed(1234)  # margins and such are drawn with it
    try:
        # Not op.sample_inputs: it inspects the whole stack for each operator, which takes minutes in all.
        made = itertools.islice(op.sample_inputs_func(op, "cpu", dtype, False), SAMPLES)
        found = [((s.input, *s.args), s.kwargs) for s in made]
    except Exception:  # the samples of a few operators need packages that are not here
        return []
    tensors = [[leaf for leaf in tree_leaves(s) if isinstance(leaf, torch.Tensor)] for s in found]
    return [
        s
        for s, leaves in zip(found, tensors, strict=True)
        if any(leaf.dtype is dtype for leaf in leaves)
        and all(leaf.layout is torch.strided for leaf in leaves)
        and not is_random(op.name, s[1])
    ]


def of_kind(dtype, change):
    """Return a function that changes the tensors of one dtype and leaves the rest."""
    return lambda leaf: change(leaf.detach()) if isinstance(leaf, torch.Tensor) and leaf.dtype is dtype else leaf


def shortened(tensor):
    """Return values that fixed precision holds exactly."""
    return (tensor.double().clamp(-20, 20) * 64).round() / 64


def opened(leaf):
    """Bring back a result; None for what only the gradient needs."""
    if not isinstance(leaf, SyftTensor):
        return leaf
    link = leaf.child
    if isinstance(link, sy.AdditiveSharingTensor):
        return link.get()
    if not isinstance(link, sy.FixedPrecisionTensor):
        return None
    return (link.get() if link.is_shared else link).float_precision()


def same(found, meant, exact):
    """Say whether a result is what it should be."""
    if found is None:
        return True
    if not isinstance(meant, torch.Tensor):
        return found == meant
    if found.shape != meant.shape or meant.is_complex():
        return False
    if meant.numel() == 0:
        return True
    if exact:
        return bool((found == meant).all())
    there = torch.isfinite(meant)  # elsewhere it is what docs/reference/operations.md says
    found, meant = found.double()[there], meant.double()[there]
    return not meant.numel() or bool(((found - meant).abs() <= 2e-3 * max(1, meant.abs().max())).all())


def run(op, dtype, encrypt, exact):
    """Run the samples of an operator; returns how many were right, and what was neither right nor refused."""
    right, wrong = 0, []
    for args, kwargs in samples(op, dtype):
        short = of_kind(dtype, shortened if dtype is torch.float32 else torch.clone)
        given_args, given_kwargs = tree_map(short, (args, kwargs))
        secret_args, secret_kwargs = tree_map(of_kind(dtype, encrypt), (args, kwargs))
        try:
            meant = op.op(*given_args, **given_kwargs)
        except Exception:  # what torch itself refuses for other values than its own samples
            meant = None
        if meant is None:
            continue
        try:
            result = op.op(*secret_args, **secret_kwargs)
        except (SyftError, ValueError, ZeroDivisionError, TypeError):
            continue
        except RuntimeError as error:
            if not any(word in str(error) for word in TORCHS_OWN):
                wrong.append((op.name, str(error)[:100]))
            continue
        pairs = zip(tree_leaves(result), tree_leaves(meant), strict=True)
        if all(same(opened(leaf), other, exact) for leaf, other in pairs):
            right += 1
        else:
            wrong.append((op.name, [tuple(t.shape) for t in tree_leaves(args) if isinstance(t, torch.Tensor)], kwargs))
    return right, wrong


@pytest.fixture
def cast(make_worker):
    return [make_worker(name) for name in ("bob", "alice", "dealer")]


def run_chunk(chunk, dtype, encrypt, exact=False):
    """Run each eighth operator from one on; returns the names of those that were right at least once."""
    right, wrong = set(), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for op in operators()[chunk::CHUNKS]:
            if op.name in NO_RESULT or dtype not in op.supported_dtypes("cpu"):
                continue
            count, failures = run(op, dtype, encrypt, exact)
            wrong += failures
            right |= {op.name} if count else set()
    assert wrong == []
    return right


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_fixed_precision(chunk, cast, nothing_left):
    bob, alice, dealer = cast

    def encrypt(tensor):
        encoded = shortened(tensor).fix_precision(base=2, precision_fractional=16)
        return encoded.share(bob, alice, crypto_provider=dealer)

    assert len(run_chunk(chunk, torch.float32, encrypt)) > 15
    nothing_left(*cast)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_whole_numbers(chunk, cast, nothing_left):
    bob, alice, dealer = cast
    right = run_chunk(chunk, torch.int64, lambda t: t.share(bob, alice, crypto_provider=dealer), exact=True)
    assert len(right) > 10
    nothing_left(*cast)
