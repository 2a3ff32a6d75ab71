"""What every test shares: a quiet environment, one thread, the repository's root."""

import os
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_AUTH_MODE", "disabled")
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")

import pytest


@pytest.fixture(scope="session")
def repository() -> Path:
    return Path(__file__).resolve().parent.parent
