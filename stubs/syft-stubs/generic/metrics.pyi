# Made by scripts/stubs.
from syft.core.metrics import *
