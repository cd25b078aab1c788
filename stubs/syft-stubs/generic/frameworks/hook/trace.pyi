# Made by scripts/stubs.
from syft.hook.trace import *
