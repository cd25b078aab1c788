"""The protobuf schema of the wire, and the code that `scripts/protos` makes from it."""
