"""The page of a run: over HTTP while it runs, as a saved file, and in a real browser."""

from __future__ import annotations

import base64
import gc
import hashlib
import http.client
import json
import pickle
import re
import subprocess
import sys
import threading
from urllib.parse import urlsplit

import pytest
from torch import nn
from torch.nn.functional import cross_entropy

import syft as sy
from syft.exceptions import TrainingError
from tests.federated.server.test_callbacks import EXAMPLE, Flaky, fail
from tests.helpers.chromium import chromium, path_of_chromium

EVIL = "<img src=x onerror=alert(1)>"
SECONDS = 120


class Gated(Flaky):
    """A client that waits in round 2 until it may go on."""

    def __init__(self):
        super().__init__("gated", ())
        self.arrived, self.gate = threading.Event(), threading.Event()

    def call(self, run, name, payload, timeout=None):
        if payload.get("round") == 2:
            self.arrived.set()
            assert self.gate.wait(SECONDS)
        return super().call(run, name, payload, timeout)


def train(clients, rounds=3, **options):
    settings = {
        "model": nn.Linear(3, 2), "loss_fn": cross_entropy, "example": EXAMPLE, "batch_size": 8, "seed": 1,
        "progress": False, "watch": True, "evaluate": lambda model: {"accuracy": 0.5}, **options,
    }  # fmt: skip
    return sy.federated.run("fedavg", clients, rounds, **settings)


class Going:
    """A run in a thread, which is in its second round, and the address of its page."""

    def __init__(self, **options):
        self.client, self.result = Gated(), None

        def work():
            self.result = train([Flaky(EVIL, (1,), OSError(EVIL)), self.client], **options)

        self.thread = threading.Thread(target=work)
        self.thread.start()
        assert self.client.arrived.wait(SECONDS)

    def finish(self):
        self.client.gate.set()
        self.thread.join(SECONDS)
        return self.result


@pytest.fixture
def going(capfd):
    run = Going()
    run.url = re.search(r"Watch the run: (http://127\.0\.0\.1:\d+/[\w-]{32}/)\n", capfd.readouterr().err)[1]
    yield run
    run.finish()
    if run.result is not None:
        run.result.close()


def ask(url, path=None, **headers):
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=SECONDS)
    connection.request("GET", path or parts.path, headers={name.title(): value for name, value in headers.items()})
    answer = connection.getresponse()
    return answer.status, answer.headers, answer


# --- over HTTP --------------------------------------------------------------------------------------------------------


def test_the_page_of_a_run_in_progress_is_complete_without_javascript(going):
    status, headers, answer = ask(going.url)
    text = answer.read().decode()
    assert status == 200 and headers["Content-Type"] == "text/html; charset=utf-8"
    assert "Round 2 of 3" in text and "1 failed" in text and text.count("<svg") == 2 and "fedavg" in text.lower()
    assert '<noscript><meta http-equiv="refresh"' in text and '<a href="">Refresh</a>' in text
    assert EVIL not in text and "&lt;img src=x onerror=alert(1)&gt;: OSError" in text
    assert going.finish().rounds == 3
    ended = ask(going.url)[2].read().decode()
    assert "Complete: 3 of 3 rounds" in ended and "refresh" not in ended and "<script" not in ended


def test_the_policy_allows_only_the_script_and_the_style_of_the_page(going):
    _, headers, answer = ask(going.url)
    text, policy = answer.read().decode(), headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; ") and "unsafe" not in policy and "frame-ancestors 'none'" in policy
    for tag in ("script", "style"):
        (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert " style=" not in text and not re.search(r"(src|href)=\"(?!data:,|\")", text)
    expected = {"Cross-Origin-Resource-Policy": "same-origin", "Referrer-Policy": "no-referrer"}
    expected |= {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    assert {name: headers[name] for name in expected} == expected and "Python" not in str(headers)
    assert headers["Access-Control-Allow-Origin"] is None


def test_other_pages_and_guessed_addresses_are_refused(going):
    parts = urlsplit(going.url)
    for path in ("/", "/events", f"/{'x' * 32}/", f"{parts.path}other", parts.path[:-1], f"/x{parts.path}"):
        assert ask(going.url, path)[0] == 404, path
    for host in ("evil.example", f"evil.example:{parts.port}", "127.0.0.1", "127.0.0.1:1"):
        status, _, answer = ask(going.url, host=host)
        assert status == 403 and b"Round" not in answer.read(), host
    for path in (None, f"{parts.path}events"):
        assert ask(going.url, path, origin="http://evil.example")[0] == 403
    assert ask(going.url, host=f"localhost:{parts.port}", origin=f"http://localhost:{parts.port}")[0] == 200


def test_events_carry_the_sections_that_changed(going):
    _, headers, answer = ask(going.url, f"{urlsplit(going.url).path}events")
    assert headers["Content-Type"].startswith("text/event-stream")
    first = json.loads(answer.readline().removeprefix(b"data: "))
    assert set(first) == {"title", "status", "charts", "failures", "rounds"} and "Round 2 of 3" in first["title"]
    going.finish()
    shown, lines = dict(first), []
    for line in answer:  # ends with the run
        lines.append(line)
        if line.startswith(b"data: {"):
            shown |= json.loads(line.removeprefix(b"data: "))
    assert "Complete: 3 of 3 rounds" in shown["title"] and b"event: end\n" in lines
    assert shown["rounds"].count("<tr>") == 4 and EVIL not in str(shown)


def test_the_page_is_served_until_the_result_is_closed_or_gone(capfd):
    with train([Flaky("a", ())]) as result:
        url = result.page.url
        assert ask(url)[0] == 200 and result.page.is_open and pickle.loads(pickle.dumps(result)).page is None
    with pytest.raises(OSError):
        ask(url)
    result.close()
    result = train([Flaky("a", ())])
    thread, url = result.page._thread, result.page.url
    del result
    gc.collect()
    thread.join(SECONDS)
    assert not thread.is_alive()
    with pytest.raises(ZeroDivisionError) as caught:
        train([Flaky("a", ())], on_round=fail)
    assert "Ended: 1 of 3 rounds" in ask(caught.value.result.page.url)[2].read().decode()
    caught.value.result.close()


def test_the_budget_is_next_to_epsilon(capfd):
    privacy = sy.dp.UserPrivacy(noise_multiplier=4.0, clip=1.0, delta=1e-3, rate=1.0, target_epsilon=50.0)
    with train([Flaky("a", ()), Flaky("b", ())], privacy=privacy) as result:
        text = ask(result.page.url)[2].read().decode()
    assert f"{result.epsilon:.3g} of 50" in text and '<meter max="50"' in text


def test_an_interpreter_with_an_open_page_exits():
    code = """
import torch, syft as sy, urllib.request, threading
data = torch.randn(20, 2)
clients = sy.federated.Simulation((data, data.sum(1, keepdim=True)), 2)
result = sy.federated.run("fedavg", clients, 2, model=torch.nn.Linear(2, 1), loss_fn=torch.nn.functional.mse_loss, watch=True)
print(urllib.request.urlopen(result.page.url).status)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0 and done.stdout.strip() == "200" and "Watch the run: http://127." in done.stderr
    assert "Traceback" not in done.stderr


# --- saved ------------------------------------------------------------------------------------------------------------


def test_a_saved_page_is_one_file_without_references(tmp_path):
    result = train([Flaky("good", ()), Flaky(EVIL, (1, 2))], watch=False)
    result.save_page(tmp_path / "run.html")
    text = (tmp_path / "run.html").read_text()
    assert "Complete: 3 of 3 rounds" in text and text.count("<svg") == 2 and EVIL not in text
    assert "<script" not in text and "Content-Security-Policy" in text and result.page is None
    assert set(re.findall(r"https?://[^\"]+", text)) == {"http://www.w3.org/2000/svg"}
    result.history.save(tmp_path / "history.html")
    assert (tmp_path / "history.html").read_text().count("<svg") == 2
    for name in ("run.pdf", "run"):
        with pytest.raises(TrainingError, match=r"Use a name such as run\.html"):
            result.save_page(tmp_path / name)
    sy.federated.History().save(tmp_path / "empty.htm")
    assert "No round is complete yet" in (tmp_path / "empty.htm").read_text()


# --- in a browser -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser():
    executable = path_of_chromium()
    if executable is None:
        pytest.skip("there is no chromium on this machine: apt-get install chromium")
    with chromium(executable) as found:
        yield found


def test_a_browser_follows_a_run(going, browser):
    browser.look(375, 800)
    browser.open(going.url)
    assert browser.evaluate("document.title") == "Round 2 of 3 – federated run"
    browser.wait("document.querySelector('.tiles').innerText.includes('Elapsed')")
    assert browser.evaluate("document.documentElement.scrollWidth") <= 375
    browser.evaluate("window.kept = 1")  # a reload would lose it
    going.finish()
    browser.wait("document.title.startsWith('Complete: 3 of 3 rounds')")
    assert (
        browser.evaluate("window.kept") == 1 and browser.evaluate("document.querySelectorAll('tbody tr').length") == 4
    )
    assert browser.evaluate("document.querySelectorAll('img').length") == 0
    assert {urlsplit(url).netloc for url in browser.requests if url.startswith("http")} == {urlsplit(going.url).netloc}
    assert [text for text in browser.problems if "Content Security Policy" in text] == []


@pytest.mark.parametrize("width", [375, 1440])
def test_a_browser_shows_a_saved_page(width, browser, tmp_path):
    train([Flaky("good", ()), Flaky(EVIL, (1, 2))], watch=False).save_page(tmp_path / "run.html")
    colours = []
    for scheme in ("light", "dark"):
        browser.look(width, 800, scheme)
        browser.open((tmp_path / "run.html").as_uri())
        colours.append(browser.evaluate("getComputedStyle(document.body).backgroundColor"))
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert colours == ["rgb(246, 247, 249)", "rgb(20, 23, 27)"]
