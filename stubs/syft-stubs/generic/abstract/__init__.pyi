# Made by scripts/stubs.
from syft.generic.abstract import object as object
from syft.generic.abstract import sendable as sendable
from syft.generic.abstract import syft_serializable as syft_serializable
from syft.generic.abstract import tensor as tensor
