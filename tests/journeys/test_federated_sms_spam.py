"""Spam prediction: a GRU written out by hand learns from the messages of two workers, with clipped gradients."""

import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch import nn, optim

import syft as sy
from tests.helpers.spam import GRU, WORDS, messages

EPOCHS, BATCH_SIZE, CLIP, LEARNING_RATE = 5, 40, 0.4, 1.5


def area_under_curve(model, data, target):
    with torch.no_grad():
        predicted, _ = model(data, torch.zeros(len(data), model.hidden_dim))
    return roc_auc_score(target, predicted)


def train(model, loader, batches_of):
    """Return the loss of each epoch, and the norm of each gradient before it was clipped."""
    criterion = nn.BCELoss()
    optimizer = optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=0.5)
    losses, norms = [], []
    for _ in range(EPOCHS):
        total = 0.0
        for data, target in loader:
            worker = batches_of(data)
            h = torch.zeros(len(data), model.hidden_dim)
            if worker is not None:
                h = h.send(worker)
                model.send(worker)
            optimizer.zero_grad()
            output, _ = model(data, h)
            loss = criterion(output, target)
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            optimizer.step()
            if worker is not None:
                assert norm.location is worker and loss.location is worker
                model.get()
                norm, loss = norm.get(), loss.get()
            norms.append(norm.item())
            total += loss.item()
        losses.append(total / len(loader))
    return losses, norms


def test_spam_with_a_gru(make_worker, nothing_left):
    bob, anne = make_worker("bob"), make_worker("anne", "bytes")
    data, target = messages(480)
    test_data, test_target = messages(200, seed=1)
    federated_train_dataset = sy.FederatedDataset(
        [
            sy.BaseDataset(data[:240].clone(), target[:240].clone()).send(bob),
            sy.BaseDataset(data[240:].clone(), target[240:].clone()).send(anne),
        ]
    )
    federated_train_loader = sy.FederatedDataLoader(federated_train_dataset, batch_size=BATCH_SIZE)
    model = GRU(WORDS + 1)
    proxy = model.copy()
    losses, norms = train(model, federated_train_loader, lambda batch: batch.location)
    after = area_under_curve(model, test_data, test_target)
    assert after >= 0.9 and losses[-1] < 0.6 * losses[0], (after, losses)
    assert max(norms) > CLIP  # or there was nothing to clip

    plain = list(zip(data.split(BATCH_SIZE), target.split(BATCH_SIZE), strict=True))
    expected_losses, expected_norms = train(proxy, plain, lambda batch: None)
    assert losses == pytest.approx(expected_losses, rel=1e-3) and norms == pytest.approx(expected_norms, rel=1e-2)
    assert after == pytest.approx(area_under_curve(proxy, test_data, test_target), abs=0.01)
    del federated_train_dataset, federated_train_loader
    nothing_left(bob, anne)
