"""Small but whole models, for plans."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

import syft as sy


class MLP(nn.Module):
    """Two layers, with dropout in between."""

    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(6, 8)
        self.drop = nn.Dropout(0.3)
        self.out = nn.Linear(8, 3)

    def forward(self, x):
        return self.out(self.drop(torch.relu(self.hidden(x))))


class CNN(nn.Module):
    """Convolutions with batch norm and both kinds of pooling, flattened by its batch size."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(4)
        self.conv2 = nn.Conv2d(4, 6, 3)
        self.norm2 = nn.BatchNorm2d(6, momentum=0.3)
        self.pool = nn.AdaptiveAvgPool2d(2)
        self.out = nn.Linear(24, 3)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm1(self.conv1(x))), 2)
        x = self.pool(F.relu(self.norm2(self.conv2(x)), inplace=True))
        return self.out(x.view(x.shape[0], -1))


class LSTMClassifier(nn.Module):
    """Words to a class, by the last state of a two-layer LSTM."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 5, padding_idx=0)
        self.lstm = nn.LSTM(5, 7, num_layers=2, batch_first=True, bidirectional=True)
        self.out = nn.Linear(14, 3)

    def forward(self, words):
        embedded = self.embedding(words)
        start = torch.zeros(4, words.shape[0], 7)
        _, (state, _) = self.lstm(embedded, (start, start))
        return self.out(torch.cat([state[-2], state[-1]], dim=1))


class Block(nn.Module):
    """Attention of two heads, written out, and a feed-forward layer."""

    def __init__(self, width=8, heads=2):
        super().__init__()
        self.heads = heads
        self.joint = nn.Linear(width, 3 * width)
        self.mix = nn.Linear(width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.feed = nn.Sequential(nn.Linear(width, 16), nn.GELU(), nn.Dropout(0.1), nn.Linear(16, width))

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.joint(self.norm1(x)).chunk(3, dim=-1)
        q, k, v = (t.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for t in (q, k, v))
        weights = (q @ k.transpose(-2, -1) / math.sqrt(self.joint.in_features // self.heads)).softmax(-1)
        x = x + self.mix((weights @ v).transpose(1, 2).reshape(batch, length, width))
        return x + self.feed(self.norm2(x))


class Transformer(nn.Module):
    """An encoder of two blocks over embedded words, with positions made for the length at hand."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.positions = nn.Embedding(20, 8)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.out = nn.Linear(8, 3)

    def forward(self, words):
        x = self.embedding(words) + self.positions(torch.arange(words.size(1)))
        for block in self.blocks:
            x = block(x)
        return self.out(x.mean(dim=1))


class TorchTransformer(nn.Module):
    """The same of torch's own parts, which look at shapes and flags in Python."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        layer = nn.TransformerEncoderLayer(8, 2, dim_feedforward=16, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(8, 3)

    def forward(self, words):
        return self.out(self.encoder(self.embedding(words)).mean(dim=1))


def _reals(*shape):
    return lambda batch: torch.randn(batch, *shape)


def _words(length):
    return lambda batch: torch.randint(0, 11, (batch, length))


#: Each model, with a function that makes inputs of a batch size.
MODELS = {
    "mlp": (MLP, _reals(6)),
    "cnn": (CNN, _reals(1, 8, 8)),
    "lstm": (LSTMClassifier, _words(5)),
    "transformer": (Transformer, _words(6)),
    "torch-transformer": (TorchTransformer, _words(6)),
}


class Net(sy.Plan):
    """A plan by subclass: two layers, and a tensor of its own."""

    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(2, 3)
        self.fc2 = nn.Linear(3, 2)
        self.scale = torch.tensor([2.0])

    def forward(self, x):
        return self.fc2(F.relu(self.fc1(x))) * self.scale
