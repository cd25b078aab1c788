"""One file a kind of tensor, each a link of the chain."""
