"""The msgpack format."""

from syft.serde.msgpack.serde import deserialize as deserialize
from syft.serde.msgpack.serde import serialize as serialize
