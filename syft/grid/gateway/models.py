"""What the HTTP API of a gateway takes and gives: names, addresses and tags, all with bounds."""

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
    mpc: bool = Field(description="whether the node holds shares of it, and nobody has it in clear")


class Index(RequestBody):
    """What can be found at a node: tags and names, never values."""

    tags: list[Annotated[list[Tag], Field(max_length=MAX_TAGS)]] = Field(
        default=[], max_length=MAX_SETS, description="the different sets of tags of published objects"
    )
    models: list[ModelRow] = Field(default=[], max_length=MAX_MODELS)


class Registration(RequestBody):
    """A node that wants to be known."""

    id: NodeId
    address: Address = Field(description="where clients reach it, as wss://host:port")
    secret: Secret = Field(description="the key by which the node answers the gateway's challenge at that address")
    index: Index = Index()


class Registered(BaseModel):
    """A node that is known now."""

    lease: str = Field(description="to be shown with every heartbeat")
    lifetime: float = Field(description="seconds until the next heartbeat must have come")


class Heartbeat(RequestBody):
    """A node that is still there."""

    lease: Secret
    index: Index | None = Field(default=None, description="what can be found there, if that has changed")


class Farewell(RequestBody):
    """A node that leaves."""

    lease: Secret


class GatewayInfo(BaseModel):
    """How long a node is known."""

    lifetime: float


class TagQuery(RequestBody):
    """Tags that must all match."""

    query: list[Tag] = Field(max_length=MAX_TAGS)


class ModelQuery(RequestBody):
    """The name of a model."""

    model_id: ModelName


class NodeRow(BaseModel):
    """A node, and where it is."""

    id: str
    address: str


class Nodes(BaseModel):
    """Nodes, and where they are."""

    nodes: list[NodeRow]
