# Made by scripts/stubs.
from syft.linalg.operations import *
