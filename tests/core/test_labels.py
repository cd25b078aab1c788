"""Tags are one line of text, at the client and at the worker, and lists have one row per object."""

from __future__ import annotations

import pytest
import torch

import syft as sy
from syft.cli.output import rows
from syft.core.labels import DESCRIPTION, TAGS, one_line
from syft.core.references import Ref
from syft.messaging import message as m
from syft.workers.access.policy import DenyAll

BROKEN = (
    "#a\nb", "#a\r", "\t#a", "#\x1b[2J", "#a\0", "#a\x85b", "#a\u2028b", "#a\u2029b", "#\u202eevil", "#a\x0bb", "#a\x7f",
)  # fmt: skip
FINE = ("#patients", "two words", "#Größe", "#日本語", "#👩\u200d🔬", "<b>", "#a:b/c-d_e", "")


@pytest.mark.parametrize("tag", BROKEN)
def test_tags_with_control_characters_are_refused_where_they_are_set(tag, bob):
    pointer = torch.ones(2).send(bob)
    for obj in (torch.ones(2), sy.String("text"), sy.LoggingTensor().on(torch.ones(2)), pointer):
        with pytest.raises(ValueError, match="The tag .* A tag is one line of text"):
            obj.tag("#good", tag)
        assert not obj.tags
    with pytest.raises(ValueError, match="The tag"):
        torch.ones(2).tags = {tag}


@pytest.mark.parametrize("tag", BROKEN)
@pytest.mark.parametrize("policy", [False, True])
def test_a_worker_refuses_them_from_clients_that_do_not_check(tag, policy, bob):
    if policy:
        bob.policy = DenyAll()
    x = torch.ones(2)
    x.__dict__[TAGS] = {tag}
    text = sy.String("text")
    text.tags = {tag}
    for obj in (x, text):
        with pytest.raises(ValueError, match="The tag"):
            sy.local_worker.send_msg(m.ObjectMessage(obj, "tagged", True), bob)
    assert "tagged" not in bob.object_store.objects
    sy.local_worker.send_msg(m.ObjectMessage(torch.ones(2), "plain"), bob)
    with pytest.raises((ValueError, RuntimeError)):
        sy.local_worker.send_msg(m.Operation("syft.tag", None, (Ref("plain"), tag), {}, ()), bob)
    assert not bob.object_store.objects["plain"].tags


def test_other_tags_and_descriptions_of_several_lines_are_fine(bob):
    x = torch.ones(2).tag(*FINE).describe("one\n\ttwo")
    pointer = x.send(bob)
    held = bob.object_store.objects[pointer.id_at_location]
    assert held.tags == set(FINE) and held.description == "one\n\ttwo"


def test_descriptions_with_control_characters_are_refused(bob):
    for text in ("\x1b[2J", "a\0", "\u202eevil"):
        with pytest.raises(ValueError, match="The description"):
            torch.ones(2).describe(text)
        with pytest.raises(ValueError, match="The description"):
            sy.String("text").describe(text)
        x = torch.ones(2)
        x.__dict__[DESCRIPTION] = text
        with pytest.raises(ValueError, match="The description"):
            sy.local_worker.send_msg(m.ObjectMessage(x, "described"), bob)


@pytest.mark.parametrize("tag", BROKEN)
def test_lists_have_one_row_per_object_whatever_an_old_store_holds(tag, capsys):
    rows(("id", "tags", "text"), [(tag, [tag, "#b"], tag), ("second", ["#c"], "d")], "nothing")
    lines = [line for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert len(lines) == 3 and lines[2].startswith("second")
    assert len(one_line(tag).splitlines()) == 1


def test_a_pointer_shows_tags_on_one_line(bob):
    x = torch.ones(2)
    pointer = x.send(bob)
    pointer.child.tags = {"#a\nb"}
    assert "Tags: #a b" in repr(pointer)
