# Made by scripts/stubs.
from syft.nn.pool import *
