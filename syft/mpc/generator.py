"""Generator: the random numbers that hide data; it lives in `syft.core.generator`, where every layer can use it."""

from syft.core.generator import BLOCK as BLOCK
from syft.core.generator import KEY_BYTES as KEY_BYTES
from syft.core.generator import Generator as Generator
from syft.core.generator import local as local
