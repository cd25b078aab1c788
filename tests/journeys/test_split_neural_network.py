"""Split Neural Network 1, 2, 3: a model cut between parties, gradients passed back by hand."""

import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn, optim


class SplitNN:
    """Segments of a model, each at a worker; activations and gradients move, data and labels stay."""

    def __init__(self, segments, lr):
        self.segments = segments
        self.optimizers = [optim.SGD(segment.parameters(), lr=lr) for segment in segments]

    def forward(self, x):
        self.outputs, self.inputs = [], []
        for i, segment in enumerate(self.segments):
            if i:
                previous = self.outputs[-1]
                x = previous.detach().move(segment.location).requires_grad_()
            self.inputs.append(x)
            self.outputs.append(segment(x))
        return self.outputs[-1]

    def backward(self):
        for i in range(len(self.segments) - 1, 0, -1):
            gradient = self.inputs[i].grad.copy().move(self.outputs[i - 1].location)
            self.outputs[i - 1].backward(gradient)

    def zero_grad(self):
        for optimizer in self.optimizers:
            optimizer.zero_grad()

    def step(self):
        for optimizer in self.optimizers:
            optimizer.step()


def digits():
    images, labels = load_digits(return_X_y=True)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    images = torch.tensor(images, dtype=torch.float32)[order] / 16
    labels = torch.tensor(labels)[order]
    return images[:1500], labels[:1500], images[1500:], labels[1500:]


def train(split, data_at, labels_at, epochs=5, batch=64):
    train_x, train_y, test_x, test_y = digits()
    whole = nn.Sequential(*[segment.copy().get() for segment in split.segments])
    losses = []
    for _ in range(epochs):
        total = 0.0
        for start in range(0, len(train_x), batch):
            x = train_x[start : start + batch].send(data_at)
            y = train_y[start : start + batch].send(labels_at)
            split.zero_grad()
            prediction = split.forward(x)
            loss = nn.functional.nll_loss(prediction, y)
            loss.backward()
            split.backward()
            split.step()
            total += loss.detach().get().item()
        losses.append(total)
    assert losses[-1] < losses[0] / 2
    model = nn.Sequential(*[segment.get() for segment in split.segments])
    train_whole(whole, train_x, train_y, epochs, batch)
    for ours, theirs in zip(model.parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-2, atol=1e-3)
    accuracy = (model(test_x).argmax(1) == test_y).float().mean().item()
    split.outputs.clear(), split.inputs.clear()
    return accuracy


def train_whole(model, x, y, epochs, batch):
    """The same training without any cut."""
    optimizer = optim.SGD(model.parameters(), lr=0.3)
    for _ in range(epochs):
        for start in range(0, len(x), batch):
            optimizer.zero_grad()
            nn.functional.nll_loss(model(x[start : start + batch]), y[start : start + batch]).backward()
            optimizer.step()


@pytest.mark.parametrize("how", ["inline", "bytes"])
def test_1_two_segments_one_alice_one_bob(make_worker, nothing_left, how):
    torch.manual_seed(0)
    alice, bob = make_worker("alice", how), make_worker("bob", how)
    first = nn.Sequential(nn.Linear(64, 32), nn.ReLU()).send(alice)
    second = nn.Sequential(nn.Linear(32, 10), nn.LogSoftmax(dim=1)).send(bob)
    assert train(SplitNN([first, second], lr=0.3), alice, bob) >= 0.90
    nothing_left(alice, bob)


def test_2_three_segments(make_worker, nothing_left):
    torch.manual_seed(0)
    alice, bob, carol = make_worker("alice"), make_worker("bob"), make_worker("carol")
    segments = [
        nn.Sequential(nn.Linear(64, 48), nn.ReLU()).send(alice),
        nn.Sequential(nn.Linear(48, 32), nn.ReLU()).send(bob),
        nn.Sequential(nn.Linear(32, 10), nn.LogSoftmax(dim=1)).send(carol),
    ]
    assert train(SplitNN(segments, lr=0.3), alice, carol, epochs=20) >= 0.90
    nothing_left(alice, bob, carol)


def test_3_u_shape_labels_stay_with_the_data(make_worker, nothing_left):
    torch.manual_seed(0)
    alice, bob = make_worker("alice"), make_worker("bob")
    segments = [
        nn.Sequential(nn.Linear(64, 32), nn.ReLU()).send(alice),
        nn.Sequential(nn.Linear(32, 32), nn.ReLU()).send(bob),
        nn.Sequential(nn.Linear(32, 10), nn.LogSoftmax(dim=1)).send(alice),
    ]
    assert train(SplitNN(segments, lr=0.3), alice, alice, epochs=20) >= 0.90
    nothing_left(alice, bob)
