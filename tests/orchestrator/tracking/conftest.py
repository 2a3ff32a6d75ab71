"""A tiny sweep's finished store of made-up artifacts, and MLflow databases that cost no seven seconds each."""

import shutil

import pytest

from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.tracking import server
from smoothsweep.orchestrator.tracking.server import local_uri
from smoothsweep.sweeps.load import load_sweep
from tests import made_stores as made_up
from tests.made_stores import write_artifacts
from tests.tiny import write_tiny


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Made-up artifacts of few epochs, classes and pixels."""
    for name, value in {"EPOCHS": 5, "CLASSES": 4, "SIDE": 16}.items():
        monkeypatch.setattr(made_up, name, value)


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


@pytest.fixture
def hasty(monkeypatch):
    monkeypatch.setattr(server, "PROBE_S", 0.75)  # twice that is more than the patience with a lock
    monkeypatch.setattr(server, "PATIENCE_S", 1.0)
