"""ProcessWorker: a worker in a child process, on this side (`worker`) and in the child (`child`)."""
