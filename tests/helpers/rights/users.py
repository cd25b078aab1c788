"""Users of a real node, who send the same messages as any client."""

from __future__ import annotations

import itertools

from syft.core.references import Ref
from syft.messaging import message as m
from tests.helpers.attacks.hostile_peer import error_name
from tests.helpers.attacks.live_client import Visitor

_number = itertools.count(1)


class Peer(Visitor):
    """A user who is connected to a node."""

    def __init__(self, process, name):
        super().__init__(process.url, process.tokens[name])
        self.name = name
        self.next_id = 10**6 * next(_number)

    def call(self, name, *args, return_id=None, **kwargs):
        """Ask for a call, and return the answer; the result is at `self.next_id` unless an id is given."""
        if return_id is None:
            self.next_id += 1000
            return_id = self.next_id
        return self.ask(m.Operation(name, None, args, kwargs, (return_id,)))

    def keep(self, name, *args, **kwargs):
        """Ask for a call that must succeed, and return a reference to its result."""
        response = self.call(name, *args, **kwargs)
        assert not isinstance(response, m.ErrorMessage), response
        return Ref(self.next_id)

    def get(self, obj_id):
        return self.ask(m.ObjectRequestMessage((obj_id, None, "")))

    def send_tensor(self, tensor, obj_id, published=False):
        assert self.ask(m.ObjectMessage(tensor, obj_id, published)) is None

    def share(self, obj_id, *users, public=False):
        return self.ask(m.ShareSourceMessage(obj_id, users, public))

    def request(self, obj_id, reason="for a paper"):
        return self.ask(m.RequestReleaseMessage(obj_id, reason))

    def status(self, request):
        return self.ask(m.RequestStatusMessage(request["id"]))["status"]

    def approve(self, request, expires=None, scope="result"):
        return self.ask(m.DecideRequestMessage(request["id"], True, scope, expires))

    def deny(self, request, answer=""):
        return self.ask(m.DecideRequestMessage(request["id"], False, answer=answer))


def denied(response):
    return error_name(response) == "GetNotPermittedError"
