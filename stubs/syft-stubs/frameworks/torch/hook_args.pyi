# Made by scripts/stubs.
from syft.hook.args import *
