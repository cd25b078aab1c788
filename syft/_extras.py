"""Optional packages: what they are for, and the command that installs them."""

from __future__ import annotations

import importlib.metadata
import re

__all__ = ["EXTRAS", "install_line", "requirements"]

# Extra of pyproject.toml -> what it is for, and its packages: import name -> distribution.
EXTRAS: dict[str, tuple[str, dict[str, str]]] = {
    "node": (
        "running nodes",
        {
            "fastapi": "fastapi",
            "uvicorn": "uvicorn",
            "jwt": "pyjwt",
            "argon2": "argon2-cffi",
            "sqlalchemy": "sqlalchemy",
            "typer": "typer",
        },
    ),
    "postgres": ("nodes with PostgreSQL", {"pg8000": "pg8000"}),
    "ray": ("workers in a Ray cluster", {"ray": "ray"}),
    "dp": ("training with differential privacy", {"opacus": "opacus"}),
    "tensorboard": ("logs of federated runs for TensorBoard", {"tensorboard": "tensorboard"}),
    "mlflow": ("logs of federated runs in MLflow", {"mlflow": "mlflow-skinny"}),
    "he": ("Paillier encryption", {"phe": "phe", "gmpy2": "gmpy2"}),
    "examples": ("the data sets of the examples", {"sklearn": "scikit-learn"}),
}


def requirements(extra: str) -> list[str]:
    """Return the requirements of an extra, such as phe>=1.5; without metadata, the names alone.

    They are named instead of the extra, because they install everywhere: in a clone, and from a package index.
    """
    try:
        lines = importlib.metadata.requires("resyft") or []
    except importlib.metadata.PackageNotFoundError:
        lines = []
    found = [line.partition(";")[0].strip() for line in lines if re.search(rf"\bextra == ['\"]{extra}['\"]", line)]
    return sorted(found) or sorted(EXTRAS[extra][1].values())


def install_line(extra: str) -> str:
    """Return the command that installs the packages of an extra."""
    return " ".join(["pip install", *(f"'{each}'" for each in requirements(extra))])
