"""Advanced: word vectors from a poem of which each of two owners has a half."""

# %%
import torch
import torch.nn as nn
import torch.nn.functional as F

import syft as sy

hook = sy.TorchHook(torch)
bob = sy.VirtualWorker(hook, id="bob")
alice = sy.VirtualWorker(hook, id="alice")
test_sentence = """When forty winters shall besiege thy brow,
And dig deep trenches in thy beauty's field,
Thy youth's proud livery so gazed on now,
Will be a totter'd weed of small worth held""".split()
trigrams = [(test_sentence[i : i + 2], test_sentence[i + 2]) for i in range(len(test_sentence) - 2)]
vocab = sorted(set(test_sentence))
word_to_ix = {word: i for i, word in enumerate(vocab)}

# %%
context = torch.tensor([[word_to_ix[w] for w in words] for words, _ in trigrams])
target = torch.tensor([word_to_ix[word] for _, word in trigrams])
base = sy.BaseDataset(context, target)
federated_train_loader = sy.FederatedDataLoader(base.federate((bob, alice)), batch_size=1)


class NGramLanguageModeler(nn.Module):
    def __init__(self, vocab_size, embedding_dim, context_size):
        super().__init__()
        self.embeddings = nn.Embedding(vocab_size, embedding_dim)
        self.linear1 = nn.Linear(context_size * embedding_dim, 32)
        self.linear2 = nn.Linear(32, vocab_size)

    def forward(self, inputs):
        embeds = self.embeddings(inputs).view((1, -1))
        out = F.relu(self.linear1(embeds))
        return F.log_softmax(self.linear2(out), dim=1)


# %%
torch.manual_seed(1)
model = NGramLanguageModeler(len(vocab), 10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss_function = nn.NLLLoss()
losses = []
for _ in range(3):
    total_loss = 0.0
    for context_ptr, target_ptr in federated_train_loader:
        model.send(context_ptr.location)
        model.zero_grad()
        log_probs = model(context_ptr)
        loss = loss_function(log_probs, target_ptr)
        loss.backward()
        optimizer.step()
        model.get()
        total_loss += loss.get().item()
    losses.append(total_loss)
losses

# %%
assert losses[-1] < losses[0]
model.embeddings.weight[word_to_ix["winters"]]
