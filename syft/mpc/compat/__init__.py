"""The documented modules of PySyft 0.2: beaver, spdz, securenn, fss. Not for use inside the package."""
