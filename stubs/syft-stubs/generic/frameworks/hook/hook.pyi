# Made by scripts/stubs.
from syft.hook.base import *
