"""Tools for authors of encrypted models: check, validate, profile. Nothing in the runtime depends on them."""
