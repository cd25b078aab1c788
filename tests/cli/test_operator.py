"""The first days of an operator: restarts, renewed certificates, data sets, and what errors say."""

import http.client
import json
import signal
import subprocess
import sys
import time

import pytest
import torch
from torch.utils.data import TensorDataset

import syft as sy
from syft.exceptions import AuthenticationError, GetNotPermittedError, NotPermittedError
from syft.federated.client.stored_dataset import StoredDataset
from syft.messaging.message import ObjectMessage
from tests.helpers.cli import Served, run
from tests.helpers.federated import samples


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    """Leave the logs of this process to pytest."""
    monkeypatch.setattr("syft.cli.start.start_log", lambda level: None)


class Hospital:
    """A node that is started, killed and started again on one store."""

    def __init__(self, folder):
        self.folder, self.clients = folder, []
        self.store = ("--store", folder / "store")
        self.start()

    def start(self, *words):
        self.served = Served(self.folder, "node", "start", "--id", "first-days", *self.store, "--threads", 1, *words)
        self.url = self.served.told["url"]

    def kill(self):
        self.forget()
        self.served.end(signal.SIGKILL)

    def connect(self, user, role="user"):
        self.forget()
        made = run("node", "tokens", "issue", "--user", user, "--role", role, *self.store)
        token = self.folder / f"{user}.token"
        token.write_text(made.out)
        token.chmod(0o600)
        self.clients.append(sy.connect(self.url, token=made.out, hook=sy.TorchHook(torch)))
        return self.clients[-1]

    def trainer(self, user):
        """Return a user who has sent a config, and keeps it."""
        client = self.connect(user)
        client.sent = samples.config()
        client.sent.send(client)
        return client

    def forget(self):
        for client in self.clients:
            client.close()
            sy.local_worker._known_workers.pop("first-days", None)
        self.clients.clear()

    @property
    def log(self):
        return self.served.log.read_text()


def wait_for(condition, seconds=30.0):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    assert condition()


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    made = Hospital(tmp_path_factory.mktemp("hospital"))
    yield made
    made.kill()


@pytest.fixture
def hospital(served, hook):
    yield served
    served.forget()


def test_data_sets_are_listed_shared_and_kept(hospital):
    owner = hospital.connect("olga", "owner")
    owner.add_dataset(TensorDataset(samples.XOR, samples.XOR_TARGET), "pat")
    with pytest.raises(ValueError, match="already"):
        owner.add_dataset(samples.xor(), "pat")
    hospital.kill()  # what was acknowledged is on disk
    hospital.start()
    assert "data set: samples 4x2, targets 4x1" in hospital.log
    (row,) = json.loads(run("node", "data", "list", *hospital.store, "--json").out)
    assert (row["id"], row["kind"]) == ("dataset:pat", "dataset")
    assert run("node", "budget", "set", "--data", "dataset:pat", "--epsilon", "1", *hospital.store).code == 0
    alina = hospital.trainer("alina")
    with pytest.raises(GetNotPermittedError):
        alina.fit("pat").get()
    assert run("node", "data", "share", "dataset:pat", "--user", "alina", *hospital.store).code == 0
    with pytest.raises(GetNotPermittedError, match="moved into the vault"):
        alina.fit("pat")  # the model was trained there before
    alina = hospital.trainer("alina")
    assert type(alina.fit("pat")) is torch.Tensor
    hospital.kill()
    hospital.start()
    alina = hospital.trainer("alina")
    assert type(alina.fit("pat")) is torch.Tensor  # the right to it is kept too
    assert run("node", "data", "delete", "dataset:pat", *hospital.store).code == 0
    with pytest.raises(ValueError, match="has no data set 'pat'"):
        alina.fit("pat")
    # A new one of the same name is nobody's until that is said.
    hospital.connect("olga", "owner").add_dataset(samples.xor(), "pat")
    alina = hospital.trainer("alina")
    with pytest.raises(GetNotPermittedError):
        alina.fit("pat").get()
    hospital.connect("olga", "owner").remove_dataset("pat")
    assert run("node", "data", "list", *hospital.store, "--json").out == "[]\n"


def test_a_user_can_not_pass_something_off_as_a_data_set(hospital):
    alina = hospital.trainer("alina")
    stream = sy.local_worker.stream_to(alina)
    for obj in (StoredDataset(samples.XOR, samples.XOR_TARGET), torch.ones(2)):
        stream.post(ObjectMessage(obj, "dataset:forged"))
        with pytest.raises(NotPermittedError, match="reserved"):
            stream.synchronize()
        with pytest.raises(ValueError, match="has no data set"):
            alina.fit("forged")


def test_the_log_names_connections_and_refusals_with_reasons(hospital):
    alina = hospital.connect("alina")
    with pytest.raises(AuthenticationError):
        sy.connect(hospital.url, token="geheim.geheim.geheim", hook=sy.TorchHook(torch))
    refused = run("node", "users", "list", "--url", hospital.url, "--token-file", hospital.folder / "alina.token")
    assert refused.code == 1
    alina.close()
    wait_for(lambda: "alina (user) disconnected from 127.0.0.1" in hospital.log)
    assert "alina (user) connected from 127.0.0.1" in hospital.log
    assert "A client from 127.0.0.1 was refused: This is not a valid token" in hospital.log
    assert "was refused GET /v1/users: The role 'user' may not" in hospital.log
    assert "ASGI" not in hospital.log and "geheim" not in hospital.log


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("requests", "approve", "nothing"), "List them: python -m syft node requests list"),
        (("grants", "revoke", "nothing"), "List them: python -m syft node grants list"),
        (("budget", "remove", "--data", "dataset:x"), "List them: python -m syft node budget show"),
        (("requests", "list", "--status", "lost"), "status is one of 'pending', 'approved'"),
        (("users", "add", "x" * 500), "user has at most 256 characters"),
    ],
)
def test_errors_name_the_option_that_was_typed(hospital, words, text):
    found = run("node", *words, *hospital.store, given="correct horse\n")
    last = found.err.splitlines()[-1]
    assert found.code == 1 and text in last and "/v1" not in last and "Input" not in last


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--host", "192.0.2.1"), "--cert and --key"),
        (("--store", "postgresql://user:geheim@nowhere.example/db"), "--home FOLDER"),
        (("--cert", "nowhere.pem", "--key", "nowhere.key"), "python -m syft node certs"),
    ],
)
def test_failed_starts_name_options(words, text):
    found = run("node", "start", *words)
    assert found.code == 1 and text in found.err and found.err.count("\n") == 1 and "syft.grid" not in found.err


def test_a_store_belongs_to_one_node(hospital):
    found = run("node", "start", "--id", "other", *hospital.store)
    assert found.code == 1 and "belongs to the node 'first-days'" in found.err and "--id first-days" in found.err


@pytest.mark.parametrize("name", ["two words", "a/b", "", "-x", "a" * 101, "a:b", "x\n"])
def test_the_id_of_a_node_is_one_word(name):
    found = run("node", "start", "--no-store", f"--id={name}")
    assert found.code == 1 and "Use letters" in found.err


def test_files_that_are_published_twice_or_hold_something_else(hospital, tmp_path):
    table, module = tmp_path / "twice.csv", tmp_path / "module.pt"
    table.write_text("age,weight\n16777217,80.5\n")
    torch.save(torch.nn.Linear(2, 2), module)
    first = run("node", "data", "publish", table, *hospital.store)
    again = run("node", "data", "publish", table, *hospital.store)
    assert first.code == again.code == 0 and "here already" not in first.err and "#twice is here already" in again.err
    obj_id = first.out.split()[-1]
    assert run("node", "data", "export", obj_id, tmp_path / "out.csv", *hospital.store).code == 0
    assert (tmp_path / "out.csv").read_text() == "age,weight\n16777217,80.5\n"
    wrong = run("node", "data", "publish", module, *hospital.store)
    assert wrong.code == 1 and "save the state_dict()" in wrong.err and "weights_only" not in wrong.err
    assert len(wrong.err.splitlines()) == 2  # how the node was reached, and what is wrong


def test_a_file_that_a_running_node_has_no_room_for_is_named(tmp_path):
    torch.save(torch.zeros(2**18), tmp_path / "large.pt")
    node = Served(tmp_path, "node", "start", "--id", "small", "--store", tmp_path / "store", "--max-bytes", "100K")
    try:
        found = run("node", "data", "publish", tmp_path / "large.pt", "--store", tmp_path / "store")
        assert found.code == 1 and "large.pt was not published" in found.err and "--max-bytes" in found.err
    finally:
        node.end()


def test_metrics_have_help_texts(hospital):
    hospital.connect("alina").search("#twice")[0].sum().request(reason="counted")
    token = (hospital.folder / "alina.token").read_text().strip()
    line = http.client.HTTPConnection(hospital.url.removeprefix("ws://"), timeout=60)
    line.request("GET", "/metrics", headers={"Authorization": f"Bearer {token}"})
    told = line.getresponse().read().decode()
    line.close()
    assert "# TYPE syft_pending_requests gauge\nsyft_pending_requests 1\n" in told and "# HELP syft_objects" in told


def test_a_renewed_certificate_is_accepted_by_clients(tmp_path):
    assert run("node", "certs", "authority", tmp_path / "team", "--name", "T").code == 0
    issue = ("node", "certs", "issue", tmp_path / "certs", "--authority", tmp_path / "team", "--host", "127.0.0.1")
    assert run(*issue).code == 0
    files = ("--cert", tmp_path / "certs" / "node.pem", "--key", tmp_path / "certs" / "node.key")
    node = Served(tmp_path, "node", "start", "--id", "renewing", "--store", tmp_path / "store", *files)
    listing = ("node", "users", "list", "--store", tmp_path / "store")
    try:
        assert "renewed" not in run(*listing).err
        assert run(*issue).code == 0
        for words in (listing, (*listing, "--ca", tmp_path / "team" / "authority.pem")):
            found = run(*words)
            assert found.code == 0 and "was renewed: restart the node" in found.err, found.err
    finally:
        node.end()
    assert not (tmp_path / "store" / "identity" / "running.pem").exists()


@pytest.mark.parametrize("seconds", [0.3, 2.0])
def test_ctrl_c_while_it_starts_is_one_line_and_130(tmp_path, seconds):
    """At a real process, at some moments of its start: while Python, torch, or the node itself is being loaded."""
    words = [sys.executable, "-m", "syft", "node", "start", "--store", str(tmp_path / "store"), "--json"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    served, said = process.communicate(timeout=60)
    assert "Traceback" not in said
    if served:  # it was quicker than the signal, and has ended as a node does that runs
        assert process.returncode == 0
    else:
        assert process.returncode == 130 and said.count("\n") == 1
