"""Rules: ATen operations on fixed-precision and shared tensors. Importing the package registers them.

Here is no protocol and no message: rules call `syft.mpc.values.ring_ops`.
"""

from syft.mpc.rules import (  # noqa: F401  (registers their rules)
    activations,
    approximations,
    arithmetic,
    attention,
    comparison,
    compositions,
    indexing,
    linear,
    losses,
    normalization,
    pooling,
    powers,
    recurrent,
    reduction,
    refusals,
    resampling,
    scatter,
    structure,
    training,
)
