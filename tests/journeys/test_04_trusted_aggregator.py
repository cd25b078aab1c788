"""Part 04: two models trained apart, moved to a third party, averaged there."""

import torch
from torch import nn, optim


def test_average_at_a_third_party(make_worker, kind, nothing_left):
    bob, alice, secure = make_worker("bob", kind), make_worker("alice", kind), make_worker("secure", kind)
    torch.manual_seed(0)
    data = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1.0]])
    target = torch.tensor([[0], [0], [1], [1.0]])
    bobs = data[:2].send(bob), target[:2].send(bob)
    alices = data[2:].send(alice), target[2:].send(alice)
    model = nn.Linear(2, 1)
    for _ in range(10):
        bobs_model, alices_model = model.copy().send(bob), model.copy().send(alice)
        bobs_opt = optim.SGD(bobs_model.parameters(), lr=0.1)
        alices_opt = optim.SGD(alices_model.parameters(), lr=0.1)
        for _ in range(10):
            for m, o, (x, y) in ((bobs_model, bobs_opt, bobs), (alices_model, alices_opt, alices)):
                o.zero_grad()
                loss = ((m(x) - y) ** 2).sum()
                loss.backward()
                o.step()
                loss = loss.get().data
        bobs_model.move(secure)
        alices_model.move(secure)
        assert bobs_model.location is secure
        with torch.no_grad():
            model.weight.set_(((alices_model.weight.data + bobs_model.weight.data) / 2).get())
            model.bias.set_(((alices_model.bias.data + bobs_model.bias.data) / 2).get())
    final = ((model(data) - target) ** 2).sum()
    assert final.item() < 0.1
    del bobs, alices, bobs_model, alices_model, bobs_opt, alices_opt, x, y, m, o, loss
    nothing_left(bob, alice, secure)
