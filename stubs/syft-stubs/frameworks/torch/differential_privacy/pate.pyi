# Made by scripts/stubs.
from syft.dp.pate import *
