"""A program as a user writes it: type checkers must accept it, know the types, and it must run."""

import torch

import syft as sy

hook = sy.TorchHook(torch)
alice = sy.VirtualWorker(hook, id="typing-alice")
bob = sy.VirtualWorker(hook, id="typing-bob")
carol = sy.VirtualWorker(hook, id="typing-carol")

# Tensors at other workers.
x = torch.tensor([1.0, 2.0, 3.0]).tag("#numbers").describe("three numbers")
pointer = x.send(bob)
total = (pointer + pointer).sum().get()
moved = pointer.move(alice).get()
assert total.item() == 12.0

# A model at another worker.
model = torch.nn.Linear(3, 1)
model.send(bob)
prediction = model(x.send(bob)).get()
model.get()


# Plans.
@sy.func2plan(args_shape=[(3,)])
def double(values: torch.Tensor) -> torch.Tensor:
    return values * 2


doubled = double.send(bob)(x.send(bob))

# Encrypted computation.
shared = x.fix_precision().share(alice, bob, crypto_provider=carol)
product = (shared * shared).get().float_precision()

# Federated learning.
images, labels = torch.randn(20, 3), torch.randn(20, 1)
spread = torch.utils.data.TensorDataset(images, labels).federate((alice, bob))
result = sy.federated.run(
    sy.federated.FedAvg(),
    clients=spread,
    rounds=1,
    model=torch.nn.Linear(3, 1),
    loss_fn=torch.nn.functional.mse_loss,
)
print(result.rounds, result.history)
