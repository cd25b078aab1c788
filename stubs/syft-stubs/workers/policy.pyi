# Made by scripts/stubs.
from syft.workers.access.policy import *
