"""Protocols: what parties do together on shares. Importing them fills the tables of protocols and of deals."""

from syft.mpc.protocols import arithmetic, comparison, division, fss, local, maximum, securenn, triples, truncation

__all__ = ["arithmetic", "comparison", "division", "fss", "local", "maximum", "securenn", "triples", "truncation"]
