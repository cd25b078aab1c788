"""Advanced: a GRU learns to find spam at two owners, with clipped gradients."""

# %%
import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import nn

import syft as sy
from tests.helpers.spam import GRU, WORDS, messages

hook = sy.TorchHook(torch)
bob = sy.VirtualWorker(hook, id="bob")
anne = sy.VirtualWorker(hook, id="anne")

# %%
inputs, labels = messages(480)
test_inputs, test_labels = messages(200, seed=1)
federated_train_dataset = sy.FederatedDataset(
    [
        sy.BaseDataset(inputs[:240].clone(), labels[:240].clone()).send(bob),
        sy.BaseDataset(inputs[240:].clone(), labels[240:].clone()).send(anne),
    ]
)
federated_train_loader = sy.FederatedDataLoader(federated_train_dataset, shuffle=True, batch_size=40)

# %%
torch.manual_seed(1)
model = GRU(WORDS + 1)
criterion = nn.BCELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=1.5, momentum=0.5)
for e in range(4):
    losses = []
    for data, target in federated_train_loader:
        worker = data.location
        h = torch.Tensor(np.zeros((len(data), model.hidden_dim))).send(worker)
        model.send(worker)
        optimizer.zero_grad()
        output, _ = model(data, h)
        loss = criterion(output, target.float())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.4)
        optimizer.step()
        model.get()
        losses.append(loss.get().item())
    print(f"epoch {e}: {sum(losses) / len(losses):.4f}")

# %%
with torch.no_grad():
    predicted, _ = model(test_inputs, torch.zeros(len(test_inputs), model.hidden_dim))
auc = roc_auc_score(test_labels, predicted)
assert auc > 0.7
auc
