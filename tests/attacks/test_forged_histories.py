"""The code that the owner sees describes the sealed copy completely, whatever the user tries."""

from __future__ import annotations

import contextlib
import threading
import time

import pytest
import torch

import syft as sy
from syft.core.references import Ref
from syft.exceptions import GetNotPermittedError
from syft.messaging import message as m
from syft.messaging.message import ErrorMessage, Operation
from tests.helpers.attacks.live_client import Visitor
from tests.helpers.attacks.private_data import SECRET, private_numbers
from tests.helpers.attacks.watchers import decide, http, requests_of
from tests.helpers.nodes import forget


@pytest.fixture
def visitor(hospital):
    with contextlib.closing(Visitor(hospital.url, hospital.tokens["bob"])) as made:
        yield made


@pytest.fixture(autouse=True)
def no_pending_requests(hospital):
    yield
    for row in requests_of(hospital, "bob", "pending"):
        decide(hospital, row["id"], "deny")


@pytest.fixture
def careful(hook, hospital):
    """The client of a user none of whose calls have failed."""
    client = hospital.connect(hook, "erin")
    yield client
    for row in requests_of(hospital, "erin", "pending"):
        decide(hospital, row["id"], "deny")
    forget(hook, client)


def id_of(visitor, tag):
    ((obj_id, *_),) = visitor.ask(m.SearchMessage([tag]))
    return obj_id


def asked(hospital, visitor, obj_id, user="bob"):
    """Request an object, and return the owner's view of the request, verified if it has a copy."""
    row = visitor.ask(m.RequestReleaseMessage(obj_id, "to see it"))
    assert not isinstance(row, ErrorMessage), row
    (row,) = [one for one in requests_of(hospital, user, "pending") if one["id"] == row["id"]]
    return row if row["problem"] or row["size"] is None else http(hospital, "POST", f"requests/{row['id']}/verify")


def released(hospital, visitor, row, obj_id):
    """Approve a request, and return the object that its user fetches."""
    decide(hospital, row["id"], "approve")
    return visitor.ask(m.ObjectRequestMessage((obj_id,)))


def test_a_result_does_not_take_the_id_of_published_data(hospital, visitor):
    patients, weather = id_of(visitor, "#patients"), id_of(visitor, "#weather")
    visitor.ask(Operation("torch.Tensor.sum", None, (Ref(patients),), {}, (10_001,)))  # loads it into the vault
    answer = visitor.ask(Operation("torch.Tensor.mean", None, (Ref(weather),), {}, (patients,)))
    assert isinstance(answer, ErrorMessage) and answer.contents[0] == "IdNotUniqueError"


def test_a_second_result_does_not_take_the_id_of_published_data(hospital):
    """The results of a call have ids that follow each other. The second one is not stored, so the call has failed."""
    with contextlib.closing(Visitor(hospital.url, hospital.tokens["dave"])) as visitor:
        patients, weather = id_of(visitor, "#patients"), id_of(visitor, "#weather")
        visitor.ask(Operation("torch.Tensor.sum", None, (Ref(patients),), {}, (10_002,)))
        visitor.ask(Operation("torch.Tensor.sort", None, (Ref(weather),), {}, (patients - 1,)))
        row = asked(hospital, visitor, patients, "dave")
        assert row["size"] is None and row["verified"] is None and "failed in the vault" in row["failure"]
        assert not isinstance(released(hospital, visitor, row, patients), torch.Tensor)


@pytest.mark.parametrize("through_a_view", [False, True])
def test_no_copy_is_kept_if_a_call_that_led_to_it_failed(hook, hospital, attacker, patients, through_a_view):
    """By its code all rows are 0, and they are not: an index is out of range, depending on values."""
    table = patients.clone()
    written = table.view(40, 20) if through_a_view else table
    written.index_fill_(0, torch.tensor([99, *range(40)]).send(attacker), 0.0)
    request = table.request(reason="a table of zeros")
    (row,) = [one for one in requests_of(hospital, "bob", "pending") if one["id"] == request.id]
    assert row["size"] is None and "index_fill_ failed in the vault" in row["failure"]
    decide(hospital, row["id"], "approve")
    with pytest.raises(GetNotPermittedError, match="there is no value"):
        table.get()


def test_calls_that_failed_elsewhere_do_not_matter(hospital, attacker, patients):
    other = patients.clone()
    other.index_fill_(0, torch.tensor([99]).send(attacker), 0.0)
    mean = patients.mean()
    request = mean.request(reason="the mean")
    (row,) = [one for one in requests_of(hospital, "bob", "pending") if one["id"] == request.id]
    assert row["failure"] == "" and row["specs"] == ["tensor float32 ()"]
    assert http(hospital, "POST", f"requests/{row['id']}/verify")["verified"]
    decide(hospital, row["id"], "approve")
    assert mean.get().item() == pytest.approx(SECRET)


def test_a_write_from_another_connection_is_in_the_code_or_not_in_the_copy(hospital, visitor):
    """A copy is requested at the point of the history that its code describes, however long slicing takes."""
    patients, weather = id_of(visitor, "#patients"), id_of(visitor, "#weather")
    visitor.ask(Operation("torch.Tensor.clone", None, (Ref(weather),), {}, (20_001,)))
    for number in range(30):  # records that take long to slice
        visitor.ask(Operation("torch.stack", None, ([Ref(20_001)] * 4000,), {}, (10**9 + number * 10**6,)))
        visitor.ask(m.ForceObjectDeleteMessage(10**9 + number * 10**6))
    with contextlib.closing(Visitor(hospital.url, hospital.tokens["bob"])) as other:
        for attempt in range(3):
            made = 10**10 + attempt * 10**6  # far from each other: the results of one call have ids that follow
            visitor.ask(Operation("torch.Tensor.clone", None, (Ref(patients),), {}, (made,)))
            visitor.ask(Operation("torch.Tensor.zero_", None, (Ref(made),), {}, ()))
            rows = []
            asking = threading.Thread(target=lambda made=made, rows=rows: rows.append(asked(hospital, visitor, made)))
            asking.start()
            time.sleep(0.02 * (attempt + 1))
            other.ask(Operation("torch.Tensor.copy_", None, (Ref(made), Ref(patients)), {}, ()))
            asking.join(60)
            (row,) = rows
            assert row["verified"] and row["specs"] == ["tensor float32 (40, 20)"]
            got = released(hospital, visitor, row, made)
            assert private_numbers(got) == 0 or "copy_" in row["code"]


def test_the_owner_sees_the_code_of_plans(hospital, careful):
    weight = torch.nn.Parameter(torch.ones(20))

    @sy.func2plan(args_shape=[(40, 20)])
    def column_means(x):
        return x[17] * weight

    result = column_means.send(careful)(careful.search("#patients")[0])
    request = result.request(reason="means")
    (row,) = [one for one in requests_of(hospital, "erin", "pending") if one["id"] == request.id]
    assert "x[17]" in row["code"] and row["problem"] == "" and row["failure"] == ""


def test_a_plan_without_state_computes_into_the_vault(hospital, careful):
    @sy.func2plan(args_shape=[(40, 20)])
    def total(x):
        return x.mean() * 2

    result = total.send(careful)(careful.search("#patients")[0])
    request = result.request(reason="twice the mean")
    (row,) = [one for one in requests_of(hospital, "erin", "pending") if one["id"] == request.id]
    assert row["failure"] == "" and "x.mean()" in row["code"]
    decide(hospital, row["id"], "approve")
    assert result.get().item() == pytest.approx(2 * SECRET)
