# Made by scripts/stubs.
from syft.pointers.callable_pointer import *
