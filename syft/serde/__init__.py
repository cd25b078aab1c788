"""Serialization: `serialize`, `deserialize`, and `register` for types of your own."""

from syft.serde import protobuf as protobuf
from syft.serde.buffer import Buffer as Buffer
from syft.serde.registry import register as register
from syft.serde.registry import serializes as serializes
from syft.serde.registry import table as table
from syft.serde.registry import unregister as unregister
from syft.serde.serde import deserialize as deserialize
from syft.serde.serde import serialize as serialize
