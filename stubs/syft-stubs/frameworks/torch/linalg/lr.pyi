# Made by scripts/stubs.
from syft.linalg.lr import *
