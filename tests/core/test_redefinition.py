"""A notebook cell that runs twice registers again; another function or class of the same name is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import syft as sy
from syft.core.tensor import AbstractTensor
from syft.exceptions import SerdeError, SyftError
from syft.mpc.dealer.deals import DEALS, WITH_COMMON, deals
from syft.mpc.runtime.protocol_registry import PROTOCOLS, protocol

CELL = """
class Reading:
    def __init__(self, value):
        self.value = value

    @staticmethod
    def simplify(worker, reading):
        return (reading.value,)

    @staticmethod
    def detail(worker, parts):
        return Reading(*parts)


async def answer(party, x):
    return x + RUN


def negated(x):
    return -RUN * x.child


def make_rule():
    return lambda x: x


def zeros(context, shape):
    return (context.fixed(shape, lambda: torch.zeros(shape)),)
"""


def run_cell(run: int, module: str = "__main__") -> dict[str, Any]:
    names = {"__name__": module, "torch": torch, "RUN": run}
    exec(CELL, names)
    return names


@pytest.fixture
def clean():
    yield
    PROTOCOLS.pop("answer of a cell", None)
    DEALS.pop("zeros of a cell", None)
    WITH_COMMON.discard("zeros of a cell")


def test_a_class_defined_again_replaces_the_earlier_one():
    first, second, other = run_cell(1), run_cell(2), run_cell(3, "elsewhere")
    sy.serde.register(first["Reading"], code=1900)
    sy.serde.register(second["Reading"], code=1900)
    try:
        assert type(sy.deserialize(sy.serialize(second["Reading"](5)))) is second["Reading"]
        with pytest.raises(SerdeError, match="register"):
            sy.serialize(first["Reading"](5))
        with pytest.raises(SerdeError, match=r"Code 1900 .* belongs to __main__\.Reading"):
            sy.serde.register(other["Reading"], code=1900)
    finally:
        sy.serde.unregister(second["Reading"])


def test_a_protocol_defined_again_replaces_the_earlier_one(clean):
    first, second, other = run_cell(1), run_cell(2), run_cell(3, "elsewhere")
    protocol("answer of a cell")(first["answer"])
    protocol("answer of a cell", rounds="1")(second["answer"])
    assert PROTOCOLS["answer of a cell"].function is second["answer"]
    assert PROTOCOLS["answer of a cell"].rounds == "1"
    with pytest.raises(SyftError, match="already is a protocol 'answer of a cell', of __main__"):
        protocol("answer of a cell")(other["answer"])
    assert PROTOCOLS["answer of a cell"].function is second["answer"]


def test_a_deal_defined_again_replaces_the_earlier_one(clean):
    first, second, other = run_cell(1), run_cell(2), run_cell(3, "elsewhere")
    deals("zeros of a cell", common=True)(first["zeros"])
    assert "zeros of a cell" in WITH_COMMON
    deals("zeros of a cell")(second["zeros"])
    assert DEALS["zeros of a cell"] is second["zeros"] and "zeros of a cell" not in WITH_COMMON
    with pytest.raises(SyftError, match="already is a deal 'zeros of a cell', of __main__"):
        deals("zeros of a cell")(other["zeros"])


def test_a_rule_defined_again_replaces_the_earlier_one():
    class Link(AbstractTensor):
        pass

    first, second, other = run_cell(1), run_cell(2), run_cell(3, "elsewhere")
    for cell in (first, second):
        Link.implements(torch.Tensor.neg)(cell["negated"])
        assert torch.equal(-Link().on(torch.ones(2)), torch.full((2,), -float(cell["RUN"])))
    with pytest.raises(SyftError, match="already has a rule"):
        Link.implements(torch.Tensor.neg)(other["negated"])


def test_two_closures_of_one_factory_are_not_a_redefinition():
    class Link(AbstractTensor):
        pass

    cell = run_cell(1)
    Link.implements(torch.Tensor.neg)(cell["make_rule"]())
    with pytest.raises(SyftError, match="already has a rule"):
        Link.implements(torch.Tensor.neg)(cell["make_rule"]())
