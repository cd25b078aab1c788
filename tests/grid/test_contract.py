"""Signatures of the classes for websockets, nodes and grids: names, order and defaults as they are documented.

Parameters that are ours come after the documented ones, and all have defaults.
"""

import inspect

import pytest

import syft as sy
from syft.grid.abstract_grid import AbstractGrid
from syft.grid.authentication import AbstractCredential, AccountCredential
from syft.workers.node_client import NodeClient
from syft.workers.websocket_client import WebsocketClientWorker

MISSING = inspect.Parameter.empty
NAME = {"id": MISSING}
SERVE = {"mpc": False, "allow_remote_inference": False, "allow_download": False, "n_replica": 1}
GRID = {
    "serve_model": {"model": MISSING, **NAME, **SERVE},
    "query_model_hosts": {**NAME, "mpc": False},
    "run_remote_inference": {**NAME, "data": MISSING, "mpc": False},
    "search": {"query": MISSING},
}
# class -> method -> parameters and defaults, in their order
DOCUMENTED = {
    WebsocketClientWorker: {
        "__init__": {
            "hook": MISSING, "host": MISSING, "port": MISSING, "secure": False, "id": 0, "is_client_worker": False,
            "log_msgs": False, "verbose": False, "data": None,
        },
        "connect": {}, "close": {}, "search": {"query": MISSING}, "list_objects_remote": {}, "objects_count_remote": {},
        "clear_objects_remote": {}, "async_fit": {"dataset_key": MISSING, "return_ids": None},
        "fit": {"dataset_key": MISSING},
        "evaluate": {
            "dataset_key": MISSING, "return_histograms": False, "nr_bins": -1, "return_loss": True,
            "return_raw_accuracy": True,
        },
    },
    sy.WebsocketServerWorker: {
        "__init__": {
            "hook": MISSING, "host": MISSING, "port": MISSING, "id": 0, "log_msgs": False, "verbose": False,
            "data": None, "loop": None, "cert_path": None, "key_path": None,
        },
        "start": {}, "list_objects": {"args": MISSING}, "objects_count": {"args": MISSING},
    },
    NodeClient: {
        "__init__": {
            "hook": MISSING, "address": MISSING, "credential": None, "id": 0, "is_client_worker": False,
            "log_msgs": False, "verbose": False, "encoding": "ISO-8859-1",
        },
        "connect_nodes": {"node": MISSING},
        "serve_model": {
            "model": MISSING, "model_id": None, "mpc": False, "allow_download": False, "allow_remote_inference": False,
        },
        "run_remote_inference": {"model_id": MISSING, "data": MISSING},
        "delete_model": {"model_id": MISSING},
    },
    AbstractGrid: {"__init__": {}, **GRID},
    sy.PrivateGridNetwork: {"__init__": {"workers": MISSING}, **GRID},
    sy.PublicGridNetwork: {"__init__": {"hook": MISSING, "gateway_url": MISSING, "credential": None}, **GRID},
    AbstractCredential: {"json": {}},
    AccountCredential: {
        "__init__": {"username": MISSING, "password": MISSING}, "parse": {"path": MISSING, "file_name": MISSING},
        "json": {},
    },
}  # fmt: skip
METHODS = [(cls, name) for cls, methods in DOCUMENTED.items() for name in methods]
PROPERTIES = [(WebsocketClientWorker, "url"), (NodeClient, "url"), (NodeClient, "models")]
# Documented without a default; ours have one, so every documented call works.
EASED = {(WebsocketClientWorker, "hook"), (WebsocketClientWorker, "host"), (WebsocketClientWorker, "port")} | {
    (sy.WebsocketServerWorker, "host"), (sy.WebsocketServerWorker, "port"),
}  # fmt: skip
VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@pytest.mark.parametrize(("cls", "name"), METHODS, ids=lambda it: it if isinstance(it, str) else it.__name__)
def test_methods_take_the_documented_arguments_in_order(cls, name):
    found = dict(inspect.signature(getattr(cls, name)).parameters)
    found.pop("self", None)
    expected = DOCUMENTED[cls][name]
    assert list(found)[: len(expected)] == list(expected)
    for word, default in expected.items():
        assert found[word].default == default or (cls, word) in EASED, word
    for word in list(found)[len(expected) :]:
        assert found[word].default is not MISSING or found[word].kind in VARIADIC, word


@pytest.mark.parametrize(("cls", "name"), PROPERTIES, ids=lambda it: it if isinstance(it, str) else it.__name__)
def test_a_property_is_one(cls, name):
    assert isinstance(inspect.getattr_static(cls, name), property)


def test_encrypted_models_are_shared_by_four_nodes():
    assert sy.PrivateGridNetwork().SMPC_HOST_CHUNK == 4
