"""What clients of a node see: suggestions for tags, budgets and requests as tables."""

from __future__ import annotations

import pytest
import torch

from syft.display import Rows
from tests.helpers.nodes import forget, node

PREPARE = """
from syft.grid.storage import ObjectAdmin
ObjectAdmin(node.object_manager).publish(torch.tensor([123.25, 91.0]), tags=("#patients",), description="<script>")
"""


@pytest.mark.usefixtures("hook")
def test_a_node_shows_itself_to_its_clients(hook):
    with node("showing", prepare=PREPARE) as process:
        alice, owner = process.connect(hook, "alice"), process.connect(hook, "owner")
        try:
            missed = alice.search("#patints")
            assert missed == [] and "Did you mean '#patients'?" in repr(missed)
            found = alice.search("#patients")
            assert "&lt;script&gt;" in found._repr_html_() and "<script>" not in found._repr_html_()
            assert "123.25" not in repr(found) + found._repr_html_()
            owner.budget.set(found[0].id_at_location, epsilon=2.0)
            budgets = alice.budget()
            assert isinstance(budgets, Rows) and budgets == list(budgets) and budgets[0]["left"] == 2.0
            assert "privacy budgets (1)" in repr(budgets) and "replace-one row" in budgets._repr_html_()
            assert "showing" in alice.budget._repr_html_() and process.url in alice._repr_html_()
            request = found[0].request(reason="a <b>study</b>")
            page = request._repr_html_()
            assert "pending" in page and "a &lt;b&gt;study" in page and "pending" in repr(request)
        finally:
            forget(hook, alice, owner)


def test_tags_that_a_search_does_not_show_are_not_suggested(hook, bob, monkeypatch):
    """Suggestions come from the same search, so they show what it shows and nothing else."""
    torch.ones(2).tag("#visible").send(bob)
    torch.ones(2).tag("#hidden").send(bob)
    stream = hook.local_worker.stream_to(bob)
    search = type(stream).search
    seen = lambda self, query: [row for row in search(self, query) if "#hidden" not in row[2]]  # noqa: E731
    monkeypatch.setattr(type(stream), "search", seen)
    assert "#visible" in repr(bob.search("#visibel"))
    assert bob.search("#hiden").hint == "" and "#hidden" not in repr(bob.search("#hiden"))
