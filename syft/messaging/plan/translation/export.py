"""Plans as exported programs: a file that `torch.export.load` runs and torch's compilers read."""

from __future__ import annotations

import io
from typing import Any, ClassVar

import torch

from syft.core.trees import map_tensors
from syft.exceptions import PlanTranslationError
from syft.messaging.plan.commands import EXPECT, RELATIONS
from syft.messaging.plan.translation.translator import COMMON, Functions, PlanModule, PlanTranslator

# Metadata of nodes with files and lines of the author.
_TRACES = ("stack_trace", "nn_module_stack", "source_fn_stack", "torch_fn", "from_node")


def _expect(relation: str, left: object, right: object, outcome: bool) -> None:
    if bool(RELATIONS[relation](left, right)) is not outcome:
        raise PlanTranslationError("The plan was built for tensors of other shapes.")


class PlanTranslatorExport(PlanTranslator):
    """Translate a plan to a torch.export.ExportedProgram.

    Sizes that the operations and checks of the plan do not fix stay dynamic; the program checks its inputs.

        >>> exported = PlanTranslatorExport(plan).translate()         # doctest: +SKIP
        >>> exported.module()(x)                                      # doctest: +SKIP

    Args:
        plan: a built plan.
        *examples: tensors like its inputs, for a plan that was not built here.
    """

    kind = "torch.export"
    functions: ClassVar[Functions] = {**COMMON, EXPECT: _expect}

    def write(self, module: PlanModule, positional: dict[str, Any], names: dict[str, Any]) -> bytes:
        """Export a module."""
        open_sizes = map_tensors(
            lambda t: dict.fromkeys(range(t.dim()), torch.export.Dim.AUTO), {**positional, **names}
        )
        exported = torch.export.export(
            module, tuple(positional.values()), names, dynamic_shapes=open_sizes, strict=False
        )
        for node in exported.graph.nodes:
            for key in _TRACES:
                node.meta.pop(key, None)
        out = io.BytesIO()
        torch.export.save(exported, out)
        return out.getvalue()

    @staticmethod
    def read(data: bytes) -> Any:
        """Load an exported program: runs code of its author."""
        return torch.export.load(io.BytesIO(data))

    @classmethod
    def load(cls, data: bytes) -> Any:
        """Load an exported program as a module: runs code of its author."""
        return cls.read(data).module()
