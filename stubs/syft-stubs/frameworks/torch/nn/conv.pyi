# Made by scripts/stubs.
from syft.nn.conv import *
