# Made by scripts/stubs.
from syft.hook.torch_attributes import *
