"""Messages: the advice comes last, notebooks hide the library, and warnings point at the user's line."""

from __future__ import annotations

import subprocess
import sys
import traceback
import warnings

import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

import syft as sy
from syft.exceptions import GetNotPermittedError, SpentPointerError, SyftError
from syft.exceptions.remote_traceback import RemoteTraceback, facts_of
from syft.workers.websocket_client import WebsocketClientWorker, where_of
from tests.helpers.grid.node_processes import Fleet

# --- what comes last ------------------------------------------------------------------------------------------


def printed(error):
    """The lines that Python prints for an error."""
    return "".join(traceback.format_exception(error)).splitlines()


@pytest.mark.parametrize("kind", ["bytes", "thread"])
def test_t12_the_text_of_a_remote_error_comes_last(make_worker, kind):
    bob = make_worker("bob", kind)
    x = torch.zeros(2, 2).send(bob)
    with pytest.raises(IndexError) as caught:
        x[torch.tensor([9]).send(bob)].get()
    lines = printed(caught.value)
    assert lines[-1] == f"IndexError: {caught.value}"
    assert any(f"Traceback on worker '{bob.id}'" in line for line in lines)
    issued = [line for line in lines[:-1] if "The failing call was issued by" in line]
    assert len(issued) == (kind == "thread") and all(__file__ in line for line in issued)
    assert isinstance(caught.value.__cause__, RemoteTraceback) and "running torch" in facts_of(caught.value)


def test_t12_advice_is_the_last_line_of_a_program(tmp_path):
    """As a user sees it: a script that fails, on standard error."""
    script = tmp_path / "program.py"
    script.write_text(
        "import torch, syft as sy\n"
        "bob = sy.VirtualWorker(sy.TorchHook(torch), id='bob', serialize=True)\n"
        "x = torch.ones(2).send(bob)\n"
        "y = x.copy()\n"
        "sy.local_worker.request_obj(y.id_at_location, bob)\n"
        "y.get()\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=100)
    last = done.stderr.rstrip().splitlines()[-1]
    assert done.returncode == 1 and last.startswith("syft.exceptions.ObjectNotFoundError: Worker 'bob' holds no object")


def test_t12_errors_that_are_forwarded_keep_the_origin_before_the_text(make_worker):
    bob, alice = make_worker("bob", "bytes"), make_worker("alice", "bytes")
    x = torch.zeros(2, 2).send(alice).send(bob)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied") as caught:
        (x @ torch.zeros(3, 3).send(alice).send(bob)).get()
    lines = printed(caught.value)
    assert "shapes cannot be multiplied" in lines[-1]
    assert any(alice.id in line for line in lines[:-1])


# --- notebooks ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shell():
    found = InteractiveShell.instance(colors="nocolor")
    found.user_ns.update(sy=sy, torch=torch)
    yield found
    found.history_manager.end_session()
    InteractiveShell.clear_instance()


def shown(shell, code):
    with capture_output() as output:
        result = shell.run_cell(code)
    assert not result.success
    return [line for line in (output.stdout + output.stderr).splitlines() if line.strip()]


@pytest.mark.parametrize("kind", ["inline", "bytes", "thread"])
def test_t12_a_notebook_shows_a_few_lines_of_a_remote_error(shell, make_worker, kind):
    shell.user_ns["bob"] = make_worker("bob", kind)
    lines = shown(shell, "x = torch.zeros(2, 2).send(bob)\ny = x @ torch.zeros(3, 3).send(bob)\ny.get()")
    assert not [line for line in lines if "syft/" in line], lines
    assert lines[-1].startswith("RuntimeError: mat1 and mat2 shapes") and len(lines) < 15
    assert any("This happened on worker" in line for line in lines[:-1])
    shell.user_ns.update(x=None, y=None, bob=None)


def test_t12_a_notebook_names_the_line_that_issued_a_failed_call(shell, make_worker):
    shell.user_ns["bob"] = make_worker("bob", "thread")
    lines = shown(shell, "x = torch.zeros(2).send(bob)\ny = x[torch.tensor([9]).send(bob)]\nbob.synchronize()")
    assert lines[-1].startswith("IndexError: index 9 is out of bounds")
    assert any("The failing call was issued by" in line and "line 2" in line for line in lines[:-1]), lines
    shell.user_ns.update(x=None, y=None, bob=None)


# --- warnings -------------------------------------------------------------------------------------------------


def warned_line(function):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        function()
    (warning,) = [one for one in seen if "autograd history" in str(one.message)]
    with open(warning.filename) as file:
        return warning.filename, file.read().splitlines()[warning.lineno - 1].strip()


@pytest.mark.parametrize("kind", ["inline", "bytes"])
def test_t12_the_warning_about_autograd_history_points_at_the_users_line(make_worker, kind):
    bob, alice = make_worker("bob", kind), make_worker("alice", kind)
    x = torch.ones(2, requires_grad=True) * 2

    def send():
        return x.send(bob)  # the line of the send

    def send_to_two():
        return x.send(bob, alice)  # the line of the sends

    def local_worker_send():
        return sy.local_worker.send(x, bob)  # the line of the worker

    def encode():
        return x.fix_prec()  # the line of the encoding

    for function, line in (
        (send, "# the line of the send"),
        (local_worker_send, "# the line of the worker"),
        (encode, "# the line of the encoding"),
    ):
        name, source = warned_line(function)
        assert name == __file__ and source.endswith(line), (name, source)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        send_to_two()
    assert {one.filename for one in seen if "autograd history" in str(one.message)} == {__file__}


# --- addresses ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "[::]"])  # noqa: S104
def test_t12_the_address_of_all_interfaces_is_this_machine(hook, host):
    assert where_of(host, 8777, False, None, None).url == "ws://localhost:8777"
    with pytest.raises(ConnectionRefusedError) as refused:
        WebsocketClientWorker(hook, host, 1, id="nobody")
    assert "another machine" not in str(refused.value)


def test_t12_other_machines_still_need_tls():
    with pytest.raises(SyftError, match=r"'10.0.0.1' is another machine, which requires TLS"):
        where_of("10.0.0.1", 8777, False, None, None)


# --- models ---------------------------------------------------------------------------------------------------


def test_t12_a_refused_model_says_how_to_ask_for_a_model(hook):
    """The advice is a call that exists: it makes one request for all parameters."""
    with Fleet() as fleet:
        (ship,) = fleet.nodes("model-node", users=("alice",))
        owner, alice = (sy.connect(ship.url, token=ship.tokens[user], hook=hook) for user in ("owner", "alice"))
        torch.ones(4, 2).tag("#private").send(owner, garbage_collect_data=False)
        owner.synchronize()
        data = alice.search("#private")[0]
        model = torch.nn.Linear(2, 1).send(alice)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(data).sum().backward()
        optimizer.step()
        with pytest.raises(GetNotPermittedError) as refused:
            model.get()
        assert 'model.request(reason="...")' in str(refused.value) and "ptr.request" not in str(refused.value)
        assert printed(refused.value)[-1].endswith(str(refused.value).splitlines()[-1])
        request = model.request(reason="a linear model, for the report")
        assert request.status() == "pending"
        for node in (owner, alice):
            node.close()
            sy.local_worker._known_workers.pop(node.id, None)


def test_t12_spent_pointers_say_what_to_do_last(bob):
    x = torch.ones(2).send(bob)
    x.get()
    with pytest.raises(SpentPointerError) as caught:
        x.get()
    assert printed(caught.value)[-1].endswith("next time fetch a copy with ptr.copy().get().")
