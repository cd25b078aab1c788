"""Terms: what strategies, privacy and secure aggregation add to the training at a client, one file each."""
