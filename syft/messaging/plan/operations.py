"""Programs of operations that were passed to a plan instead of recorded."""

from __future__ import annotations

import re
from typing import Any

from syft.messaging.message import Operation
from syft.messaging.plan.checks import check
from syft.messaging.plan.program import Argument, Program
from syft.messaging.plan.state import State
from syft.tensors.placeholder import PlaceHolder


def program_of(operations: list[Operation], placeholders: dict[Any, PlaceHolder], state: State) -> Program:
    """Make a program of operations and tagged placeholders; `#input-2` comes before `#input-10`."""

    def tagged(prefix: str) -> list[PlaceHolder]:
        tags = [(re.fullmatch(rf"#{prefix}-(\d+)", tag), p) for p in placeholders.values() for tag in p.tags]
        found = {int(number[1]): placeholder for number, placeholder in tags if number}
        return [found[number] for number in sorted(found)]

    inputs, outputs = tagged("input"), tagged("output")
    arguments = tuple(Argument(None, placeholder) for placeholder in inputs)
    returned: Any = outputs[0] if len(outputs) == 1 else tuple(outputs)
    program = Program(arguments, tuple(inputs), tuple(state.state_placeholders), tuple(operations), returned)
    program.to_rows()  # refuses placeholders without a value
    check(program)
    return program
