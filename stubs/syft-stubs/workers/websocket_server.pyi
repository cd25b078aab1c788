# Made by scripts/stubs.
from syft.grid.websocket_server import *
