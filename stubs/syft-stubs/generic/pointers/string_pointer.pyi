# Made by scripts/stubs.
from syft.pointers.string_pointer import *
