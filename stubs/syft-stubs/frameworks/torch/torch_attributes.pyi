# Made by scripts/stubs.
from syft.hook.attributes import *
