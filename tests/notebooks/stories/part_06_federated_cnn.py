"""Part 6: a convolutional network learns digits from batches that stay with two owners."""

# %%
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from sklearn.datasets import load_digits

import syft as sy

hook = sy.TorchHook(torch)
bob = sy.VirtualWorker(hook, id="bob")
alice = sy.VirtualWorker(hook, id="alice")


# %%
class Arguments:
    def __init__(self):
        self.batch_size = 64
        self.test_batch_size = 297
        self.epochs = 4
        self.lr = 0.1
        self.momentum = 0.9
        self.seed = 1
        self.log_interval = 12


args = Arguments()
device = torch.device("cpu")
torch.manual_seed(args.seed)

# %%
digits = load_digits()
order = torch.randperm(len(digits.images))
images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1)[order] / 16
labels = torch.tensor(digits.target)[order]
federated_train_loader = sy.FederatedDataLoader(
    torch.utils.data.TensorDataset(images[:1500], labels[:1500]).federate((bob, alice)),
    batch_size=args.batch_size,
    shuffle=True,
)
test_loader = torch.utils.data.DataLoader(
    torch.utils.data.TensorDataset(images[1500:], labels[1500:]), batch_size=args.test_batch_size, shuffle=True
)


# %%
class Net(nn.Module):
    def __init__(self):
        super(Net, self).__init__()  # noqa: UP008
        self.conv1 = nn.Conv2d(1, 8, 3, 1)
        self.fc1 = nn.Linear(3 * 3 * 8, 32)
        self.fc2 = nn.Linear(32, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.max_pool2d(x, 2, 2)
        x = x.view(-1, 3 * 3 * 8)
        x = F.relu(self.fc1(x))
        x = self.fc2(x)
        return F.log_softmax(x, dim=1)


# %%
def train(args, model, device, federated_train_loader, optimizer, epoch):
    model.train()
    for batch_idx, (data, target) in enumerate(federated_train_loader):
        model.send(data.location)
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        output = model(data)
        loss = F.nll_loss(output, target)
        loss.backward()
        optimizer.step()
        model.get()
        if batch_idx % args.log_interval == 0:
            loss = loss.get()
            seen, total = batch_idx * args.batch_size, len(federated_train_loader) * args.batch_size
            print(f"epoch {epoch}: {seen}/{total}, loss {loss.item():.4f}")


def test(args, model, device, test_loader):
    model.eval()
    test_loss, correct = 0, 0
    with torch.no_grad():
        for data, target in test_loader:
            data, target = data.to(device), target.to(device)
            output = model(data)
            test_loss += F.nll_loss(output, target, reduction="sum").item()
            pred = output.argmax(1, keepdim=True)
            correct += pred.eq(target.view_as(pred)).sum().item()
    print(f"test: loss {test_loss / len(test_loader.dataset):.4f}, {correct} of {len(test_loader.dataset)}")
    return correct / len(test_loader.dataset)


# %%
model = Net().to(device)
model(images[:1])  # displayed: the kernel keeps it while the model is sent

# %%
optimizer = optim.SGD(model.parameters(), lr=args.lr, momentum=args.momentum)
for epoch in range(1, args.epochs + 1):
    train(args, model, device, federated_train_loader, optimizer, epoch)
    accuracy = test(args, model, device, test_loader)

# %%
assert accuracy >= 0.85
torch.save(model.state_dict(), "/dev/null")
