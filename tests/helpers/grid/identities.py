"""Helpers of the tests of identities."""

import base64
import json
import tempfile
import threading
import weakref

import jwt
import pytest

from syft.exceptions import AuthenticationError
from syft.grid.identity import Revocations
from syft.grid.identity.database import Database

NOW = 1_800_000_000.0


class Clock:
    """A clock that is set by hand."""

    def __init__(self, now=NOW):
        self.now = now

    def __call__(self):
        return self.now


def claims_of(token):
    """Return the claims of a token without verifying it."""
    return jwt.decode(token, options={"verify_signature": False})


def signed_again(tokens, **changed):
    """Return a token of the node itself with other claims."""
    claims = claims_of(tokens.issue("alice", "owner", 60))
    return jwt.encode({**claims, **changed}, tokens._key, algorithm="EdDSA")


_folders = []


def new_revocations():
    """Return the revocations of a new node; the file is closed with them, its folder is deleted when the tests end."""
    _folders.append(tempfile.TemporaryDirectory())
    database = Database(_folders[-1].name)
    revocations = Revocations(database)
    weakref.finalize(revocations, database.close)
    return revocations


def part(value):
    """One part of a token."""
    written = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(written).rstrip(b"=").decode()


def refused(tokens, token, match="not a valid token of this node"):
    """Asserts that a token is refused, and that no error says what it was."""
    with pytest.raises(AuthenticationError, match=match) as caught:
        tokens.read(token)
    assert caught.value.__cause__ is None and caught.value.__context__ is None
    if isinstance(token, str) and len(token) > 20:
        assert token not in str(caught.value) and token[-20:] not in str(caught.value)


def in_threads(function, number):
    """Runs function(index) in `number` concurrent threads; none may raise."""
    errors = []

    def run(index):
        try:
            function(index)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    assert errors == [] and not any(thread.is_alive() for thread in threads)
