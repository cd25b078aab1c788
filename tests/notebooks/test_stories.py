"""The tutorials of 0.2, told in our own words and written as users wrote then, in a real Jupyter kernel.

All cells run twice in one session: workers are made again under the same names, and `Out[n]` keeps every result that
was displayed. Each story asserts its own results.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from tests.helpers.grid.node_processes import Fleet
from tests.helpers.nodes import websocket_server
from tests.notebooks.kernel import run, shown

STORIES = Path(__file__).parent / "stories"
NAMES = sorted(path.stem for path in STORIES.glob("*.py"))
DATA_OF_A_SERVER = """
worker.add_dataset(
    sy.BaseDataset(torch.tensor([[1.0, 1.0], [0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]), torch.tensor([1.0, 1.0, 1.0, 0.0])),
    key="xor",
)
"""


def tell(name, **variables):
    assert "Traceback" not in shown(run(STORIES / f"{name}.py", **variables))


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith(("grid_", "websocket_"))])
def test_story_on_virtual_workers(name):
    tell(name)


@pytest.fixture(scope="module")
def ports():
    """The ports of two servers in processes of their own, as environment variables."""
    with contextlib.ExitStack() as stack:
        servers = {
            name: stack.enter_context(
                websocket_server(f"notebook-{name}", prepare=DATA_OF_A_SERVER, trust_script_modules=True)
            )
            for name in ("alice", "bob")
        }
        yield {f"{name.upper()}_PORT": str(server.port) for name, server in servers.items()}


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("websocket_")])
def test_story_on_websocket_workers(name, ports):
    tell(name, **ports)


@pytest.fixture(scope="module")
def fleet():
    with Fleet() as fleet:
        yield fleet


@pytest.fixture(scope="module")
def open_grid(fleet):
    """Four nodes and a gateway without tokens, as for teaching."""
    gateway = fleet.gateway(tokens=False)
    nodes = fleet.nodes(*(f"story-{number}" for number in range(4)), gateway=gateway, tokens=False)
    return {"NODE_URLS": " ".join(node.url for node in nodes), "GATEWAY_URL": gateway.url}


@pytest.mark.parametrize("name", ["grid_01_intro", "grid_02_encrypted_service", "grid_03_smart_cities"])
def test_story_on_nodes_without_tokens(name, open_grid):
    tell(name, **open_grid)


def test_story_of_an_owner_and_a_scientist(fleet):
    """Two notebooks, two users: the data of the first outlives its kernel."""
    nodes = fleet.nodes("story-north", "story-south", users=("scientist",))
    urls = " ".join(node.url for node in nodes)
    tell("grid_04_populate", NODE_URLS=urls, OWNER_TOKENS=" ".join(node.tokens["owner"] for node in nodes))
    tell("grid_05_train", NODE_URLS=urls, SCIENTIST_TOKENS=" ".join(node.tokens["scientist"] for node in nodes))
