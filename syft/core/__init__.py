"""What every syft object has: an id, an owner, tags, a place in a store."""
