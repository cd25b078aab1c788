"""People at a node, and a clock that is set by hand."""

from __future__ import annotations

from syft.messaging import message as m
from tests.attacks.hostile import Mallory, error_name


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


class Peer(Mallory):
    """A connected user, who uses the same messages as everybody."""

    def __init__(self, worker, name, role="user"):
        super().__init__(worker, name)
        self.session.role = role

    def get(self, obj_id):
        return self.ask(m.ObjectRequestMessage((obj_id, None, "")))

    def send_tensor(self, tensor, obj_id, published=False):
        assert self.ask(m.ObjectMessage(tensor, obj_id, published)) is None

    def request(self, obj_id, reason="for a paper"):
        return self.ask(m.RequestReleaseMessage(obj_id, reason))

    def status(self, request):
        return self.ask(m.RequestStatusMessage(request["id"]))["status"]


def denied(response):
    return error_name(response) == "GetNotPermittedError"
