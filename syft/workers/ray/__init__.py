"""RayWorker: a worker that is an actor of a Ray cluster. `worker` runs at the client, `actor` in the cluster."""
