"""A node as its clients see it: logging in with a password, and models that are programs."""

import pytest
import torch

import syft as sy
from syft.exceptions import InvalidUserError, ModelError, SerdeError
from syft.grid.authentication import AccountCredential
from syft.workers.node_client import NodeClient
from tests.helpers.nodes import forget, node

PASSWORD = "correct horse battery staple"
CAROL = f"node.identity.users.add('carol', {PASSWORD!r})"
X = torch.tensor([[1.0, 2.0]])


@pytest.fixture(scope="module")
def hospital():
    with node("client-node", prepare=CAROL) as process:
        yield process


def script():
    with pytest.warns(DeprecationWarning):
        return torch.jit.script(torch.nn.Linear(2, 1))


def test_a_user_logs_in_with_a_password(hook, hospital):
    client = NodeClient(hook, hospital.url, AccountCredential("carol", PASSWORD))
    assert client.id == "client-node" and torch.ones(2).send(client).get().tolist() == [1.0, 1.0]
    forget(hook, client)


@pytest.mark.parametrize(("user", "password"), [("carol", "wrong horse battery"), ("nobody", PASSWORD)])
def test_unknown_users_get_a_clear_error(hook, hospital, user, password):
    with pytest.raises(InvalidUserError, match=r"^Invalid user\.") as found:
        NodeClient(hook, hospital.url, AccountCredential(user, password))
    assert isinstance(found.value, RuntimeError) and password not in str(found.value)
    assert "client-node" not in hook.local_worker._known_workers


def test_a_script_module_is_refused_and_the_owners_option_is_named(hook, hospital):
    client = hospital.connect(hook)
    with pytest.raises(SerdeError, match="node start --trust-script-modules"):
        client.serve_model(script(), "script", allow_remote_inference=True)
    assert client.models == []
    forget(hook, client)


def test_an_owner_may_trust_script_modules(hook):
    module = script()
    with node("trusting-node", trust_script_modules=True) as process:
        client = process.connect(hook)
        assert client.serve_model(module, "script", allow_remote_inference=True) is True
        forget(hook, client)
        bob = process.connect(hook, "bob")
        assert bob.models == ["script"]
        assert torch.equal(bob.run_remote_inference("script", X), module(X).detach())
        forget(hook, bob)


def test_an_encrypted_model_is_for_a_grid(hook, hospital):
    client = hospital.connect(hook)
    plan = sy.Plan(name="linear", forward_func=torch.nn.Linear(2, 1)).build(X)
    with pytest.raises(ModelError, match=r"PrivateGridNetwork\(\*nodes\)\.serve_model\(\.\.\., mpc=True\)"):
        client.serve_model(plan, "linear", mpc=True)
    assert client.models == []
    forget(hook, client)
