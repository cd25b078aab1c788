# Made by scripts/stubs.
from syft.core.id_provider import *
