# Made by scripts/stubs.
from syft.messaging.protocol.role import *
