# Made by scripts/stubs.
from syft.workers import policy as policy
from syft.workers import websocket_server as websocket_server
