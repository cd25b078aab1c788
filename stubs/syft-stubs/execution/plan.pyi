# Made by scripts/stubs.
from syft.messaging.plan import *
