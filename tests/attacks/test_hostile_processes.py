"""Hostile session processes and vaults: they run any Python, gain nothing and affect no other user."""

from __future__ import annotations

import contextlib
import json
import random
import re
import sqlite3
import struct
import time
from pathlib import Path

import pytest
import torch

from syft.grid.isolation.supervisor.call_table import CALLS
from syft.grid.node import node as whole_node
from syft.serde import serialize
from tests.grid.isolation.supervisor.test_killed_processes import children_of
from tests.helpers.attacks.live_client import Visitor
from tests.helpers.attacks.taken_over import USER, TakenOverNode
from tests.helpers.attacks.watchers import RecordingLine, decide, http, requests_of, undisturbed
from tests.helpers.depth import deep
from tests.helpers.nodes import forget, soon

assert whole_node  # it fills the table of calls
ENVIRONMENT = "environment-of-the-owner-5173"
# Private values whose bytes are recognised wherever they turn up.
PATTERN = bytes(random.Random(7).choices(range(1, 120), k=64))
PRIVATE = torch.frombuffer(bytearray(PATTERN * 64), dtype=torch.int64)


class Target:
    """A node with private data, and mallory's connection to it, which records the bytes that she receives."""

    def __init__(self, folder, call_seconds):
        self.hook = self.owner = None
        self.log = folder / "log"
        prepare = (
            "import logging\n"
            f"logging.basicConfig(filename={str(self.log)!r}, level=logging.INFO)\n"
            "import threading, traceback\n"
            "def log_uncaught(info):\n"
            "    logging.error('UNCAUGHT in %s: %s', info.thread, ''.join(traceback.format_exception(info.exc_value)))\n"
            "threading.excepthook = log_uncaught\n"
            f"private = torch.frombuffer(bytearray({PATTERN * 64!r}), dtype=torch.int64).clone().tag('#patients')\n"
            "node.worker.load_data([private])"
        )
        self.node = TakenOverNode(
            "hospital",
            prepare=prepare,
            store=str(folder / "store"),
            env={"RESYFT_SECRET": ENVIRONMENT},
            call_seconds=call_seconds,
        )
        self.line = RecordingLine(self.node.port)

    def mallory(self):
        return Mallory(self.node.url.replace(f":{self.node.port}", f":{self.line.port}"), self.node.tokens[USER])

    def answers(self):
        """Whether a new connection of mallory is answered."""
        with contextlib.suppress(OSError), contextlib.closing(self.mallory()) as mallory:
            return mallory.does("print(6 * 7)") == "42\n"

    def end_process(self):
        """End mallory's session process: the next session has a new one, and a new vault."""
        with contextlib.closing(self.mallory()) as mallory:
            mallory.does("import os; os._exit(0)")

    def close(self):
        self.line.close()
        self.node.stop()


class Mallory(Visitor):
    """Mallory's connection: her requests are programs."""

    def does(self, program):
        """Run a program in her session process, and return what it printed; None if the session ended."""
        answer = self.send(program.encode())
        return None if answer is None else answer.decode("utf-8", "replace")


@pytest.fixture(scope="module")
def hospital(tmp_path_factory):
    with contextlib.closing(Target(tmp_path_factory.mktemp("hospital"), 20.0)) as made:
        yield made


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    """A node that ends calls soon, for programs that never end."""
    with contextlib.closing(Target(tmp_path_factory.mktemp("clinic"), 1.5)) as made:
        yield made


@pytest.fixture
def target(hook, hospital):
    hospital.hook, hospital.owner = hook, hospital.node.connect(hook, "owner")
    yield hospital
    forget(hook, hospital.owner)


@pytest.fixture
def mallory(target):
    with contextlib.closing(target.mallory()) as visitor:
        yield visitor


def secrets_of(target):
    """Bytes that no process of a user may see: tokens, the node's keys, the environment, private values."""
    found = {f"token of {user}": token.encode() for user, token in target.node.tokens.items() if user != USER}
    for path in Path(target.node.settings["store"]).rglob("*"):
        if path.is_file() and path.suffix in (".key", ".pem", ".secret"):
            found[path.name] = path.read_bytes()[:64]
    found["environment"] = ENVIRONMENT.encode()
    found["private values"] = PATTERN
    return found


# --- reading ------------------------------------------------------------------------------------------------------

SPY = """
import ctypes, glob, os, socket, subprocess
found, errors = [], {}
def attempt(name, function):
    try:
        found.append((name, function()))
    except BaseException as error:
        errors[name] = type(error).__name__
parents = [os.getppid(), *NODE]
for pid in parents:
    for name in ("mem", "environ", "maps", "cmdline", "status", "fd", "root", "cwd", "task"):
        attempt(f"/proc/{pid}/{name}", lambda: open(f"/proc/{pid}/{name}", "rb").read(100_000))
        attempt(f"list /proc/{pid}/{name}", lambda: os.listdir(f"/proc/{pid}/{name}"))
    attempt(f"ptrace {pid}", lambda: ctypes.CDLL(None, use_errno=True).ptrace(16, pid, 0, 0) or (_ for _ in ()).throw(OSError()) if False else 1 / (ctypes.CDLL(None).ptrace(16, pid, 0, 0) + 1))
    attempt(f"kill {pid}", lambda: os.kill(pid, 0))
for root in FOLDERS:
    attempt(f"list {root}", lambda: os.listdir(root))
    for path in FILES:
        attempt(f"read {path}", lambda: open(path, "rb").read(100_000))
        attempt(f"write {path}", lambda: open(path, "ab").write(b"x"))
attempt("tcp", lambda: socket.create_connection(("127.0.0.1", PORT), timeout=2))
attempt("udp", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", PORT)))
attempt("unix", lambda: socket.socket(socket.AF_UNIX).connect("/run/x"))
attempt("fork", os.fork)
attempt("exec", lambda: subprocess.run(["/bin/true"]))
attempt("environment", lambda: dict(os.environ).__repr__() if os.environ else 1 / 0)
"""


def spying(target):
    folders = [str(Path(target.node.settings["store"])), "/root", "/home", "/etc", "/dev/shm", "/tmp"]
    files = [str(path) for path in Path(target.node.settings["store"]).rglob("*") if path.is_file()]
    names = {
        "NODE": [target.node.pid],
        "FOLDERS": folders,
        "FILES": [*files, "/etc/passwd", "/etc/shadow"],
        "PORT": target.node.port,
    }
    return "".join(f"{name} = {value!r}\n" for name, value in names.items()) + SPY


def test_a_session_process_reads_no_key_token_file_or_other_process(target, mallory):
    printed = mallory.does(spying(target) + "print([name for name, _ in found]); print(repr(errors))")
    names = printed.splitlines()[0]
    assert names == "[]", names
    assert len(printed) > 500


def test_a_session_process_has_no_secret_in_its_memory(target, mallory):
    """Every object that its interpreter knows is searched, and all bytes and texts in them."""
    program = """
import gc
gc.unfreeze()
parts = {}
for part in gc.get_referents(*gc.get_objects()):
    if type(part) is str:
        parts[id(part)] = part.encode("utf-8", "replace")
    elif type(part) in (bytes, bytearray):
        parts[id(part)] = bytes(part)
joined = b" ".join(parts.values())
print(len(parts), [name for name, value in WANTED if value[::-1] in joined])
"""
    # The program itself must not contain them: they are sent backwards.
    backwards = [(name, value[::-1]) for name, value in secrets_of(target).items()]
    count, _, found = mallory.does(f"WANTED = {backwards!r}\n{program}").partition(" ")
    assert int(count) > 10_000 and found == "[]\n", found


def test_answers_of_the_supervisor_depend_on_no_private_value(target, mallory):
    """Neither checksums nor sizes on disk; and no sealed copy, before a decision."""
    program = """
from syft.core.references import Ref
from syft.grid.isolation.records.records import CallRecord, encode
(found,) = services.call("search", "#patients")
data = found[0]
print(services.ask("open", data, ""))
services.call("vault", body=encode(CallRecord("torch.Tensor.add", (Ref(data), 1), {}, (99,))))
row = services.call("request", 99, "why", "tensor", (512,), 4096, ())
print(row, services.call("items"), services.ask("open", "sealed:" + row["id"], ""))
print(repr(services.call("fetch", 99)))
for call in (("read", "sealed:" + row["id"], ""), ("read", data, ""), ("remove", "sealed:" + row["id"], None)):
    try:
        print(call[0], services.ask(*call))
    except Exception as error:
        print(call[0], type(error).__name__)
"""
    answer = mallory.does(program)
    item = target.owner.search("#patients")[0]
    rows = requests_of(target.node, USER)
    assert rows and rows[-1]["size"] > 100, (item, answer)
    store = Path(target.node.settings["store"]) / "index.sqlite"
    with contextlib.closing(sqlite3.connect(store)) as database:
        sums = [row[0] for row in database.execute("select checksum from objects")]
    assert sums
    assert not any(one in answer for one in sums)
    assert "is pending" in answer
    assert "read ObjectNotFoundError\nread ObjectNotFoundError\nremove Frame" in answer and "header=False" in answer
    assert PATTERN not in target.line.received
    told = http(target.node, "GET", "requests", user=USER)
    assert told and all(row["size"] is None and row["failure"] == "" for row in told)


def test_forged_ids_of_sealed_copies_are_refused(target, mallory):
    program = """
from syft.grid.isolation.records.items import write_item
from syft.grid.storage.interface import Item
from syft.core.references import ObjectMeta
for item in (Item("sealed:0123456789abcdef", ObjectMeta("sealed")), Item(5, ObjectMeta("sealed")), Item("sealed:ab", ObjectMeta("plan")), Item("dataset:x", ObjectMeta("plan"))):
    try:
        services.call("put", write_item(item), body=b"x")
        print("stored")
    except Exception as error:
        print(type(error).__name__)
"""
    assert mallory.does(program).split() == [
        "SerdeError",
        "SerdeError",
        "NotPermittedError",
        "NotPermittedError",
    ]


def test_the_supervisor_never_parses_the_bytes_of_a_user(target, mallory):
    """Garbage is stored, shared, searched and removed; a user who opens it gets an error of the own process."""
    program = """
from syft.grid.isolation.records.items import write_item
from syft.grid.storage.interface import Item
from syft.core.references import TensorMeta
import torch
item = Item(4711, TensorMeta(torch.Size([3]), torch.float32, False), frozenset({"#garbage"}))
services.call("put", write_item(item), body=b"\\xff garbage" * 50)
services.call("share", 4711, ("alice",), True)
services.call("share", 4711, ("alice",), False)
print("shared", len(services.call("search", "#garbage")))
"""
    assert mallory.does(program) == "shared 1\n"
    alice = target.node.connect(target.hook, "alice")
    (found,) = alice.search("#garbage")
    with pytest.raises(Exception):  # noqa: B017
        found.copy().get()
    assert torch.equal((torch.ones(2).send(alice) + 1).get(), torch.full((2,), 2.0))
    forget(target.hook, alice)
    assert mallory.does('print(services.call("remove", 4711, None))') == "True\n"


# --- forged calls -------------------------------------------------------------------------------------------------

OWNERS_ONLY = [
    ("list_rights", "requests", None), ("list_rights", "audit", None), ("list_rights", "grants", None),
    ("decide", "REQUEST", True, None, "result", ""), ("revoke", "REQUEST"),
    ("share", "PRIVATE", ("mallory",), True), ("budget", "limits", {}), ("budget", "entries", {"user": "alice"}),
    ("budget", "set", {"data": "PRIVATE", "epsilon": 1e9}),
]  # fmt: skip


def test_forged_calls_gain_no_more_than_the_rights_of_the_user(target, mallory):
    alice = target.node.connect(target.hook, "alice")
    theirs = torch.arange(3.0).tag("#of-alice").send(alice)
    (patients,) = target.owner.search("#patients")
    row = (alice.search("#patients")[0] + 1).request(reason="to see")
    values = {"REQUEST": str(row.id), "PRIVATE": patients.id_at_location, "ALICE": theirs.id_at_location}
    calls = [tuple(values.get(part, part) if isinstance(part, str) else part for part in call) for call in OWNERS_ONLY]
    calls[-1] = ("budget", "set", {"data": patients.id_at_location, "epsilon": 1e9})
    calls += [
        ("read", values["ALICE"], ""), ("read", values["PRIVATE"], ""), ("fetch", None, values["REQUEST"]),
        ("request_status", values["REQUEST"]), ("remove", values["ALICE"], None), ("remove", values["PRIVATE"], None),
        ("share", values["ALICE"], ("mallory",), True),
    ]  # fmt: skip
    program = f"""
for call in {calls!r}:
    try:
        frame = services.ask(*call)
        print("ANSWER", call[0], frame.header, len(frame.fds), bytes(frame.body[:20]))
    except Exception as error:
        print(type(error).__name__, call[0])
"""
    answers = mallory.does(program).splitlines()
    assert len(answers) == len(calls)
    granted = [line for line in answers if line.startswith("ANSWER")]
    assert granted == ["ANSWER fetch  0 b''", "ANSWER remove False 0 b''", "ANSWER remove False 0 b''"], granted
    assert requests_of(target.node, "alice")[-1]["status"] == "pending"
    assert torch.equal(theirs.copy().get(), torch.arange(3.0))
    forget(target.hook, alice)


FUZZ = """
import random, struct, msgpack
rng = random.Random(SEED)
big = 2 ** 500
def value(depth=0):
    kinds = [None, True, False, 0, 1, -1, 2**63, -(2**63), 2**64, big, -big, 0.5, float("nan"), float("inf"), "", "x",
        "sealed:a", "dataset:x", "\\u202e\\n\\x1b[31m", "y" * 300, "z" * 70_000, b"", b"\\0" * 32, b"q" * 70_000, (), {},
        KNOWN, str(KNOWN), "alice", "owner", "patients"]
    if depth < 3 and rng.random() < 0.4:
        items = [value(depth + 1) for _ in range(rng.randrange(5))]
        return tuple(items) if rng.random() < 0.6 else {str(i): item for i, item in enumerate(items)}
    return rng.choice(kinds)
from syft.grid.isolation.records.items import write_item
from syft.grid.storage.interface import Item
from syft.core.references import TensorMeta
import torch
ITEM = write_item(Item(rng.getrandbits(60), TensorMeta(torch.Size([3]), torch.float32, False), frozenset({"#f"})))
LIKELY = {
    "open": (KNOWN, ""), "read": (KNOWN, ""), "put": (ITEM,), "amend": (ITEM,), "remove": (KNOWN, None), "search": ("#patients",),
    "request": (99, "why", "tensor", (3,), 12, ()), "request_status": ("x",), "fetch": (99, "x"), "list_rights": ("requests", None),
    "decide": ("x", True, None, "result", ""), "revoke": ("x",), "share": (KNOWN, ("bob",), False),
    "budget": ("left", {}), "dp_query": ("count", KNOWN, None, {"where": None, "epsilon": 1e-9, "mechanism": "laplace", "delta": 0.0}),
    "federated_call": ("fit", "run", ("x",)), "fit": ("x", "cpu"), "expect": (b"\\0" * 32,),
    "check_peer": ("ws://127.0.0.1:1",), "dial": ("ws://127.0.0.1:1", 0.1, b"\\0" * 32),
}
def changed(args):
    args = list(args)
    for _ in range(rng.randrange(1, 3)):
        how = rng.randrange(4)
        if how == 0 and args:
            args[rng.randrange(len(args))] = value()
        elif how == 1:
            args.append(value())
        elif how == 2 and args:
            args.pop()
        elif args:
            at = rng.randrange(len(args))
            if isinstance(args[at], tuple) and args[at]:
                inner = list(args[at]); inner[rng.randrange(len(inner))] = value(); args[at] = tuple(inner)
            elif isinstance(args[at], dict):
                args[at] = {**args[at], rng.choice(list(args[at]) or ["data"]): value()}
    return tuple(args)
outcomes = {}
for number in range(COUNT):
    for name in NAMES:
        args = changed(LIKELY.get(name, ())) if rng.random() < 0.8 else tuple(value() for _ in range(rng.randrange(7)))
        body = rng.choice([b"", b"x", b"\\x93\\x01\\x02", b"\\xff" * 100, msgpack.packb([1, [2, "x"]])])
        try:
            services.ask(name, *args, body=body)
            kind = "answered"
        except Exception as error:
            kind = type(error).__name__ + (" INTERNAL" if "its log says why" in str(error) else "")
        outcomes.setdefault(name, {}).setdefault(kind, 0)
        outcomes[name][kind] += 1
for row in services.call('items'):
    services.call('remove', row[0], None)
import json
print(json.dumps(outcomes))
"""


def test_calls_with_wrong_types_and_sizes_are_refused(target, mallory):
    (patients,) = target.owner.search("#patients")
    before = target.log.stat().st_size
    count, total = deep(30, 700), 0
    slow = {"dp_query", "federated_call", "fit", "model", "infer", "run_program"}  # each answered call starts a process
    with undisturbed(target.node):
        for names, rounds in ((sorted(set(CALLS) - slow), count), (sorted(slow), max(2, count // 20))):
            for seed in range(rounds):
                head = f"SEED, COUNT, NAMES, KNOWN = {seed}, 3, {names!r}, {patients.id_at_location}\n"
                outcomes = json.loads(mallory.does(head + FUZZ))
                total += sum(sum(kinds.values()) for kinds in outcomes.values())
                assert not any("INTERNAL" in kind for kinds in outcomes.values() for kind in kinds), log_since(
                    target, before
                )
        assert mallory.does("print(services.call('items'))") == "()\n"
    print(f"{total} forged calls of {len(CALLS)} kinds")
    assert "Traceback" not in log_since(target, before), log_since(target, before)


def log_since(target, position):
    """Return what the node has logged since."""
    with target.log.open(errors="replace") as file:
        file.seek(position)
        return file.read()[-6000:]


# --- garbage on the sockets ---------------------------------------------------------------------------------------

GARBAGE = {
    "random bytes": "sock.sendall(random.randbytes(5000))",
    "a long header": "sock.sendall(struct.pack('<BBIQ', 3, 0, 2**32 - 1, 0))",
    "a long body": "sock.sendall(struct.pack('<BBIQ', 2, 0, 1, 2**63) + b'\\xc0' + b'x' * 100_000)",
    "an unknown kind": "sock.sendall(struct.pack('<BBIQ', 99, 0, 1, 0) + b'\\xc0')",
    "a result": "sock.sendall(struct.pack('<BBIQ', 4, 0, 1, 0) + b'\\xc0')",
    "a request": "sock.sendall(struct.pack('<BBIQ', 1, 0, 1, 0) + b'\\xc0')",
    "deep nesting": "sock.sendall(struct.pack('<BBIQ', 3, 0, 200_000, 0) + b'\\x91' * 200_000)",
    "many empty dicts": "sock.sendall(struct.pack('<BBIQ', 3, 0, 200_005, 0) + b'\\xdd' + struct.pack('>I', 200_000) + b'\\x80' * 200_000)",
    "colliding keys": "sock.sendall(collisions())",
    "descriptors": "socket.send_fds(sock, [struct.pack('<BBIQ', 3, 16, 1, 0) + b'\\xc0'], [0] * 16)",
    "descriptors, then the end": "socket.send_fds(sock, [struct.pack('<BBIQ', 3, 16, 50, 0)], [0] * 16); os._exit(0)",
    "half a frame, then the end": "sock.sendall(struct.pack('<BBIQ', 2, 0, 1, 1000) + b'\\xc0abc'); os._exit(1)",
    "half a frame, then nothing": "sock.sendall(b'\\x02'); time.sleep(1000)",
    "two answers": "channel.send(Kind.ANSWER, (False, ()), b'1'); channel.send(Kind.ANSWER, (False, ()), b'2')",
    "an answer of a wrong form": "channel.send(Kind.ANSWER, {'a': (1, 2)}, b'1')",
    "the end": "os._exit(3)",
    "a crash": "__import__('ctypes').string_at(0)",
    "a stop": "os.kill(os.getpid(), 19)",
    "an end of its socket": "sock.shutdown(2)",
    "all its descriptors": "os.closerange(3, 200)",
    "garbage on the shared channel": "shared.sock.sendall(random.randbytes(5000)); time.sleep(1000)",
    "garbage on the control channel": "process.control.sock.sendall(random.randbytes(5000))",
    "memory": "blocks = [bytearray(1 << 28) for _ in range(200)]",
    "threads": "import threading; [threading.Thread(target=time.sleep, args=(1000,)).start() for _ in range(100_000)]",
    "sleep": "time.sleep(1000)",
    "a loop": "while True: pass",
}
HEAD = """
import os, random, socket, struct, time
def collisions():
    import msgpack
    keys = b"".join(msgpack.packb(msgpack.ExtType(1, ((2**61 - 1) * n).to_bytes(24, "big", signed=True))) + b"\\xc0" for n in range(1, 7_000))
    return struct.pack("<BBIQ", 3, 0, len(keys) + 5, 0) + b"\\xdf" + struct.pack(">I", 6_999) + keys
"""


def test_garbage_ends_only_the_process_that_sends_it(clinic):
    """Each ends its own process, or nothing; the node keeps no descriptor of it."""
    before, descriptors = clinic.log.stat().st_size, fds_of(clinic)
    with undisturbed(clinic.node):
        for name, code in GARBAGE.items():
            began = time.monotonic()
            with contextlib.closing(clinic.mallory()) as mallory:
                answer = mallory.does(f"{HEAD}\n{code}\n")
            took = time.monotonic() - began
            assert took < 60, name
            ended = answer is None or "Your session at this node ended" in answer
            assert ended or answer in ("-", "1", "2") or "Traceback" in answer, (name, answer)
            assert soon(lambda: clinic.answers(), 10), name
    said = log_since(clinic, before)
    assert "Traceback" not in said and "UNCAUGHT" not in said, said
    assert soon(lambda: fds_of(clinic) <= descriptors + 20, 20), (fds_of(clinic), descriptors)


def fds_of(target):
    """Return the number of descriptors that the node has open."""
    return sum(1 for _ in Path(f"/proc/{target.node.pid}/fd").iterdir())


def test_a_process_that_does_not_read_blocks_no_other_user(target):
    """Its control channel is full: only its own user is refused, and it is ended."""
    with undisturbed(target.node):
        with contextlib.closing(target.mallory()) as first:
            first.does("import threading; process.control.receive = lambda: __import__('time').sleep(1000)")
            first.does("process._orders['open'] = lambda *a: __import__('time').sleep(1000)")
            opened = []
            began = time.monotonic()
            try:
                for _ in range(40):
                    opened.append(target.mallory())
            except (OSError, ConnectionError):
                pass
            assert time.monotonic() - began < 60
            for visitor in opened:
                visitor.close()
            first.does("import os; os._exit(0)")


def test_a_flood_of_calls_does_not_keep_the_node_from_answering(target):
    flood = "import time\nend = time.monotonic() + 1.0\nn = 0\nwhile time.monotonic() < end:\n    n += 1\n    try: services.ask(*CALL)\n    except Exception: pass\nprint(n)"
    calls = [("search", "#patients"), ("open", 1, ""), ("list_rights", "requests", None), ("nothing",)]
    with undisturbed(target.node):
        for call in calls:
            with contextlib.closing(target.mallory()) as mallory:
                print(call[0], "calls in 1 s:", mallory.does(f"CALL = {call!r}\n{flood}").strip())


# --- vaults -------------------------------------------------------------------------------------------------------

LOAD = """
from syft.core.references import Ref
from syft.grid.isolation.records.records import CallRecord, encode
(found,) = services.call("search", "#patients")
data = found[0]
for result in (5000, 99):
    services.call("vault", body=encode(CallRecord("torch.Tensor.add", (Ref(data), 0), {}, (result,))))
"""
# Programs that try to leak the private data of a vault.
LEAKS = {
    "an unasked answer": "channel.send(Kind.ANSWER, 1, secret); channel.send(Kind.FAILED, (1, secret.hex()))",
    "an answer for later": "channel.send(Kind.ANSWER, 5, secret)",
    "a call": "channel.send(Kind.CALL, ('search', ()), secret)",
    "a result": "channel.send(Kind.RESULT, None, secret)",
    "large answers": "\nfor n in range(1, 100): channel.send(Kind.ANSWER, n, secret + bytes(1 << 24))",
    "its sockets": "import os, socket\nfor fd in range(3, 20):\n    try: os.write(fd, secret)\n    except OSError: pass",
    "its end": "import os; os._exit(secret[0])",
    "its memory": "blocks = [bytearray(1 << 28) for _ in range(100)]",
    "a long pause": "import time; time.sleep(1000)",
    "the name of a call": "vault._progress.write(secret[:100].decode('latin1'))",
    "standard streams": "import sys; sys.stderr.write(repr(secret)); sys.stdout.write(repr(secret)); sys.stderr.flush()",
    "a file": "open('/dev/shm/x', 'wb').write(secret)",
    "the network": "import socket; socket.create_connection(('127.0.0.1', PORT))",
}


@pytest.mark.parametrize("leak", list(LEAKS))
def test_no_private_byte_leaves_a_hostile_vault(target, leak):
    program = (
        "store = vault.worker.object_store.objects\n"
        "secret = b''.join(bytes(t.numpy().tobytes()) for t in store.values() if hasattr(t, 'numpy'))\n"
        f"PORT = {target.node.port}\n{LEAKS[leak]}"
    )
    target.end_process()  # a vault that leaked before is dead, and would run nothing
    before = target.log.stat().st_size
    answers = []
    with contextlib.closing(target.mallory()) as mallory:
        mallory.does(LOAD)
        answers.append(mallory.does(f"in_vault({program!r})\nprint('sent')"))
        answers.append(mallory.does(LOAD + "print(services.call('items'))"))
        answers.append(mallory.does("import time; time.sleep(0.3)\nprint('later')"))
        answers.append(mallory.does("print(services.call('fetch', 99))"))
    assert answers == ["sent\n", "()\n", "later\n", answers[3]] and len(answers[3]) < 100
    received = bytes(target.line.received)
    for part in range(0, len(PATTERN) - 8, 4):
        piece = PATTERN[part : part + 8]
        assert piece not in received and piece.hex().encode() not in received
    said = log_since(target, before)
    assert "Traceback" not in said and "UNCAUGHT" not in said, said


def test_the_answer_to_a_request_does_not_depend_on_the_vault(target):
    """A vault can't signal by the size of the sealed copy, by a failure or by its end."""
    ways = {
        "honest": "",
        "large": "import torch; vault.worker.object_store.objects[99] = torch.arange(1500)",
        "small": "import torch; vault.worker.object_store.objects[99] = torch.zeros(1)",
        "missing": "vault.worker.object_store.objects.clear()",
        "forged": "vault._seal = lambda frame: channel.send(Kind.ANSWER, frame.header[1], b'0' * 10)",
        "ended": "import os; os._exit(1)",
    }
    rooms, rows = {}, {}
    program = """
row = services.call("request", 99, "why", "tensor", (512,), 4096, ())
print(sorted((key, value) for key, value in row.items() if key not in ("id", "at")))
try:
    services.call("request", 5000, "why", "tensor", (2 ** 40,), 2 ** 45, ())
except Exception as error:
    print(error)
print(services.call("fetch", 99), services.call("items"))
"""
    target.end_process()
    for way, inside in ways.items():
        for row in requests_of(target.node, USER, "pending"):
            decide(target.node, row["id"], "deny")
        with contextlib.closing(target.mallory()) as mallory:
            mallory.does(LOAD)
            mallory.does(f"in_vault({inside.ljust(100)!r})")  # all of one length, which the quota shows
            rows[way] = mallory.does(program)
            (row,) = requests_of(target.node, USER, "pending")
            told = http(target.node, "GET", "requests?status=pending", user=USER)
            told = [{k: v for k, v in row.items() if k not in ("id", "asked_at")} for row in told]
            rows[way] += re.sub(r"sha256 \w+", "sha256 of the program", repr(told))
            rooms[way] = rows[way].count("left of your quota")
            mallory.does("import os; os._exit(0)")
    assert set(rooms.values()) == {1}
    assert len(set(rows.values())) == 1, "\n".join(rows.values())


def test_blobs_do_not_hide_arguments_of_a_call(target):
    """A pointer inside a blob, and bytes that are no object under the id of a copy of private data."""
    pointer = target.owner.search("#patients")[0]
    written = serialize(pointer.child, target.hook.local_worker)
    program = f"""
from syft.core.references import Ref
from syft.grid.isolation.records.records import Blob, BlobAt, CallRecord, PutRecord, encode
(found,) = services.call("search", "#patients")
data = found[0]
blob = Blob("tensor", "int64 (1,)", {written!r})
records = (
    CallRecord("torch.Tensor.sum", (Ref(data),), {{}}, (7 * 10**9,)),
    CallRecord("torch.Tensor.clone", (BlobAt(0),), {{}}, (8 * 10**9,), True, (blob,)),
    CallRecord("torch.Tensor.clone", (Ref(data),), {{}}, (9 * 10**9,)),
    PutRecord(9 * 10**9, Blob("tensor", "int64 (1,)", b"garbage")),
)
for record in records:
    services.call("vault", body=encode(record))
for made in (8 * 10**9, 9 * 10**9):
    print(services.call("request", (made,), "my own numbers", "tensor", (1,), 8, ())["id"])
"""
    target.end_process()
    with contextlib.closing(target.mallory()) as mallory:
        ids = mallory.does(program).split()
        rows = {row["id"]: row for row in requests_of(target.node, USER, "pending")}
        assert [rows[one]["size"] for one in ids] == [None, None]
        assert all(
            "failed in the vault" in rows[one]["failure"] or "holds no object" in rows[one]["failure"] for one in ids
        )
        for one in ids:
            decide(target.node, one, "approve")
        assert "there is no value" in mallory.does("print(services.call('fetch', 9 * 10**9))")


def test_hostile_vaults_do_not_affect_other_users(target):
    """They sleep, loop, take memory and flood; the session of their own user ends by its limit at worst."""
    inside = {
        "sleep": "import time; time.sleep(1000)",
        "loop": "import signal\nfor n in (14, 27): signal.signal(n, signal.SIG_IGN)\nwhile True: pass",
        "memory": "blocks = [bytearray(1 << 28) for _ in range(100)]",
        "flood": "\nwhile True: channel.send(Kind.FAILED, (0, 'x' * 1000))",
        "stop": "import os; os.kill(os.getpid(), 19)",
    }
    with undisturbed(target.node):
        for code in inside.values():
            with contextlib.closing(target.mallory()) as mallory:
                mallory.does(LOAD)
                mallory.does(f"in_vault({code!r})")
                blob = "from syft.grid.isolation.records.records import *\nfor n in range(20): services.call('vault', body=encode(PutRecord(8, Blob('tensor', 'float32 (1,)', bytes(1 << 20)))))"
                mallory.does(blob)
                mallory.does("import os; os._exit(0)")


def test_a_vault_whose_call_never_ends_is_ended_by_the_node(clinic):
    """It has disarmed its own clock. Its user gets no report: whether a call ends may depend on values."""
    inside = (
        "import signal\nfor n in (14, 27):\n"
        "    signal.signal(n, signal.SIG_IGN)\nvault._progress.write('torch.exp')\nwhile True: pass"
    )
    for row in requests_of(clinic.node, USER, "pending"):
        decide(clinic.node, row["id"], "deny")
    with contextlib.closing(clinic.mallory()) as mallory:
        mallory.does("import os; os._exit(0)")  # the next session has a new vault
    with contextlib.closing(clinic.mallory()) as mallory:
        mallory.does(LOAD)
        (template,) = children_of(clinic.node.pid)
        before = set(children_of(template))
        mallory.does(f"in_vault({inside!r})")
        assert soon(lambda: len(before - set(children_of(template))) == 1, 30)
        asked = mallory.does('services.call("request", 99, "why", "tensor", (512,), 4096, ())\nprint("asked")')
        assert asked == "asked\n"
        (row,) = requests_of(clinic.node, USER, "pending")
        assert "the call torch.exp took longer than 1.5 s" in row["failure"]
        mallory.does("import os; os._exit(0)")


def test_no_private_bytes_were_received(hospital, clinic):
    """Runs last: everything that mallory received in all tests of this file."""
    for target in (hospital, clinic):
        received = bytes(target.line.received)
        print(f"{len(received)} bytes received")
        assert len(received) > 5_000
        for name, value in secrets_of(target).items():
            assert value not in received, name
        value = struct.pack("<q", PRIVATE[0].item())
        assert value not in received
