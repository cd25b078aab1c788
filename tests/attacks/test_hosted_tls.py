"""Hosted encrypted models over TLS: certificates that name nodes, and a relay with a good certificate of its own."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading

import pytest
import torch

from syft.exceptions import SyftError
from syft.grid.certificates import client_context, issue, make_authority, server_context
from syft.grid.isolation.supervisor.peering import relay
from syft.mpc.serving import client as encrypted
from syft.workers.delegation import dialer
from syft.workers.delegation.grants import ADMIT
from syft.workers.transport.websocket import Endpoint
from tests.helpers.attacks.model_clients import CLASSES, FEATURES, QUESTION, client, facts_of, host, order, run
from tests.helpers.grid.node_processes import Fleet

HOSTS = ["localhost", "127.0.0.1"]
NAMES = ("a", "b", "dealer")
CIRCLE = "0123456789abcdef" * 2


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return make_authority(tmp_path_factory.mktemp("authority"), "town")


@pytest.fixture(scope="module")
def town(authority, tmp_path_factory):
    """Nodes with TLS, each with a certificate that names it; but for the dealer's, which names hosts only."""
    folder = tmp_path_factory.mktemp("certificates")
    with Fleet() as fleet:
        ships = []
        for name in NAMES:
            made = issue(authority, HOSTS, folder / name, node_id=None if name == "dealer" else name)
            tls = {"certificate": str(made.certificate), "key": str(made.key), "ca": str(authority.certificate)}
            ships += fleet.nodes(name, users=("alice",), **tls)
        yield ships


@pytest.fixture
def nodes(hook, town, authority):
    with client(hook, "alice", town, ca=str(authority.certificate)) as (found,):
        yield found


class Terminator:
    """A relay that ends TLS with a certificate of its own, and speaks TLS to the node behind it."""

    def __init__(self, port, made, ca):
        self._server, self._client = server_context(made.certificate, made.key), client_context(ca)
        self._target = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.bytes = 0
        self._open = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self._listener.accept()
                threading.Thread(target=self._relay, args=(sock,), daemon=True).start()

    def _relay(self, sock):
        with contextlib.suppress(OSError):
            ours = self._server.wrap_socket(sock, server_side=True)
            theirs = self._client.wrap_socket(socket.create_connection(self._target), server_hostname="localhost")
            # Two threads must not use one TLS connection at the same time, so they carry between plain sockets.
            near, far = relay(ours), relay(theirs)
            self._open += [near, far]
            threading.Thread(target=self._carry, args=(far, near), daemon=True).start()
            self._carry(near, far)

    def _carry(self, source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                self.bytes += len(data)
                target.sendall(data)
        for sock in (source, target):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def close(self):
        self._listener.close()
        for sock in self._open:
            sock.close()


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(7)
    return torch.nn.Linear(FEATURES, CLASSES)


def test_parties_prove_themselves_over_tls(nodes, model):
    host(model, nodes, "ab", "over-tls")
    cast = [nodes["a"], nodes["b"]]
    x = torch.tensor([[0.5, -1.0, 2.0, 0.25]])
    rows = [facts_of(node, "over-tls") for node in cast]
    assert torch.allclose(encrypted.ask_encrypted(cast, nodes["dealer"], rows, x), model(x), atol=1e-2)


@pytest.mark.parametrize("node_id", [None, "a"], ids=["no node", "the same node"])
def test_a_relayed_key_proof_is_refused_over_tls(nodes, model, authority, tmp_path, node_id):
    """A certificate of the team's authority lets a relay in between, but does not let it take part."""
    host(model, nodes, "ab", "relayed")
    between = Terminator(nodes["a"].port, issue(authority, HOSTS, tmp_path, node_id=node_id), authority.certificate)
    nodes["a"].peer_url = f"wss://localhost:{between.port}"
    try:
        with pytest.raises(SyftError, match="is not the node that this model was hosted with"):
            answer = run([nodes["a"], nodes["b"]], nodes["dealer"], facts_of(nodes["a"], "relayed"), QUESTION)
            pytest.fail(f"{between.bytes} bytes went through a relay for the answer {answer.tolist()}")
        assert between.bytes
    finally:
        between.close()


def test_a_certificate_of_another_node_is_refused(nodes, authority, caplog):
    ((token, proof, _),) = order(nodes["a"], ADMIT, CIRCLE, "b")
    where = Endpoint(nodes["a"].url, None, client_context(authority.certificate))
    dialer.connect(where, token, proof, "mpc-knock", 30, "a").close()
    dialer.open_pipe(where, token, proof, 30, "a").close()
    with pytest.raises(ConnectionError, match="certificate is for node 'a'"):
        dialer.connect(where, token, proof, "mpc-knock", 30, "b")
    with pytest.raises(ConnectionError, match="certificate is for node 'a'"):
        dialer.open_pipe(where, token, proof, 30, "b")
    assert not caplog.records


def test_a_certificate_without_a_node_id_is_accepted_with_a_warning(nodes, authority, caplog):
    ((token, proof, _),) = order(nodes["dealer"], ADMIT, CIRCLE, "a")
    where = Endpoint(nodes["dealer"].url, None, client_context(authority.certificate))
    with caplog.at_level(logging.WARNING, "syft.workers"):
        for _ in range(2):  # and says so once
            dialer.connect(where, token, proof, "mpc-knock", 30, "dealer").close()
    assert [record.getMessage().partition(".")[0] for record in caplog.records] == [
        f"The certificate of node 'dealer' at {nodes['dealer'].url} names no node id"
    ]
