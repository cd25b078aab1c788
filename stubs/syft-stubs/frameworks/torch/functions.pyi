# Made by scripts/stubs.
from syft.pointers.multi_pointer import *
