"""Constants of the messages between workers."""

from __future__ import annotations


class PLAN_CMDS:
    """Names of the plan commands."""

    FETCH_PLAN = "fetch_plan"
    FETCH_PROTOCOL = "fetch_protocol"


class TENSOR_SERIALIZATION:
    """Formats of a tensor's values on the wire."""

    RAW = "raw"
    TORCH = "torch"
    NUMPY = "numpy"
    TF = "tf"
    ALL = "all"


class GATEWAY_ENDPOINTS:
    """HTTP paths of a grid gateway."""

    SEARCH_TAGS = "/search"
    SEARCH_MODEL = "/search-model"
    SEARCH_ENCRYPTED_MODEL = "/search-encrypted-model"
    SELECT_MODEL_HOST = "/choose-model-host"
    SELECT_ENCRYPTED_MODEL_HOSTS = "/choose-encrypted-model-host"


class REQUEST_MSG:
    """Kinds of requests to a grid node."""

    TYPE_FIELD = "type"
    GET_ID = "get-id"
    CONNECT_NODE = "connect-node"
    HOST_MODEL = "host-model"
    RUN_INFERENCE = "run-inference"
    LIST_MODELS = "list-models"
    DELETE_MODEL = "delete-model"
    RUN_INFERENCE_MPC = "run-inference-mpc"
    AUTHENTICATE = "authentication"


class RESPONSE_MSG:
    """Keys of a grid node's response."""

    NODE_ID = "id"
    ERROR = "error"
    SUCCESS = "success"
    MODELS = "models"
    INFERENCE_RESULT = "prediction"
