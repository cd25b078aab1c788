"""Loggers of federated runs: CSV, TensorBoard, MLflow, and the protocol for others."""
