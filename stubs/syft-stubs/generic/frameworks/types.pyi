# Made by scripts/stubs.
from syft.hook.types import *
