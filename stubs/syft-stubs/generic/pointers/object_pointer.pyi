# Made by scripts/stubs.
from syft.pointers.object_pointer import *
