"""A tiny sweep's finished store of made-up artifacts, and MLflow databases that cost no seven seconds each."""

import shutil

import pytest
from tiny import write_tiny

from benchmarks.tracking import write_artifacts
from orchestrator.store import Store
from orchestrator.tracking.connection import connect, local_uri
from orchestrator.trial import trials_of
from sweeps.load import load_sweep


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory):
    """An MLflow database with its tables and nothing in them."""
    path = tmp_path_factory.mktemp("empty") / "mlflow.db"
    connect(f"sqlite:///{path}")
    return path


@pytest.fixture
def store(tmp_path, empty_database):
    found = Store(root=tmp_path / "store")
    found.root.mkdir()
    shutil.copy(empty_database, found.root / "mlflow.db")
    return found


@pytest.fixture
def uri(store):
    return local_uri(store)


@pytest.fixture
def load(tmp_path):
    """Write and read a tiny sweep with these changes."""
    return lambda **changes: load_sweep(write_tiny(tmp_path, **changes))


@pytest.fixture
def finished(store):
    """Make the artifacts of a sweep's trials; returns the trials."""

    def make(loaded):
        trials = trials_of(loaded)
        write_artifacts(trials, store)
        return trials

    return make
