"""Models of usual kinds, and their plain training on digits."""

from __future__ import annotations

import functools
import itertools

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn


@functools.cache
def digits(size: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    """Return images of digits [N, 1, size, size] with values of magnitude one, and their classes."""
    data = load_digits()
    images = torch.from_numpy(data.images).float().unsqueeze(1) / 8 - 1
    if size != 8:
        images = F.interpolate(images, (size, size), mode="bilinear")
    return images, torch.from_numpy(data.target)


def train(model: nn.Module, size: int, steps: int, rate: float = 3e-3, batch: int = 32) -> nn.Module:
    """Train a plain model for a few steps on digits, and set it to eval mode; the last 200 digits are left out."""
    images, classes = digits(size)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    model.train()
    for step in range(steps):
        rows = torch.arange(step * batch, (step + 1) * batch) % (len(images) - 200)
        optimizer.zero_grad()
        F.cross_entropy(model(images[rows]), classes[rows]).backward()
        optimizer.step()
    optimizer.zero_grad()
    return settle(model, images[:64])


def settle(model: nn.Module, images: torch.Tensor) -> nn.Module:
    """Set a model to eval mode, with the statistics that its batch norms find in some images."""
    norms = [part for part in model.modules() if isinstance(part, nn.BatchNorm2d)]
    for part in norms:
        part.reset_running_stats()
        part.momentum = None
    if norms:
        with torch.no_grad():
            model.train()(images)
    return model.eval()


class MLP(nn.Module):
    """Three layers, 784-128-64-10."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


class CNN(nn.Module):
    """The usual small network for 28x28 images of digits."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 20, 5)
        self.conv2 = nn.Conv2d(20, 50, 5)
        self.fc1 = nn.Linear(4 * 4 * 50, 500)
        self.fc2 = nn.Linear(500, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        x = F.relu(F.max_pool2d(self.conv2(x), 2))
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


class Block(nn.Module):
    """Two convolutions, and the input added to what they make of it."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(after)
        self.shortcut = nn.Sequential()
        if stride != 1 or before != after:
            self.shortcut = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(made)) + self.shortcut(x))


class ResNet18(nn.Module):
    """Eight blocks between a convolution with pooling and a linear layer: 18 layers with weights, 11 million of them."""

    def __init__(self, channels: int = 3, classes: int = 10) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, 64, 7, 2, 3, bias=False)
        self.norm = nn.BatchNorm2d(64)
        self.pool = nn.MaxPool2d(3, 2, 1)
        widths = [64, 64, 128, 256, 512]
        blocks = []
        for before, after in itertools.pairwise(widths):
            blocks += [Block(before, after, 1 if before == after else 2), Block(after, after, 1)]
        self.blocks = nn.Sequential(*blocks)
        self.last = nn.Linear(512, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.blocks(self.pool(F.relu(self.norm(self.conv(x)))))
        return self.last(F.adaptive_avg_pool2d(x, 1).flatten(1))


class LSTMClassifier(nn.Module):
    """Reads an image row by row."""

    def __init__(self, hidden: int = 32) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, hidden, batch_first=True)
        self.last = nn.Linear(hidden, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        output, _ = self.lstm(x.squeeze(1))
        return self.last(output[:, -1])


class TransformerClassifier(nn.Module):
    """Two encoder blocks over the rows of an image, with learned positions; the mean of all rows decides."""

    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.rows = nn.Linear(8, width)
        self.places = nn.Parameter(torch.randn(8, width) * 0.1)
        layer = nn.TransformerEncoderLayer(width, heads, 2 * width, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.last = nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = self.encoder(self.rows(x.squeeze(1)) + self.places)
        return self.last(made.mean(1))
