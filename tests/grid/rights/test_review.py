"""A study with twelve requests, half of them bad: the owner is warned of these, and of no other."""

from __future__ import annotations

import http.client
import json

import pytest
import torch
from sklearn.datasets import load_breast_cancer

import syft as sy
from syft.messaging.message import ErrorMessage, ForceObjectDeleteMessage
from tests.helpers.nodes import forget
from tests.helpers.nodes import node as node_process
from tests.helpers.rights.users import Peer

FEATURES, LABELS = load_breast_cancer(return_X_y=True)
X, Y = torch.tensor(FEATURES, dtype=torch.float32), torch.tensor(LABELS, dtype=torch.float32)


@pytest.fixture(scope="module")
def place():
    with node_process("review-clinic", users={"owner": "owner", "alice": "user"}) as process:
        yield process


@pytest.fixture
def clinic(place, hook):
    """The node with three data sets of its owner."""
    owner = Peer(place, "owner")
    try:
        if type(owner.get("biopsies")) is ErrorMessage:
            for name, values in (("biopsies", X), ("diagnosis", Y), ("sizes", X[:, :3])):
                owner.send_tensor(values.clone().tag(f"#{name}"), name, published=True)
        yield place
    finally:
        owner.close()


@pytest.fixture
def alice(clinic, hook):
    worker = clinic.connect(hook, "alice")
    yield worker
    forget(hook, worker)


def call(clinic, method, path, body=None, user="owner"):
    connection = http.client.HTTPConnection("127.0.0.1", clinic.port, timeout=60)
    headers = {"Authorization": f"Bearer {clinic.tokens[user]}", "Content-Type": "application/json"}
    connection.request(method, f"/v1/{path}", None if body is None else json.dumps(body), headers)
    response = connection.getresponse()
    status, text = response.status, response.read()
    connection.close()
    return status, json.loads(text) if text else None


def review(clinic, request):
    status, row = call(clinic, "POST", f"requests/{request.id}/review", {})
    assert status == 200, row
    return row


def kinds(row):
    return [warned["kind"] for warned in row["review"]["warnings"]]


def approve(clinic, request):
    assert call(clinic, "POST", f"requests/{request.id}/approve", {})[0] == 200


@sy.func2plan(args_shape=[(569, 30), (569,)])
def logistic_regression(x, y):
    z = (x - x.mean(0)) / x.std(0)
    w = torch.zeros(30)
    for _ in range(10):
        w = w - z.t() @ (torch.sigmoid(z @ w) - y) / 569
    return w


def test_twelve_requests(clinic, alice):
    (x,), (y,), (sizes,) = alice.search("#biopsies"), alice.search("#diagnosis"), alice.search("#sizes")
    plan = logistic_regression.send(alice)
    good = {
        "means of all columns": lambda: x.mean(0),
        "standard deviations": lambda: x.std(0),
        "how many have a mean radius above 15": lambda: (x[:, 0] > 15).sum(),
        "correlations of five columns": lambda: torch.corrcoef(x[:, :5].t()),
        "means of the benign biopsies": lambda: (x * y.unsqueeze(1)).sum(0) / y.sum(),
        "coefficients of a logistic regression": lambda: plan(x, y),
    }
    for reason, compute in good.items():
        request = compute().request(reason=reason)
        row = review(clinic, request)
        assert row["review"]["warnings"] == [] and row["verified"], (reason, row["review"])
        approve(clinic, request)

    bad = {
        "one patient, for a case study": (lambda: x[17], "few rows"),
        "some examples": (lambda: x[100:150] * 1, "rows"),
        "means, without the first patient": (lambda: x[1:].mean(0), "difference"),
        "the average risk": (lambda: x[7].max(), "reason"),
        "scores of the model": (lambda: x @ torch.ones(30).send(alice), "many numbers"),
    }
    for reason, (compute, kind) in bad.items():
        assert kind in kinds(review(clinic, compute().request(reason=reason))), reason
    stale = sizes.mean(0).request(reason="means of the sizes")
    owner = Peer(clinic, "owner")
    owner.ask(ForceObjectDeleteMessage("sizes"))
    assert kinds(review(clinic, stale)) == ["stale"]
    owner.close()


def test_the_user_sees_nothing_of_a_review(clinic, alice):
    (x,) = alice.search("#biopsies")
    request = x[3].request(reason="one patient")
    row = review(clinic, request)
    assert row["review"]["preview"][0]["values"][0] == pytest.approx(float(X[3, 0]))
    status, seen = call(clinic, "GET", "requests", user="alice")
    (mine,) = [row for row in seen if row["id"] == request.id]
    assert mine["review"] is None and mine["verified"] is None and status == 200
    assert (
        "review" not in vars(request) and call(clinic, "POST", f"requests/{request.id}/review", {}, "alice")[0] == 403
    )


def test_releases_count_after_their_approval_is_over(clinic, alice):
    (y,) = alice.search("#diagnosis")
    first = y.sum().request(reason="how many are benign")
    approve(clinic, first)
    assert call(clinic, "DELETE", f"grants/{first.id}")[0] == 204
    row = review(clinic, y[:-1].sum().request(reason="how many are benign"))
    assert "difference" in kinds(row) and first.id in row["review"]["compared"]


def test_random_results_are_not_verified(clinic, alice):
    (y,) = alice.search("#diagnosis")
    row = review(clinic, (y.sum() + torch.rand(()).send(alice) * 0 + torch.rand_like(y).sum()).request(reason="noise"))
    assert kinds(row) == ["not verified"] and row["review"]["preview"]
