"""Advanced: a data set class of one's own, with max pooling and a federated loader (also the story of CIFAR10)."""

# %%
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, Dataset

import syft as sy

hook = sy.TorchHook(torch)
bob = sy.VirtualWorker(hook, id="bob")
alice = sy.VirtualWorker(hook, id="alice")


# %%
class DigitsDataset(Dataset):
    def __init__(self, first, last, transform=None):
        digits = load_digits()
        self.images = torch.tensor(digits.images[first:last]).float().unsqueeze(1)
        self.targets = torch.tensor(digits.target[first:last])
        self.transform = transform

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = self.images[index]
        return (image if self.transform is None else self.transform(image)), self.targets[index]


train_set = DigitsDataset(0, 600, transform=lambda image: image / 16)
federated_train_loader = sy.FederatedDataLoader(train_set.federate((bob, alice)), batch_size=50, shuffle=True)
test_loader = DataLoader(DigitsDataset(1600, 1797, transform=lambda image: image / 16), batch_size=197)
len(federated_train_loader)

# %%
torch.manual_seed(1)
model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(72, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
for _ in range(4):
    for data, target in federated_train_loader:
        model.send(data.location)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(data), target)
        loss.backward()
        optimizer.step()
        model.get()
    print(loss.get().item())

# %%
images, labels = next(iter(test_loader))
accuracy = (model(images).argmax(1) == labels).float().mean().item()
assert accuracy > 0.5
accuracy
