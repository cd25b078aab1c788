"""Requests and responses of the HTTP API of a gateway. All fields have bounds."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field, StringConstraints

from syft.grid.node.api.models import RequestBody

MAX_TAG = 256
MAX_TAGS = 64
MAX_SETS = 5000
MAX_MODELS = 2048
MAX_CHOICE = 64

NodeId = Annotated[str, StringConstraints(min_length=1, max_length=256)]
Address = Annotated[str, StringConstraints(min_length=6, max_length=300)]
Tag = Annotated[str, StringConstraints(min_length=1, max_length=MAX_TAG)]
ModelName = Annotated[str, StringConstraints(min_length=1, max_length=100)]
Secret = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$", max_length=64)]


class ModelRow(RequestBody):
    """A model that a node hosts for others."""

    name: ModelName
    mpc: bool = Field(description="whether it is encrypted: the node holds shares only")


class Index(RequestBody):
    """The searchable contents of a node: tags and names, never values."""

    tags: list[Annotated[list[Tag], Field(max_length=MAX_TAGS)]] = Field(
        default=[], max_length=MAX_SETS, description="the different sets of tags of published objects"
    )
    models: list[ModelRow] = Field(default=[], max_length=MAX_MODELS)


class Registration(RequestBody):
    """A registration of a node."""

    id: NodeId
    address: Address = Field(description="the URL for clients, as wss://host:port")
    secret: Secret = Field(description="the key of the response to the gateway's challenge")
    index: Index = Index()


class Registered(BaseModel):
    """A registered node."""

    lease: str = Field(description="to be sent with every heartbeat")
    lifetime: float = Field(description="seconds until the registration expires without a heartbeat")


class Heartbeat(RequestBody):
    """A heartbeat of a node."""

    lease: Secret
    index: Index | None = Field(default=None, description="the searchable contents, if they changed")


class Farewell(RequestBody):
    """A deregistration of a node."""

    lease: Secret


class GatewayInfo(BaseModel):
    """The remaining lifetime of a registration."""

    lifetime: float


class TagQuery(RequestBody):
    """Tags that must all match."""

    query: list[Tag] = Field(max_length=MAX_TAGS)


class ModelQuery(RequestBody):
    """The name of a model."""

    model_id: ModelName


class NodeRow(BaseModel):
    """A node and its address."""

    id: str
    address: str


class Nodes(BaseModel):
    """Nodes and their addresses."""

    nodes: list[NodeRow]
