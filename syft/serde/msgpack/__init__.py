"""The msgpack format."""

from syft.serde.msgpack.proto import proto_type_info as proto_type_info
from syft.serde.msgpack.serde import deserialize as deserialize
from syft.serde.msgpack.serde import serialize as serialize
