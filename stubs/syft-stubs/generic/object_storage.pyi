# Made by scripts/stubs.
from syft.core.object_storage import *
