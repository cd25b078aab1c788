"""Objects show their facts in text and HTML, escape what users wrote, send nothing, and show no values."""

from __future__ import annotations

import html
import html.parser
import re

import pytest
import torch

import syft as sy
from syft.display import FoundByWorker, Rows
from tests.display.samples import SECRET, samples
from tests.notebooks import kernel

# Elements that show text; everything else, scripts and addresses above all, is refused.
TAGS = set("div table tr th td pre br".split()) | set("svg g path line text rect circle polyline title style".split())
NO_HTML = {"private key", "optimizer"}
NAMES = """
    pointer, multi-pointer, shared, large, crt, paillier, private key, private, worker, dataset, local dataset,
    shared dataset, federated, loader, worker client, local client, simulation, history, round, result, config,
    strategy, secure, request, limit, ledger, budgets, mechanism, accountant, sample privacy, user privacy,
    module at a worker, shared module, module at two places, optimizer, check, profile, messages, cost, grid, search,
    search of a grid, optimizers
"""


@pytest.fixture
def shown(hook, bob, alice):
    return samples(bob, alice, sy.VirtualWorker(hook, id="carol"))


class Elements(html.parser.HTMLParser):
    """Collects elements, attributes and the text."""

    def __init__(self, source):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.text = set(), [], ""
        self.feed(source)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.attributes += attributes

    def handle_data(self, data):
        self.text += f"{data}\n"


def _holds(text, fact):
    return any(part in text for part in fact.split("|"))


def test_objects_show_their_facts(shown):
    assert [name.strip() for name in NAMES.split(",")] == list(shown)
    missing = []
    for name, (obj, facts) in shown.items():
        with sy.count_messages() as count:
            forms = {"repr": repr(obj), "str": f"{obj}"}
            if name not in NO_HTML:
                source = obj._repr_html_()
                page = Elements(source)
                assert page.tags <= TAGS, f"{name}: {page.tags - TAGS}"
                assert not re.search(r"url\(|https?://(?!www\.w3\.org)|background(-color)?:(?!transparent)", source), (
                    name
                )
                assert not [key for key, _ in page.attributes if key.startswith("on") or key in ("src", "href")], name
                forms["html"] = page.text
        assert count.messages == 0, f"showing {name} sent a message"
        for form in ("repr", "html"):
            missing += [(name, form, fact) for fact in facts if form in forms and not _holds(forms[form], fact)]
        assert not any(SECRET in text for text in forms.values()), f"{name} shows a value"
    assert missing == []


def test_texts_are_one_line_where_the_object_has_no_parts(shown):
    for name in ("dataset", "federated", "loader", "worker client", "config", "request", "ledger", "grid", "limit"):
        assert "\n" not in repr(shown[name][0]) and len(repr(shown[name][0])) < 400, name


def test_a_private_key_is_not_shown():
    _, private = sy.keygen(n_length=1024)
    assert not any(str(number) in repr(private) for number in (private.p, private.q))


def test_control_characters_do_not_reach_the_terminal():
    rows = Rows([{"user": "a\x1b[31mb", "reason": "two\nlines"}], "requests")
    assert "\x1b" not in repr(rows) and "\x1b" not in rows._repr_html_() and repr(rows).count("\n") == 3


def test_local_modules_are_shown_as_torch_does(hook):
    model = torch.nn.Linear(2, 1)
    assert repr(model) == "Linear(in_features=2, out_features=1, bias=True)" and model._repr_html_() is None
    assert "Parameters" not in repr(torch.optim.SGD(model.parameters()))


def test_a_module_shows_places_once(hook, bob):
    model = torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.Sequential(torch.nn.Linear(1, 1))).send(bob)
    assert repr(model).count("Parameters:") == 1 and repr(model).endswith(f"\nParameters: at {bob.id}")
    assert "Parameters" not in repr(model.get())


def test_rows_are_lists(hook):
    rows = Rows([{"user": "ann", "left": 0.123456}], "privacy budgets", ("user",))
    assert rows == [{"user": "ann", "left": 0.123456}] and rows[0]["user"] == "ann" and isinstance(rows, list)
    assert repr(rows).split("\n")[:2] == ["privacy budgets (1)", "user  left"] and "0.1235" in repr(rows)
    assert repr(Rows([], "privacy budgets")) == "<no privacy budgets>"
    many = Rows([{"n": number} for number in range(100)], "rows")
    assert "the first 30" in repr(many) and len(repr(many).split("\n")) == 33


def test_grids_find_dicts():
    assert FoundByWorker({}, ("#a",)) == {} and repr(FoundByWorker({}, ("#a",))) == "{}"


NOTEBOOK = """
# %%
import torch, syft as sy
hook = sy.TorchHook(torch)
bob, alice, carol = (sy.VirtualWorker(hook, id=name) for name in ("bob", "alice", "carol"))
# %%
torch.nn.Linear(2, 1).send(bob)
# %%
torch.ones(2).fix_prec().share(bob, alice, crypto_provider=carol)
# %%
torch.nn.Linear(2, 1)
# %%
sy.BaseDataset(torch.rand(4, 2), torch.zeros(4)).federate((bob, alice))
"""


def test_a_kernel_shows_html(tmp_path):
    story = tmp_path / "story.py"
    story.write_text(NOTEBOOK)
    _, module, shared, local, federated = (cell[0]["data"] if cell else {} for cell in kernel.run(story, times=1))
    assert "at bob" in module["text/html"] and module["text/plain"].endswith("Parameters: at bob")
    assert "crypto provider" in shared["text/html"] and "carol" in shared["text/plain"]
    assert "text/html" not in local and "Parameters" not in local["text/plain"]
    assert "alice" in federated["text/html"] and "4 samples" in federated["text/plain"]
