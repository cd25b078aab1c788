# Made by scripts/stubs.
from syft.pointers.pointer_protocol import *
