"""Part 12b: encrypted training on digits, mean squared error on one-hot labels."""

# %%
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from sklearn.datasets import load_digits

import syft as sy

hook = sy.TorchHook(torch)


def connect_to_workers(n_workers):
    return [sy.VirtualWorker(hook, id=f"worker{i + 1}") for i in range(n_workers)]


def connect_to_crypto_provider():
    return sy.VirtualWorker(hook, id="crypto_provider")


workers = connect_to_workers(n_workers=2)
crypto_provider = connect_to_crypto_provider()


# %%
class Arguments:
    def __init__(self):
        self.batch_size = 32
        self.epochs = 1
        self.lr = 0.5
        self.seed = 1
        self.precision_fractional = 3


args = Arguments()
_ = torch.manual_seed(args.seed)


# %%
def one_hot_of(index_tensor):
    return F.one_hot(index_tensor, 10).float()


def secret_share(tensor):
    return tensor.fix_precision(precision_fractional=args.precision_fractional).share(
        *workers, crypto_provider=crypto_provider, requires_grad=True
    )


digits = load_digits()
images, labels = torch.tensor(digits.data[:192]).float() / 16, torch.tensor(digits.target[:192])
private_train_loader = [
    (secret_share(data), secret_share(one_hot_of(target)))
    for data, target in zip(images[:160].split(32), labels[:160].split(32), strict=True)
]
private_test_loader = [(secret_share(images[160:]), labels[160:].share(*workers, crypto_provider=crypto_provider))]
private_train_loader[0]


# %%
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(64, 16)
        self.fc2 = nn.Linear(16, 10)

    def forward(self, x):
        return self.fc2(F.relu(self.fc1(x)))


def train(args, model, private_train_loader, optimizer):
    model.train()
    losses = []
    for data, target in private_train_loader:
        optimizer.zero_grad()
        output = model(data)
        loss = ((output - target) ** 2).sum().refresh() / args.batch_size
        loss.backward()
        optimizer.step()
        losses.append(loss.get().float_precision().item())
    return losses


def test(model, private_test_loader):
    model.eval()
    correct = 0
    with torch.no_grad():
        for data, target in private_test_loader:
            pred = model(data).argmax(dim=1)
            correct += pred.eq(target.view_as(pred)).sum().copy().get().float_precision().long().item()
    return correct


# %%
model = Net()
model = model.fix_precision().share(*workers, crypto_provider=crypto_provider, requires_grad=True)
optimizer = optim.SGD(model.parameters(), lr=args.lr / 4).fix_precision()
losses = train(args, model, private_train_loader, optimizer)
losses

# %%
correct = test(model, private_test_loader)
assert losses[-1] < losses[0] and 0 <= correct <= 32
correct
