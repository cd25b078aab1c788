"""Objects that show themselves, by name: each with the facts that its text and its HTML must hold."""

from __future__ import annotations

import torch

import syft as sy
from syft.dp.accounting.events import GaussianNoise
from syft.federated.history.records import History, RoundRecord
from syft.federated.server.clients import LocalClient, WorkerClient
from syft.federated.server.run import Result
from syft.mpc.runtime.cost_meter import RunCost

SECRET = "123.25"  # a value of a tensor: never shown
ATTACK = "<script>alert(1)</script>"


class Answering:
    """The stream of a request: a request needs its location only."""

    def __init__(self, location):
        self.location = location


class Unsupported(torch.nn.Module):
    """A model with a call that encrypted tensors do not have."""

    def forward(self, x):
        """Call it."""
        return torch.lgamma(x)


def samples(bob, alice, carol):
    """Return {name: (object, facts of text and HTML)}."""
    x = torch.full((4, 2), float(SECRET))
    y = torch.zeros(4)
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 1))
    b, a, c = bob.id, alice.id, carol.id
    dataset = sy.BaseDataset(x, y).send(bob)
    federated = sy.BaseDataset(x, y).federate((bob, alice))
    history = History([RoundRecord(1, 0.9, {"accuracy": 0.5}), RoundRecord(2, 0.4, {ATTACK: 0.8})])
    result = Result(model, history, 2, 1.5, f"budget {ATTACK}", {"replace-one row": 1.5})
    config = sy.TrainConfig(batch_size=7, epochs=3, optimizer="Adam", optimizer_args={"lr": 0.25})
    shared = x.fix_prec(precision_fractional=4).share(bob, alice, crypto_provider=carol, protocol="fss")
    public, private = sy.keygen(n_length=1024)
    row = {
        "id": "r-17", "object": 5, "reason": "a study", "status": "denied", "at": 0.0, "decided_at": 1.0,
        "answer": f"too little {ATTACK}", "scope": None, "expires_at": None,
    }  # fmt: skip
    ledger = sy.dp.Ledger()
    ledger.set_limit(2.0, data=f"patients{ATTACK}")
    sent, encrypted = model.copy().send(bob), model.copy().fix_prec().share(bob, alice, crypto_provider=carol)
    part = model.copy()
    part[0].send(bob)
    optimizer = torch.optim.SGD(sent.parameters(), lr=0.5)
    with sy.count_messages() as count:
        torch.ones(2).send(bob)
    with sy.mpc.profile(show=False) as profile:
        shared + shared
    tagged = x.clone().tag(f"#{ATTACK}").describe(f"all {ATTACK}").send(bob)
    return {
        "pointer": (tagged, [b, ATTACK, "(4, 2)|[4, 2]"]),
        "multi-pointer": (x.send(bob, alice), [b, a, "MultiPointerTensor"]),
        "shared": (shared, [b, a, c, "fss", "(4, 2)", "4 dec|4 digits of base 10"]),
        "large": (y.fix_prec(storage="large"), ["LargePrecisionTensor", "3 dec|3 digits", "2**512"]),
        "crt": (y[:1].fix_prec(storage="crt"), ["CRTPrecisionTensor", "3 dec|3 digits", "10 moduli|10"]),
        "paillier": (torch.tensor([float(SECRET)]).encrypt(public), ["PaillierTensor", "(1,)", "1024"]),
        "private key": (private, ["PaillierPrivateKey"]),
        "private": (x.clone().private_tensor(allowed_users=(ATTACK,)), ["PrivateTensor", ATTACK, "(4, 2)"]),
        "worker": (bob, [b]),
        "dataset": (dataset, ["4", b]),
        "local dataset": (sy.BaseDataset(x, y), ["4", "here"]),
        "shared dataset": (sy.BaseDataset(x, y).fix_prec().share(bob, alice), ["4", b, a]),
        "federated": (federated, ["4", f"{b}", f"{a}", "2"]),
        "loader": (sy.FederatedDataLoader(federated, batch_size=2), ["batches: 2|batches", "batch size", b, a]),
        "worker client": (WorkerClient(bob, "patients"), [b, "patients"]),
        "local client": (LocalClient(f"c{ATTACK}", torch.utils.data.TensorDataset(x, y)), [ATTACK, "4"]),
        "simulation": (sy.federated.Simulation((x, y), 2), ["2", "4", "IID"]),
        "history": (history, ["2 rounds", "0.9", "0.4", ATTACK]),
        "round": (history[0], ["0.9", "accuracy"]),
        "result": (result, ["2 rounds", "budget", ATTACK, "1.5", "replace-one row", "0.4"]),
        "config": (config, ["7", "3", "Adam", "0.25"]),
        "strategy": (sy.federated.FedProx(mu=0.125), ["FedProx|fedprox", "0.125"]),
        "secure": (sy.federated.SecureAggregation(min_clients=5), ["min_clients", "5"]),
        "request": (sy.pointers.request.Request(Answering(bob), row), ["r-17", b, "denied", "too little", ATTACK]),
        "limit": (ledger.limits()[0], ["2", "patients", ATTACK]),
        "ledger": (ledger, ["limits", "patients", ATTACK, "2 of epsilon 2 left"]),
        "budgets": (ledger.standing(), ["patients", ATTACK, "2", "replace-one row"]),
        "mechanism": (sy.dp.Laplace(0.5, sensitivity=3), ["Laplace", "0.5", "3"]),
        "accountant": (sy.dp.Accountant().compose(GaussianNoise(1.0)) or sy.dp.Accountant(), ["rdp"]),
        "sample privacy": (sy.dp.SamplePrivacy(noise_multiplier=1.25), ["1.25", "noise_multiplier"]),
        "user privacy": (sy.dp.UserPrivacy(noise_multiplier=1.25, clip=0.5), ["1.25", "0.5"]),
        "module at a worker": (sent, ["Linear(in_features=2, out_features=3, bias=True)", f"at {b}"]),
        "shared module": (encrypted, ["Linear(in_features=3", b, a, c, "beaver", "3 digits of base 10"]),
        "module at two places": (part, [f"0 at {b}|0", f"at {b}", "here"]),
        "optimizer": (optimizer, ["SGD", "lr: 0.5", f"at {b}"]),
        "check": (sy.mpc.check(Unsupported(), y), ["1 thing", "not run on encrypted tensors", "lgamma"]),
        "profile": (profile, ["add", "operation"]),
        "messages": (count, ["1", "message"]),
        "cost": (RunCost(0.5, 3, 17, 19, 1), ["3", "17", "19"]),
        "grid": (sy.PrivateGridNetwork(bob, alice), [b, a]),
        "search": (bob.search(f"#{ATTACK}"), [b, ATTACK, "(4, 2)|[4, 2]"]),
        "search of a grid": (sy.PrivateGridNetwork(bob, alice).search(f"#{ATTACK}"), [b, ATTACK]),
        "optimizers": (sy.federated.Optims([bob.id], torch.optim.SGD(model.parameters(), lr=1.0)), ["SGD", b]),
    }
