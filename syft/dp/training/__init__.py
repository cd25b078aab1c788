"""Training with differential privacy: DP-SGD at a worker, user-level privacy, and the engine for Opacus."""
