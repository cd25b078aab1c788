"""Rules: what fixed-precision and shared tensors do with ATen operations. Importing this fills their tables."""

from syft.mpc.rules import (
    arithmetic,
    comparison,
    indexing,
    linear,
    placing,
    pooling,
    reduction,
    refusals,
    structure,
    training,
)

__all__ = [
    "arithmetic",
    "comparison",
    "indexing",
    "linear",
    "placing",
    "pooling",
    "reduction",
    "refusals",
    "structure",
    "training",
]
