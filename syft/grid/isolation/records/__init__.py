"""Records of the calls that a session sent to its vault: codec, history, slices, listings, replay."""
