# Made by scripts/stubs.
from syft.core.object import *
