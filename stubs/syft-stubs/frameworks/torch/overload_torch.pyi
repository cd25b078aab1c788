# Made by scripts/stubs.
from syft.hook.overload import *
