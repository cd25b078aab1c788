"""Word vectors from a poem of which each of two workers has a half: a model that tells the next word from two."""

import torch
import torch.nn.functional as F
from torch import nn, optim

import syft as sy

EMBEDDING_DIM, CONTEXT_SIZE, EPOCHS = 10, 2, 7

# William Shakespeare, from sonnet 18
TEXT = """
Shall I compare thee to a summer's day?
Thou art more lovely and more temperate:
Rough winds do shake the darling buds of May,
And summer's lease hath all too short a date:
Sometime too hot the eye of heaven shines,
And often is his gold complexion dimm'd;
And every fair from fair sometime declines,
By chance or nature's changing course untrimm'd;
""".split()


class LanguageModeler(nn.Module):
    def __init__(self, vocab_size):
        super().__init__()
        self.embeddings = nn.Embedding(vocab_size, EMBEDDING_DIM)
        self.linear1 = nn.Linear(CONTEXT_SIZE * EMBEDDING_DIM, 48)
        self.linear2 = nn.Linear(48, vocab_size)

    def forward(self, inputs):
        embeds = self.embeddings(inputs).view((-1, CONTEXT_SIZE * EMBEDDING_DIM))
        out = F.relu(self.linear1(embeds))
        return F.log_softmax(self.linear2(out), dim=1)


def test_trigrams(make_worker, nothing_left):
    bob, alice = make_worker("bob"), make_worker("alice")
    word_to_ix = {word: number for number, word in enumerate(dict.fromkeys(TEXT))}
    numbers = torch.tensor([word_to_ix[word] for word in TEXT])
    context, target = numbers.unfold(0, CONTEXT_SIZE, 1)[:-1], numbers[CONTEXT_SIZE:]
    assert [TEXT[0], TEXT[1]] == [list(word_to_ix)[number] for number in context[0]] and len(context) == len(target)

    federated = sy.BaseDataset(context, target).federate((bob, alice))
    loader = sy.FederatedDataLoader(federated, batch_size=1)
    assert len(loader) == len(target) == len(TEXT) - CONTEXT_SIZE

    model = LanguageModeler(len(word_to_ix))
    vectors = model.embeddings.weight.detach().clone()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(EPOCHS):
        total, seen = 0.0, []
        for there, wanted in loader:
            model.send(there.location)
            optimizer.zero_grad()
            loss = F.nll_loss(model(there), wanted)
            loss.backward()
            optimizer.step()
            model.get()
            total += loss.get().item()
            seen.append(there.location)
        losses.append(total / len(seen))
    assert seen == [bob] * len(federated[bob]) + [alice] * len(federated[alice])
    with torch.no_grad():
        accuracy = float((model(context).argmax(1) == target).float().mean())
    assert losses[-1] < 0.5 * losses[0] and accuracy >= 0.5, (losses, accuracy)
    assert bool((model.embeddings.weight != vectors).any(1)[context].all())  # every word has moved
    del federated, loader, there, wanted, loss, optimizer
    nothing_left(bob, alice)


def test_the_same_as_in_one_place(make_worker):
    """A step of a word that occurs twice in a batch, with the options of an embedding, is what torch does."""
    bob = make_worker("bob", "thread")
    words, target = torch.tensor([[1, 2], [1, 0]]), torch.tensor([0, 2])
    for options in ({}, {"padding_idx": 0}, {"scale_grad_by_freq": True}, {"max_norm": 0.5}):
        torch.manual_seed(1)
        local = nn.Sequential(nn.Embedding(3, 4, **options), nn.Flatten(), nn.Linear(8, 3))
        remote = local.copy().send(bob)
        for model, x, y in ((local, words, target), (remote, words.send(bob), target.send(bob))):
            optimizer = optim.Adam(model.parameters(), lr=0.1)
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        remote.get()
        for found, expected in zip(remote.parameters(), local.parameters(), strict=True):
            torch.testing.assert_close(found, expected)
