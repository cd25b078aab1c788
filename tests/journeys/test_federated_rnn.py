"""A recurrent network learns, letter by letter, which words are Python's own; each worker has some of the words."""

import builtins
import keyword
import string

import torch
import torch.nn.functional as F
from sklearn.metrics import roc_auc_score
from torch import nn

from syft.frameworks.torch.fl import utils

LETTERS = string.ascii_letters + "_"
CATEGORIES = ("keyword", "builtin")
LONGEST = 5
ROUNDS, BATCH = 10, 14


def all_words():
    """The words of both categories; True, False and None, which are both, are left out."""
    names = [word for word in dir(builtins) if not word.startswith("_") and word not in keyword.kwlist]
    others = [
        word for word in names if not str(getattr(getattr(builtins, word), "__module__", "")).startswith("IPython")
    ]
    return {"keyword": [word for word in keyword.kwlist if word.islower()], "builtin": others}


def line_to_tensor(word):
    """One-hot letters, one row for each of the last letters; short words begin with empty rows."""
    tensor = torch.zeros(LONGEST, len(LETTERS))
    for place, letter in enumerate(word[-LONGEST:].rjust(LONGEST)):
        if letter in LETTERS:
            tensor[place, LETTERS.index(letter)] = 1
    return tensor


def split(words):
    """Words to learn, and every fourth to test with; the smaller category is there as often as the other."""
    learned, held_out = [], []
    for number, category in enumerate(CATEGORIES):
        pairs = [(line_to_tensor(word), number) for word in words[category]]
        held_out += pairs[::4]
        mine = [pair for place, pair in enumerate(pairs) if place % 4]
        learned += mine * round(len(words["builtin"]) / len(pairs))
    return [(torch.stack([x for x, _ in part]), torch.tensor([y for _, y in part])) for part in (learned, held_out)]


class RNN(nn.Module):
    def __init__(self, input_size, hidden_size, output_size):
        super().__init__()
        self.hidden_size = hidden_size
        self.i2h = nn.Linear(input_size + hidden_size, hidden_size)
        self.i2o = nn.Linear(hidden_size, output_size)

    def forward(self, input, hidden):
        hidden = torch.tanh(self.i2h(torch.cat((input, hidden), 1)))
        return F.log_softmax(self.i2o(hidden), dim=1), hidden

    def read(self, lines, hidden):
        """Read words letter by letter, and return what is thought of them in the end."""
        for letters in lines.unbind(1):
            output, hidden = self(letters, hidden)
        return output


def train_on(worker, model, lines, categories, learning_rate):
    """A few steps at a worker, written out by hand; the sum of their losses stays there."""
    hidden = torch.zeros(BATCH, model.hidden_size).send(worker)
    total = 0
    for start in range(0, len(lines) - BATCH + 1, BATCH):
        model.zero_grad()
        output = model.read(lines[start : start + BATCH], hidden)
        loss = F.nll_loss(output, categories[start : start + BATCH])
        loss.backward()
        for parameter in model.parameters():
            parameter.data.add_(-learning_rate * parameter.grad.data)
        total = total + loss.detach()
    return total


def area_under_curve(model, lines, categories):
    """How often a word of one category is thought more likely to be of it than one of the other: by chance, a half."""
    with torch.no_grad():
        output = model.read(lines, torch.zeros(len(lines), model.hidden_size))
    return roc_auc_score(categories, output[:, 1])


def test_names_of_python(make_worker, nothing_left):
    workers = [make_worker("bob"), make_worker("alice", "thread"), make_worker("charlie", "bytes")]
    (lines, categories), held_out = split(all_words())
    mixed = torch.randperm(len(lines))
    parts = zip(workers, mixed.chunk(len(workers)), strict=True)
    data = {worker: (lines[part].send(worker), categories[part].send(worker)) for worker, part in parts}
    model = RNN(len(LETTERS), 24, len(CATEGORIES))
    before = area_under_curve(model, *held_out)
    losses = {worker.id: [] for worker in workers}
    for _ in range(ROUNDS):
        models = {}
        for worker, (x, y) in data.items():
            copied = model.copy().send(worker)
            loss = train_on(worker, copied, x, y, learning_rate=0.6)
            assert loss.location is worker and copied.location is worker
            losses[worker.id].append(loss.get().item())
            models[worker] = copied.get()
        model = utils.federated_avg(models)
    after = area_under_curve(model, *held_out)
    assert after >= 0.68 and after > before + 0.1, (before, after)
    assert all(told[-1] < 0.7 * told[0] for told in losses.values()), losses
    del data, x, y, loss, copied, models
    nothing_left(*workers)
