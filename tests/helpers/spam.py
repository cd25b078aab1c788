"""Messages and a network for the journeys about spam: made-up words as numbers, and a GRU written out by hand."""

from __future__ import annotations

import torch
from torch import nn

WORDS, LENGTH = 40, 8


def messages(count: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Made-up messages of word numbers from 1 on, zeros before them, and whether each is spam (1.0).

    All words are common to both kinds. In spam, a word of the first quarter is followed by one of the second.
    """
    generator = torch.Generator().manual_seed(seed)
    words = torch.randint(1, WORDS + 1, (count, LENGTH), generator=generator)
    spam = torch.rand(count, generator=generator) < 0.4
    quarter = WORDS // 4
    for row in spam.nonzero().flatten().tolist():
        for place in (LENGTH // 2 - 1, LENGTH - 2):
            offer = torch.randint(1, quarter + 1, (2,), generator=generator)
            words[row, place : place + 2] = offer + torch.tensor([0, quarter])
    lengths = torch.randint(LENGTH // 2 + 1, LENGTH + 1, (count, 1), generator=generator)
    words[torch.arange(LENGTH) < LENGTH - lengths] = 0
    return words, spam.float()


class GRUCell(nn.Module):
    """One step of a gated recurrent unit."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.of_input = nn.Linear(input_size, 3 * hidden_size)
        self.of_hidden = nn.Linear(hidden_size, 3 * hidden_size)

    def forward(self, x, h):
        reset_x, update_x, new_x = self.of_input(x).chunk(3, 1)
        reset_h, update_h, new_h = self.of_hidden(h).chunk(3, 1)
        reset, update = torch.sigmoid(reset_x + reset_h), torch.sigmoid(update_x + update_h)
        new = torch.tanh(new_x + reset * new_h)
        return update * h + (1 - update) * new


class GRU(nn.Module):
    """Reads words one after the other, and tells how likely a message is spam."""

    def __init__(self, vocab_size: int, embedding_dim: int = 8, hidden_dim: int = 12) -> None:
        super().__init__()
        self.hidden_dim = hidden_dim
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.gru_cell = GRUCell(embedding_dim, hidden_dim)
        self.fc = nn.Linear(hidden_dim, 1)

    def forward(self, x, h):
        """Return what is thought of each message, and the hidden state in the end."""
        for word in self.embedding(x).unbind(1):
            h = self.gru_cell(word, h)
        return torch.sigmoid(self.fc(h)).squeeze(1), h
