"""A server that is started in a notebook, where an event loop runs already, and a client of it."""

# %%
import torch

import syft as sy
from syft.workers.websocket_client import WebsocketClientWorker
from syft.workers.websocket_server import WebsocketServerWorker

hook = sy.TorchHook(torch)
server = WebsocketServerWorker(hook, host="localhost", port=0, id="served-here")
server.start()
hook.local_worker.remove_worker_from_registry("served-here")  # so that the client can have the name
server

# %%
client = WebsocketClientWorker(hook, host="localhost", port=server.port, id="served-here")
x = torch.tensor([1.0, 3.0, 5.0]).send(client)
(x + x).get()

# %%
assert (x * 2).get().tolist() == [2.0, 6.0, 10.0]
client.close()
server.stop()
hook.local_worker.remove_worker_from_registry("served-here")
