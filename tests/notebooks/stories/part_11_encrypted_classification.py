"""Part 11: a model learns in clear; then model and images are encrypted, and so is the score."""

# %%
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from sklearn.datasets import load_digits

import syft as sy

hook = sy.TorchHook(torch)
client = sy.VirtualWorker(hook, id="client")
bob = sy.VirtualWorker(hook, id="bob")
alice = sy.VirtualWorker(hook, id="alice")
crypto_provider = sy.VirtualWorker(hook, id="crypto_provider")

# %%
digits = load_digits()
data, target = torch.tensor(digits.data).float() / 16, torch.tensor(digits.target)
private_test_loader = []
for images, labels in zip(data[1500:1550].split(25), target[1500:1550].split(25), strict=True):
    private_test_loader.append(
        (
            images.fix_precision().share(alice, bob, crypto_provider=crypto_provider),
            labels.share(alice, bob, crypto_provider=crypto_provider),
        )
    )
private_test_loader[0][0].shape


# %%
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(64, 32)
        self.fc2 = nn.Linear(32, 10)

    def forward(self, x):
        x = x.view(-1, 64)
        x = self.fc1(x)
        x = F.relu(x)
        return self.fc2(x)


torch.manual_seed(1)
model = Net()
optimizer = optim.Adam(model.parameters(), lr=0.01)
for _ in range(4):
    for images, labels in zip(data[:1500].split(64), target[:1500].split(64), strict=True):
        optimizer.zero_grad()
        F.nll_loss(F.log_softmax(model(images), dim=1), labels).backward()
        optimizer.step()

# %%
prediction = model(data[1500:1550])
plain = prediction.argmax(dim=1)
correct_in_clear = int((plain == target[1500:1550]).sum())
prediction  # displayed: the graph of the parameters stays alive

# %%
model.fix_precision().share(alice, bob, crypto_provider=crypto_provider)
model

# %%
model.eval()
n_correct_priv, found = 0, []
with torch.no_grad():
    for images, labels in private_test_loader:
        output = model(images)
        pred = output.argmax(dim=1)
        found.append(pred.copy().get())
        correct = pred.eq(labels.view_as(pred)).sum()
        n_correct_priv += correct.copy().get().float_precision().long().item()
n_correct_priv

# %%
# Encoding with three digits may change a prediction whose two best scores nearly tie.
assert (torch.cat(found).float_precision().long() == plain).float().mean() >= 0.98
assert abs(n_correct_priv - correct_in_clear) <= 1
