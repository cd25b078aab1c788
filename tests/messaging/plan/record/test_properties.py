"""Checks of a plan at each run: the properties of tensors that the recording depends on."""

from __future__ import annotations

import math

import pytest
import torch

import syft as sy
from syft.exceptions import PlanMismatchError
from tests.helpers.plans.plan_models import planned

pytestmark = pytest.mark.usefixtures("hook")
THIS_FILE = "test_properties.py"


# --- checks of forms -----------------------------------------------------------------------------------------------


def by_length(x):
    return x * len(x)


def by_range(x):
    return sum(x[i] * i for i in range(x.shape[0]))


def by_dtype(x):
    return x * 2 if x.dtype is torch.float32 else x * 3


def by_dim(x):
    return x.sum(-1) if x.dim() == 2 else x * 5


def by_ndim(x):
    return x.sum(-1) if x.ndim == 2 else x * 5


def by_shape(x):
    return x * 2 if x.shape[0] > 2 else x * 3


def by_shapes(x):
    return x * 2 if x.shape == (3, 2) else x * 3


def by_whole_shape(x):
    return x * 2 if x.shape[-1] == x.shape[0] else x * 3


def by_unpacking(x):
    rows, columns = x.shape
    return x.reshape(columns, rows)


def by_remainder(x):
    return x[::2] if x.shape[0] % 2 else x


def by_truth(x):
    return x.sum(0) if x.shape[0] else x.new_zeros(x.shape[1:])


def by_flag(x):
    return x * 2 if x.requires_grad else x * 3


def by_layout(x):
    return x * 2 if x.is_contiguous() else x.contiguous() * 3


def by_float(x):
    return x * math.sqrt(x.shape[0])


def by_text(x):
    return x * {"3": 2, "4": 3}.get(str(int(x.shape[0])), 1)


def by_list_of_sizes(x):
    return x * sum(list(x.shape))


def by_min(x):
    return x[: min(x.shape[0], 3)]


def by_numel(x):
    return x * 2 if x.numel() > 6 else x


def by_empty(x):
    return x.sum(0) if not x.nelement() else x.sum(1)


def by_comparison_of_two(x):
    y = torch.cat([x, x])
    return y if x.size(0) * 2 == y.size(0) else None


def by_type_of_size(x):
    return x * 2 if isinstance(x.shape[0], int) and isinstance(x.shape[0] / 2, float) else x * 3


def by_type_of_shape(x):
    return x * 2 if isinstance(x.shape, torch.Size) and isinstance(x.shape[:1], torch.Size) else x * 3


def by_bits(x):
    return x * (x.shape[0] & 1 | x.shape[0] << 2) * (7 ^ x.shape[0])


def by_word(x):
    return x * {"3": 5}.get(str(x.shape[0]), 1) + {"3": 5}.get(f"{x.shape[0]}", 1)


def by_made_size(x):
    return (
        x.new_ones(torch.Size([x.shape[0], 2])) * x.shape[1:].numel() + x.new_zeros(x.shape[:1] + torch.Size([2])) * 1
    )


def by_membership(x):
    return x * 2 if x.shape[0] in (3, 4) else x


def by_power(x):
    return x / x.size(0) ** 0.5


def by_rounding(x):
    return x[: math.ceil(x.shape[0] / 2)] * round(x.shape[0] / 2)


def by_key(x):
    return {2: x, 3: x * 2}[int(x.shape[0])]


CHECKED = [
    by_length, by_range, by_dtype, by_dim, by_ndim, by_shape, by_shapes, by_whole_shape, by_unpacking, by_remainder,
    by_truth, by_flag, by_layout, by_float, by_text, by_list_of_sizes, by_min, by_numel, by_empty,
    by_comparison_of_two, by_key, by_type_of_size, by_type_of_shape, by_bits, by_word, by_made_size, by_membership,
    by_power, by_rounding,
]  # fmt: skip
# For these, no decision depends on the number of rows.
FREE = {
    by_unpacking,
    by_comparison_of_two,
    by_dtype,
    by_dim,
    by_ndim,
    by_flag,
    by_layout,
    by_list_of_sizes,
    by_truth,
    by_type_of_size,
    by_type_of_shape,
    by_made_size,
}


def other_inputs():
    yield from (torch.rand(rows, 2) for rows in (0, 1, 2, 3, 4, 5, 9))
    yield from (torch.rand(rows, rows) for rows in (1, 2, 3, 4))
    yield torch.rand(3, 2, requires_grad=True)
    yield torch.rand(3, 2, dtype=torch.float64)
    yield torch.rand(2, 3).t()
    yield torch.rand(3)
    yield torch.rand(3, 2, 2)
    yield torch.ones(3, 2, dtype=torch.int64)


@pytest.mark.parametrize("function", CHECKED, ids=lambda f: f.__name__)
def test_right_or_refused(function, make_worker):
    """For any other input the plan gives what the function gives, or says that it was built for something else."""
    bob = make_worker("bob", "bytes")
    plan = planned(function, torch.rand(3, 2))
    pointer, rebuilt = plan.send(bob), sy.deserialize(sy.serialize(plan))
    x = torch.rand(3, 2)
    assert torch.equal(plan(x), function(x))
    refused = 0
    for x in other_inputs():
        try:
            expected = function(x)
        except Exception:
            expected = None
        runs = [plan, rebuilt]
        if x.is_contiguous():  # strides do not travel
            runs.append(lambda x: pointer(x.send(bob)).get())
        for run in runs:
            try:
                result = run(x)
            except PlanMismatchError as error:
                assert "built" in str(error)
                refused += 1
                continue
            except Exception:
                assert expected is None
                continue
            assert expected is not None, (function.__name__, x.shape)
            assert result.dtype == expected.dtype and torch.equal(result, expected), (function.__name__, x.shape)
    assert refused or function in FREE
    if function in FREE:
        x = torch.rand(7, 2)
        assert torch.equal(plan(x), function(x))


def test_the_text_of_a_check():
    plan = planned(by_shape, torch.rand(3, 2))
    with pytest.raises(PlanMismatchError, match=r"1 > 2 is False.*built.*was True.*Build a plan") as caught_error:
        plan(torch.rand(1, 2))
    notes = "\n".join(caught_error.value.__notes__)
    assert THIS_FILE in notes and "x.shape[0] > 2" in notes
    with pytest.raises(PlanMismatchError, match=r"dtype is torch\.float32.*torch\.float64"):
        planned(by_dtype, torch.rand(3))(torch.rand(3, dtype=torch.float64))
    with pytest.raises(PlanMismatchError, match="another number of results"):
        planned(lambda x: x.unbind()[0], torch.rand(3))(torch.rand(4))


def test_sizes_compute():
    """Arithmetic on sizes is recorded, so the plan holds for all of them."""

    def sizes(x, y):
        rows, columns = x.shape
        whole = (rows * 3 - 1) // 2 + rows % 2 + divmod(rows, 2)[0] + columns
        part = rows / 2 + 0.5 - columns / (rows + 1) + -rows
        flat = torch.zeros(rows * columns + 2).view(-1)
        return whole * y + part, flat, x.reshape(rows * columns), torch.arange(rows, rows + 5), x.view(-1, columns)

    plan = planned(sizes, torch.rand(3, 2), torch.rand(4))
    for shape in [(1, 1), (5, 2), (64, 3), (7, 7), (0, 2)]:
        args = torch.rand(shape), torch.rand(4)
        if 0 in shape:
            continue
        for got, expected in zip(plan(*args), sizes(*args), strict=True):
            assert got.dtype == expected.dtype and torch.equal(got, expected), shape


def test_sizes_as_results():
    plan = planned(lambda x: (x.shape[0], x.shape, x.numel() / 2, x * 1), torch.rand(3, 2))
    rows, shape, half, _ = plan(torch.rand(7, 4))
    assert (rows, tuple(shape), half) == (7, (7, 4), 14.0)
    assert type(rows) is int and type(half) is float
