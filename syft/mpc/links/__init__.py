"""Links between parties: frames of shares over sockets, their layout, and polling."""
