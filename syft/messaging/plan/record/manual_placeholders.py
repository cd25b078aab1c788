"""ManualPlaceholders: the documented way to make a plan of operations that were not recorded."""

from __future__ import annotations

import re
from typing import Any

import torch

from syft.core.labels import id_of
from syft.exceptions import MalformedPlanError
from syft.messaging.message import Operation
from syft.messaging.plan.checks import check
from syft.messaging.plan.program import Argument, Program, map_pattern
from syft.messaging.plan.state import State
from syft.tensors.placeholder import PlaceHolder


class ManualPlaceholders:
    """The methods of a plan that add and find placeholders."""

    _owner: Any
    _placeholders: dict[Any, PlaceHolder]

    @property
    def placeholders(self) -> dict[Any, PlaceHolder]:
        """The placeholders by id."""
        return self._placeholders

    def add_placeholder(self, tensor: torch.Tensor, node_type: str | None = None) -> PlaceHolder:
        """Return the placeholder of a tensor, made at its first use and tagged with its number.

        Args:
            tensor: the tensor.
            node_type: "input" or "output", to tag it `#input-0`, `#output-0` and so on.
        """
        if node_type not in (None, "input", "output"):
            raise ValueError(f"node_type must be 'input', 'output' or None, got {node_type!r}.")
        key = id_of(tensor)
        if key not in self._placeholders:
            self._placeholders[key] = PlaceHolder(owner=self._owner, tags={f"#{len(self._placeholders)}"}, child=tensor)
        placeholder = self._placeholders[key]
        if node_type is not None and not any(tag.startswith(f"#{node_type}-") for tag in placeholder.tags):
            placeholder.tags.add(f"#{node_type}-{len(self.find_placeholders(f'#{node_type}-'))}")
        return placeholder

    def replace_with_placeholders(self, obj: Any, **kw: Any) -> Any:
        """Return nested arguments with tensors replaced by placeholders.

        Args:
            obj: the arguments.
            **kw: passed to `add_placeholder`.
        """
        if isinstance(obj, torch.Tensor):
            return self.add_placeholder(obj, **kw)
        if isinstance(obj, tuple | list):
            return type(obj)(self.replace_with_placeholders(item, **kw) for item in obj)
        if isinstance(obj, dict):
            return {key: self.replace_with_placeholders(item, **kw) for key, item in obj.items()}
        try:
            return map_pattern(lambda leaf: leaf, obj)
        except MalformedPlanError as error:
            raise TypeError(f"A plan can't hold a {type(obj).__name__}.") from error

    def find_placeholders(self, *search_tags: str) -> list[PlaceHolder]:
        """Return the placeholders with a tag that contains one of these texts."""
        return [p for p in self._placeholders.values() if any(s in tag for s in search_tags for tag in p.tags)]


def program_of(operations: list[Operation], placeholders: dict[Any, PlaceHolder], state: State) -> Program:
    """Make a program of operations and tagged placeholders; `#input-2` comes before `#input-10`."""

    def tagged(prefix: str) -> list[PlaceHolder]:
        found = {}
        for placeholder in placeholders.values():
            for tag in placeholder.tags:
                number = re.fullmatch(rf"#{prefix}-(\d+)", tag)
                if number:
                    found[int(number[1])] = placeholder
        return [found[number] for number in sorted(found)]

    inputs, outputs = tagged("input"), tagged("output")
    arguments = tuple(Argument(None, placeholder) for placeholder in inputs)
    returned: Any = outputs[0] if len(outputs) == 1 else tuple(outputs)
    program = Program(arguments, tuple(inputs), tuple(state.state_placeholders), tuple(operations), returned)
    program.to_rows()  # refuses placeholders without a value
    check(program)
    return program
