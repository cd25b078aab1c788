# Made by scripts/stubs.
from syft.core.string import *
