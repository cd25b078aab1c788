"""The owner's view before a decision, and decisions that survive a restart."""

from __future__ import annotations

import contextlib
import urllib.parse

import pytest
import torch

import syft as sy
from syft.core.id_provider import short_id
from syft.core.labels import TAGS
from syft.exceptions import SyftError
from syft.messaging import message as m
from tests.helpers.attacks.live_client import Visitor
from tests.helpers.attacks.private_data import SECRET
from tests.helpers.attacks.watchers import http, requests_of
from tests.helpers.nodes import forget, node


def test_the_owner_sees_code_and_data_sets(hook, hospital):
    client = hospital.connect(hook, "carol")
    (weather,), (private,) = client.search("#weather"), client.search("#patients")
    whole = weather.mean() + 0 * private.sum()
    row_17, mean = private[17], private.mean(0)
    rows = {}
    for name, result in (("both", whole), ("row", row_17), ("mean", mean)):
        request = result.request(reason=name)
        (rows[name],) = [row for row in requests_of(hospital, "carol", "pending") if row["id"] == request.id]
    assert {data["name"] for data in rows["both"].get("data", ())} == {"#patients", "#weather"}
    assert {data["name"] for data in rows["row"]["data"]} == {"#patients"}, rows["row"]["code"]
    assert "[17]" in rows["row"]["code"] and "mean" in rows["mean"]["code"]
    assert rows["row"]["shape"] == rows["mean"]["shape"] == [20]
    assert rows["row"]["code"] != rows["mean"]["code"]
    forget(hook, client)


def test_a_revoked_share_stays_revoked(hook, tmp_path):
    """A data set of alice's was written to while she could read the table: its row kept that she could."""
    with node("kept", store=str(tmp_path / "store")) as process:
        owner, alice = process.connect(hook, "owner"), process.connect(hook, "alice")
        torch.zeros(3).tag("#before").send(alice)
        alice.synchronize()
        table = torch.full((3,), SECRET).tag("#table").send(owner)
        owner.synchronize()
        torch.zeros(3).tag("#after").send(alice)

        def share(public):
            http(process, "PUT", f"objects/{table.id_at_location}/users", {"users": [], "public": public})

        def fetch():
            return alice.search("#table")[0].copy().get()

        share(True)
        assert torch.equal(fetch(), torch.full((3,), SECRET))
        for tag in ("#before", "#after"):
            alice.search(tag)[0].copy_(alice.search("#table")[0])
        alice.synchronize()
        share(False)
        with pytest.raises(SyftError):
            fetch()
        forget(hook, owner, alice)
        process.stop()
        process.start()
        alice = process.connect(hook, "alice")
        with pytest.raises(SyftError):
            fetch()
        forget(hook, alice)


def test_a_tag_does_not_split_rows_of_the_owners_list(hook, hospital):
    """Sent past the check of the client."""
    tensor = torch.zeros(1)
    tensor.__dict__[TAGS] = {"#mine\n#patients public"}
    with contextlib.closing(Visitor(hospital.url, hospital.tokens["bob"])) as visitor:
        visitor.ask(m.ObjectMessage(tensor, 77_001, True))
        rows = http(hospital, "GET", "objects?limit=1000")
        visitor.ask(m.ForceObjectDeleteMessage(77_001))
    assert not [tag for row in rows for tag in row["tags"] if "\n" in tag]


LOOK_ALIKES = {"the id of a data set": "dataset:pat", "a tag": "#patients"}


@pytest.mark.parametrize("look_alike", ["the text of a number", *LOOK_ALIKES])
def test_ids_that_look_like_data_set_ids_are_refused(attacker, patients, hospital, look_alike):
    """The owner who names the data set would reach the object of the user."""
    obj_id = LOOK_ALIKES.get(look_alike, str(patients.id_at_location))
    with contextlib.closing(Visitor(hospital.url, hospital.tokens["bob"])) as visitor:
        answer = visitor.ask(m.ObjectMessage(torch.zeros(1), obj_id, True))
        if answer is None:
            visitor.ask(m.ForceObjectDeleteMessage(obj_id))
    assert isinstance(answer, m.ErrorMessage), f"{obj_id!r} was taken"


@pytest.mark.parametrize("tag", ["#totals", "totals", "20261118"])
def test_a_plan_is_not_allowed_by_the_tag_of_another(hook, hospital, patients, tag):
    """The owner who names alice's plan by its tag would allow bob's, whose id or tag is the same text."""

    @sy.func2plan(args_shape=[(40, 20)])
    def totals(x):
        return x.sum(0)

    @sy.func2plan(args_shape=[(40, 20)])
    def rows(x):
        return x[17] * 1.0

    alice = hospital.connect(hook, "alice")
    published = totals.tag(tag).send(alice)
    alice.synchronize()
    good = str(published.id_at_location)
    body = {"data": [str(patients.id_at_location)], "everybody": True, "max_outputs": 20}

    def show(named):
        return http(hospital, "GET", f"programs/code?object={urllib.parse.quote(named)}")

    def allow(named):
        return http(hospital, "POST", "programs", {**body, "object": named})

    taken = int(tag) if tag.isdigit() else tag
    with contextlib.closing(Visitor(hospital.url, hospital.tokens["bob"])) as bob:
        answer = bob.ask(m.ObjectMessage(rows, taken, True))
        assert isinstance(answer, m.ErrorMessage) is tag.startswith("#")
        if tag.startswith("#"):
            taken = 77_002
            bob.ask(m.ObjectMessage(rows.tag(tag), taken, True))
        for decide in (show, allow):
            with pytest.raises(RuntimeError, match="409") as refused:
                decide(tag)
            assert all(name in str(refused.value) for name in ("alice", "bob", good, str(taken)))
        bob.ask(m.ForceObjectDeleteMessage(taken))
    found = show(good), allow(good)
    assert all("sum" in each["code"] and each["publisher"] == "alice" for each in found)
    assert found[0]["hash"] == found[1]["hash"]
    http(hospital, "DELETE", f"programs/{found[1]['id']}")
    http(hospital, "DELETE", f"objects/{good}")
    forget(hook, alice)


def test_an_id_that_begins_another_is_not_taken_for_it(hook, hospital):
    """Texts show the first digits of an id, and users choose the ids of their objects."""
    client = hospital.connect(hook, "carol")
    (table,) = client.search("#patients")
    whole = table.id_at_location
    forget(hook, client)
    digits = int(short_id(whole))
    for chosen in (digits, whole + 1):
        with contextlib.closing(Visitor(hospital.url, hospital.tokens["bob"])) as visitor:
            visitor.ask(m.ObjectMessage(torch.zeros(1), chosen, True))
            try:
                for method, path, body in (
                    ("PUT", f"objects/{digits}/users", {"users": [], "public": False}),
                    ("DELETE", f"objects/{digits}", None),
                    ("PUT", "budget", {"data": str(digits), "epsilon": 1.0, "delta": 0.0}),
                    ("GET", f"programs/code?object={digits}", None),
                ):
                    with pytest.raises(RuntimeError, match="409"):
                        http(hospital, method, path, body)
                http(hospital, "PUT", f"objects/{whole}/users", {"users": [], "public": False})
            finally:
                visitor.ask(m.ForceObjectDeleteMessage(chosen))
