"""Protocols of parties on shares. Importing them fills the registries of protocols and of deals."""

from syft.mpc.protocols import (  # noqa: F401  (registers them)
    arithmetic,
    beaver_triples,
    comparison,
    division,
    exponential,
    fss,
    gwas,
    householder,
    local,
    lookup,
    matrices,
    maximum,
    normalized_functions,
    opening_masks,
    program,
    regression,
    securenn,
    softmax,
    truncation,
)
